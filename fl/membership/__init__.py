"""Membership inference: whether a record was in the training data of a model or an update."""

from netsim.part import OneOf

INFERENCES = OneOf(
    "membership",
    places={
        "loss-threshold": "fl.membership.base:LossThreshold",
        "gradient-norm": "fl.membership.base:GradientNorm",
        "gradient-regression": "fl.membership.base:GradientRegression",
        "lira": "fl.membership.shadow_models:Lira",
        "rmia": "fl.membership.shadow_models:Rmia",
    },
)
