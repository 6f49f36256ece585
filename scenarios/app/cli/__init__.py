"""The command `netsim`."""
