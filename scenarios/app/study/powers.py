"""The slot of power control, joined here because its parts live on two floors."""

from netsim.part import OneOf
from netsim.radio import POWERS as WITHOUT_LEARNING

POWERS = OneOf(
    "power",
    places=WITHOUT_LEARNING
    | {
        "ddpg": "rl.ddpg_power:Ddpg",
        "shared": "rl.shared_power:Shared",
        "rule": "rl.rule_power:Rule",
    },
)
