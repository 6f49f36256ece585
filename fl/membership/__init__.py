"""Membership inference: whether a record was in the training data of a model or an update."""

from fl.membership.base import GradientNorm, LossThreshold
from netsim.part import OneOf

INFERENCES = OneOf("membership", LossThreshold, GradientNorm)
