"""Server optimisers: how the global models move along the merged update."""

from netsim.part import OneOf

SERVER_OPTIMISERS = OneOf(
    "server-optimiser",
    places={
        "fedavg": "fl.server_optimiser.fedavg:FedAvgStep",
        "fedavgm": "fl.server_optimiser.fedavgm:FedAvgM",
        "fedadam": "fl.server_optimiser.fedadam:FedAdam",
        "fedyogi": "fl.server_optimiser.fedyogi:FedYogi",
    },
)
"""The server optimiser slot: from the merged update to the step of the global models."""
