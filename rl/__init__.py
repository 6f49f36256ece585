"""Reinforcement learning of uplink power stands on this floor, above `fl` and below `scenarios`."""
