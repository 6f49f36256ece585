"""Local optimisers: how a device moves its weights along the gradients of its batches."""

from netsim.part import OneOf

OPTIMISERS = OneOf(
    "optimiser",
    places={
        "sgd": "fl.optimisers.sgd:Sgd",
        "momentum": "fl.optimisers.momentum:Momentum",
        "adam": "fl.optimisers.adam:Adam",
    },
)
"""The slot of a learner's local optimiser."""
