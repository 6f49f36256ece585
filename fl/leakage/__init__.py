"""Leakage of location: distances between estimated and true positions."""
