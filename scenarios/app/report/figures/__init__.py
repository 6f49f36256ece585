"""The figures of the pages."""
