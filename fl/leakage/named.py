"""The places that an attack names of a UE: at most two, where home and work are looked for.

An attack that answers (estimates "answer") names them itself, best first. Of any other attack they are the two highest
density peaks of all its estimates so far, which an attacker without the truth can compute.
"""

from __future__ import annotations

import numpy as np

from fl.types import Estimates
from netsim.geometry import Area
from netsim.units import FloatArray

MOST_NAMED = 2
"""places that an attack may name of a UE; of more answers those of largest weight count"""


def answers_of(estimates: Estimates, area: Area) -> dict[int, FloatArray]:
    """What an attack answers in a round, by UE: (<= 2, 2), by descending weight, whatever model they stand at.

    A place that is repeated, for instance at each model of the UE, counts once. Answers outside of the area, or not
    finite, are left out; a UE of which only such ones were given has no places (0, 2).
    """
    given = np.flatnonzero([what == "answer" for what in estimates.what])
    given = given[np.argsort(estimates.ue[given], kind="stable")]
    ues, first = np.unique(estimates.ue[given], return_index=True)
    found = {}
    for ue, mine in zip(ues.tolist(), np.split(given, first[1:]), strict=False):  # an empty split where nobody answers
        inside = mine[area.contains(estimates.position_m[mine])]
        found[ue] = _best(estimates.position_m[inside], estimates.weight[inside])
    return found


def _best(position_m: FloatArray, weight: FloatArray) -> FloatArray:
    """The places (<= 2, 2) of largest weight, each once; of equal weights the first."""
    ordered = position_m[np.argsort(-weight, kind="stable")]
    _, first = np.unique(ordered, axis=0, return_index=True)
    return ordered[np.sort(first)[:MOST_NAMED]]
