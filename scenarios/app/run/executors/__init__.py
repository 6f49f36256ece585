"""Where pieces of work are played: in processes of this machine, or by the engine of a cluster."""
