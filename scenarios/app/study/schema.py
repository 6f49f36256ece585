"""The version of what the program reads and writes: keys of studies, tables and summaries of runs."""

SCHEMA_VERSION = 6
"""raised when a key of studies, a table, a column or a key of summaries gets another name or meaning"""
