"""Finished work repeated, and compared."""
