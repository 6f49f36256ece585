"""Pages of results: a function of run folders, without simulation."""
