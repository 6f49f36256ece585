"""Inference over time: what an attacker makes of estimates of many rounds."""
