"""The slot of power control, joined here because its parts live on two floors."""

from netsim.part import OneOf
from netsim.radio import POWERS as WITHOUT_LEARNING
from rl.ddpg_power import Ddpg
from rl.rule_power import Rule
from rl.shared_power import Shared

POWERS = OneOf("power", *WITHOUT_LEARNING, Ddpg, Shared, Rule)
