"""A scenario file becomes a frozen study, or one line for each mistake."""
