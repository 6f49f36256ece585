"""Answers of the attack `tracker` about the places of UEs, from its beliefs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.attacks.base import View, recall
from fl.tracking.discs import blurred
from fl.tracking.error_model import ErrorModel
from fl.tracking.maps import Maps
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates
from netsim.units import FloatArray, IntArray


def shown(p: Maps, errors: ErrorModel | None, grid: PlaceGrid) -> Maps:
    """Beliefs (k, G) of where UEs are: of where estimates show them, moved by the error that persists."""
    return p if errors is None else blurred(p, grid, errors.bias_m)


def estimates(
    view: View, said: Estimates, named: IntArray, ues: IntArray, place_m: FloatArray, sure: FloatArray
) -> Estimates:
    """The answers (k, 2) about UEs (k,) ascending, for every target, then what the tracked attack says itself."""
    known, new = np.isin(view.ue, ues), np.isin(view.ue, named)
    status = ["ok" if n else "moved on" if k else "unknown" for n, k in zip(new, known, strict=True)]
    weight = np.nan_to_num(recall(ues, sure, view.ue))
    own = Estimates.of(view.ue, view.model, "centroid", recall(ues, place_m, view.ue), weight, status)
    plain = said.select(np.flatnonzero([what in ("centroid", "place", "answer") for what in said.what]))
    return Estimates.join([own, replace(plain, what=["plain"] * len(plain.ue))])
