"""Federated learning inside the simulated world: data, learners, defenses, attacks, metrics,
rounds.
"""
