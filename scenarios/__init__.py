"""Studies written as YAML: reading them, running them, and saying what is wrong with them."""
