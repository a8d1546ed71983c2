"""Reports of a run: text for a terminal, JSON for programs, HTML to read."""
