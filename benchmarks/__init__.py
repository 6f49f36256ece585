"""Measurements of the program, and the makers of its example data."""
