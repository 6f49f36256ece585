"""Reinforcement learning of uplink power: above `fl`, below `scenarios`.

Importing it registers three Gymnasium environments, which are imported when one is made.
"""

import gymnasium

ALLOCATION = "netsim/PowerAllocation-v0"
ONLINE = "netsim/OnlinePower-v0"
UE = "netsim/UePower-v0"

gymnasium.register(ALLOCATION, entry_point="scenarios.app.training.environments:make_allocation")
gymnasium.register(ONLINE, entry_point="scenarios.app.training.environments:make_online")
gymnasium.register(UE, entry_point="scenarios.app.training.judge:make_ue_power")
