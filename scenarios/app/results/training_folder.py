"""The folder of a training: the names of its files."""

TRAINING, CURVE, EVALUATIONS = "training.json", "curve.csv", "evaluations.csv"
KIND = "training"
"""what training.json says that it is"""
