"""Aggregation: how the server merges what it received."""

from fl.aggregation.fedavg import FedAvg
from fl.aggregation.uniform import Uniform
from netsim.part import OneOf

AGGREGATIONS = OneOf("aggregation", FedAvg, Uniform)
