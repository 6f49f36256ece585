"""Runs repeated from their folders, and compared number by number."""
