"""Traces from files: formats, reading, and a look at what a file holds."""
