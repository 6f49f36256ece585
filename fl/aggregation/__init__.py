"""Aggregation: how the server merges what it received."""

from fl.aggregation.beda import Beda
from fl.aggregation.fedavg import FedAvg
from fl.aggregation.uniform import Uniform
from fl.aggregation.wasserstein import Wasserstein
from netsim.part import OneOf

AGGREGATIONS = OneOf("aggregation", FedAvg, Uniform, Wasserstein, Beda)
