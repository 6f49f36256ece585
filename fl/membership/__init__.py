"""Membership: from a model or an update, was this record among those that it was trained on?"""

from fl.membership.base import GradientNorm, LossThreshold
from netsim.part import OneOf

INFERENCES = OneOf("membership", LossThreshold, GradientNorm)
