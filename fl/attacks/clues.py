"""What an attacker reads from one round that may tell senders apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.attacks.base import View
from fl.tracking.book import Clues
from fl.tracking.likeness import NUMBERS, projected
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_LEAST_S = 1e-9


def clues_of(view: View, of_target: IntArray, places_m: FloatArray, fingerprint: bool, rng: Rng) -> Clues:
    """Of senders (k,): their places (k, R, 2), and fingerprints; of_target (n_target,): the sender of each target.

    Numbers are the logarithms of the amount of data and of the time per bit. In a sum of updates, amounts and
    directions of single ones are not seen.
    """
    n = len(places_m)
    x, cell, unit = np.full((n, 2), np.nan), np.full(n, -1), np.full((n, NUMBERS), np.nan)
    if not fingerprint or not n:
        return Clues(places_m, x, cell, unit)
    if view.vantage == "rows":
        of_source = np.zeros(len(view.update), dtype=np.int64)
        of_source[view.source] = of_target
        if view.count is not None:
            amount = np.bincount(of_source, weights=view.count, minlength=n)
            x[:, 0] = np.log(np.maximum(amount, 1.0))
        unit = projected(view.update, view.source_model, of_source, n, replace(rng, round=0))
    if view.timing is not None:
        _, first = np.unique(of_target, return_index=True)  # all models of a UE come together
        timing = view.timing.take(first)
        took_s = np.maximum(timing.arrived_s - timing.requested_s, _LEAST_S)
        with np.errstate(divide="ignore", invalid="ignore"):
            x[:, 1] = np.where(np.isfinite(took_s), np.log(took_s / timing.n_bits), np.nan)
        cell = timing.base_station
    return Clues(places_m, x, cell, unit)
