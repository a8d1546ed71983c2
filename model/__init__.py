"""The training lab: the paper's models, their training and what is measured in it."""
