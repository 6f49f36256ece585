"""A scenario file becomes a frozen study, or one line for each mistake."""

SCHEMA_VERSION = 6
"""raised when a key of studies, a table, a column or a key of summaries gets another name or meaning"""
