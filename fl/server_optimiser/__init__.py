"""Server optimisers: how the global models move along the merged update."""

from fl.server_optimiser.fedadam import FedAdam
from fl.server_optimiser.fedavg import FedAvg
from fl.server_optimiser.fedavgm import FedAvgM
from fl.server_optimiser.fedyogi import FedYogi
from netsim.part import OneOf

SERVER_OPTIMISERS = OneOf("server-optimiser", FedAvg, FedAvgM, FedAdam, FedYogi)
"""The server optimiser slot: from the merged update to the step of the global models."""
