"""Where jobs are played: in processes of this machine, or by the engine of a cluster."""

RETRIES = 2
"""attempts after the first one, unless stated"""
