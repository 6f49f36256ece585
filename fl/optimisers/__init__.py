"""Local optimisers: how a device moves its weights along the gradients of its batches."""

from fl.optimisers.adam import Adam
from fl.optimisers.momentum import Momentum
from fl.optimisers.sgd import Sgd
from netsim.part import OneOf

OPTIMISERS = OneOf("optimiser", Sgd, Momentum, Adam)
"""The slot of a learner's local optimiser."""
