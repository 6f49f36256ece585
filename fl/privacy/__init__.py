"""Privacy accounting: calculation apart from bookkeeping."""
