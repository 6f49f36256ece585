"""A round of learning: its state, its phases, its rows in the tables."""
