"""One file a trace format: each reads a path into a `Table`."""
