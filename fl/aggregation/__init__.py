"""Aggregation: how the server merges what it received."""

from fl.aggregation.fedavg import FedAvg
from netsim.part import OneOf

AGGREGATIONS = OneOf("aggregation", FedAvg)
