"""Density by random features: surfaces on a grid, and the bands of a wave."""
