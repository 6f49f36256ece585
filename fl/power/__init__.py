"""Transmit power on the convergence bound: the bound, and the search for powers."""
