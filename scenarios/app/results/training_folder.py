"""The folder of a training: the names of its files."""

TRAINING, CURVE, EVALUATIONS = "training.json", "curve.csv", "evaluations.csv"
EPISODE, EPISODE_ROUNDS, EPISODE_SCENE = "episode.csv", "episode_rounds.csv", "episode.json"
WORLDS = "worlds.npz"
"""what an unfinished training has found out about worlds and rules"""
KIND = "training"
"""what training.json says that it is"""
MOST_UES, MOST_ROUNDS = 200, 500
"""UEs and rounds of the episode that are kept, evenly spaced"""
EPISODE_UE_COLUMNS = ("policy", "round", "ue", "x_m", "y_m", "base_station", "power_w", "arrived", "cost")
EPISODE_ROUND_COLUMNS = (
    "policy", "round", "cost", "noise", "loss", "leakage", "lost", "leak", "energy_j", "artificial", "sent", "arrived"
)  # fmt: skip
