"""Commands that run the whole of the paper's checks and make its data and figures again."""
