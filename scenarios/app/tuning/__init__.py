"""Searches of a space of settings by trials: goals, trials, and what they found."""
