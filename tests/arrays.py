"""Arrays of tests as text."""

import re

import numpy as np


def read_array(text):
    """Read a vector `1 2 3` or the rows of a matrix `1 2; 3 4`, of integers where no point
    stands."""
    dtype = float if re.search(r"[.a-z]", text) else int
    rows = [np.array(row.split(), dtype) for row in text.strip("; ").split(";")]
    return np.array(rows) if ";" in text else rows[0]
