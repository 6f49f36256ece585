"""Numbers that hold for every engine."""

RETRIES = 2
"""attempts after the first one, where nobody says"""
