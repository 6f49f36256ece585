"""Playing studies: setup, planning, one run, sweeps."""
