"""Partitions: which images each device holds."""

from netsim.part import OneOf

PARTITIONS = OneOf(
    "partition",
    places={
        "label-skew": "fl.data.partition.label_skew:LabelSkew",
        "dirichlet": "fl.data.partition.dirichlet:Dirichlet",
    },
)
