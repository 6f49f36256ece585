"""Hand-made rows of the tables of tracking in a run folder."""

import csv
from pathlib import Path

import numpy as np

from fl.round.tables import TABLES

ATTACK = "closed-form"
CELL_M = 20.0


def write_rows(folder, table, rows):
    """Put rows into a table, in place of its own; missing cells are empty."""
    path = Path(folder) / f"{table}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(TABLES[table]), restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def tracked(
    round_,
    ue,
    hindsight,
    time_s,
    truth_m=(100.0, 100.0),
    answer_m=None,
    probability=0.5,
    attack=ATTACK,
    **changes,
):
    """A row of `tracking`: a belief about a place `answer_m` whose disc is right within 100 m of
    the truth."""
    answer_m = truth_m if answer_m is None else answer_m
    x_m, y_m = answer_m
    truth_x_m, truth_y_m = truth_m
    away_m = float(np.hypot(x_m - truth_x_m, y_m - truth_y_m))
    return {
        "round": round_,
        "time_s": time_s,
        "attack": attack,
        "ue": ue,
        "hindsight": hindsight,
        "x_m": x_m,
        "y_m": y_m,
        "disc_x_m": x_m,
        "disc_y_m": y_m,
        "disc_probability": probability,
        "stated_error_m": 50.0,
        "area50_m2": 1e4,
        "area90_m2": 4e4,
        "entropy_bits": 3.0,
        "error_m": away_m,
        "near": int(away_m <= 100),
        "expected_distance_m": away_m + 10,
        "in50": 1,
        "in90": 1,
        "truth_x_m": truth_x_m,
        "truth_y_m": truth_y_m,
        "plain_error_m": 300.0,
        "plain_near": 0,
        "prior_error_m": 150.0,
        "prior_near": 0,
        "prior_expected_distance_m": 180.0,
        **changes,
    }


def believed(row, cells, cell_m=CELL_M):
    """Rows of `beliefs` of the same attack, UE, round and hindsight; cells: x, y and probability of
    each."""
    keys = ("round", "time_s", "attack", "ue", "hindsight")
    return [
        {k: row[k] for k in keys} | {"x_m": x, "y_m": y, "probability": p, "cell_m": cell_m}
        for x, y, p in cells
    ]


def square(middle_m, n, cell_m=CELL_M):
    """Cells of a square of n x n about a place, on a raster, of equal probability that adds up to
    0.95."""
    x_m, y_m = (cell_m * (np.floor(v / cell_m) + 0.5 - n // 2) for v in middle_m)
    return [(x_m + cell_m * i, y_m + cell_m * j, 0.95 / n**2) for i, j in np.ndindex(n, n)]
