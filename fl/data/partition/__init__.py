"""Partitions: which images each device holds."""

from fl.data.partition.dirichlet import Dirichlet
from fl.data.partition.label_skew import LabelSkew
from netsim.part import OneOf

PARTITIONS = OneOf("partition", LabelSkew, Dirichlet)
