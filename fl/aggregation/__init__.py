"""Aggregation: how the server merges what it received."""

from netsim.part import OneOf

AGGREGATIONS = OneOf(
    "aggregation",
    places={
        "fedavg": "fl.aggregation.fedavg:FedAvg",
        "uniform": "fl.aggregation.uniform:Uniform",
        "wasserstein": "fl.aggregation.wasserstein:Wasserstein",
        "beda": "fl.aggregation.beda:Beda",
    },
)
