"""Clues of one round that distinguish senders."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

import numpy as np

from fl.attacks.base import View
from fl.tracking.fingerprint import DIRECTION, Clues, projected
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

NUMBERS = 2
"""numbers of a fingerprint: amount of data, time per bit"""
Clue = Literal["place", "fingerprint"]
_LEAST_S = 1e-9


def clues_of(view: View, of_target: IntArray, places_m: FloatArray, use: Collection[Clue], rng: Rng) -> Clues:
    """Clues `use` of senders (k,) from places (k, R, 2) and fingerprints; of_target (n_target,): the sender of each
    target.

    Numbers are the logarithms of the amount of data and of the time per bit. In a sum of updates, amounts and
    directions of single ones are not seen.
    """
    n = len(places_m)
    x, cell, unit = np.full((n, NUMBERS), np.nan), np.full(n, -1), np.full((n, DIRECTION), np.nan)
    known = Clues(places_m if "place" in use else np.full_like(places_m, np.nan), x, cell, unit)
    if not n or "fingerprint" not in use:
        return known
    if view.vantage == "updates":
        of_source = np.zeros(len(view.update), dtype=np.int64)
        of_source[view.source] = of_target
        x[:, 0] = _amounts(view, of_source, n)
        unit = projected(view.update, view.source_model, of_source, n, replace(rng, round=0))
    if view.timing is not None:
        _, first = np.unique(of_target, return_index=True)  # all models of a UE come together
        timing = view.timing.select(first)
        took_s = np.maximum(timing.arrived_s - timing.requested_s, _LEAST_S)
        with np.errstate(divide="ignore", invalid="ignore"):
            x[:, 1] = np.where(np.isfinite(took_s), np.log(took_s / timing.n_bits), np.nan)
        cell = timing.base_station
    return replace(known, x=x, cell=cell, unit=unit)


def _amounts(view: View, of_source: IntArray, n: int) -> FloatArray:
    """Logarithm of the amount of data (n,); NaN if unknown."""
    if view.count is None:
        return np.full(n, np.nan)
    return np.log(np.maximum(np.bincount(of_source, weights=view.count, minlength=n), 1.0))
