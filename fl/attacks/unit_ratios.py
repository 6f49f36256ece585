"""A fingerprint of the places behind an update: where the ratios of its units lie."""

from __future__ import annotations

from typing import cast

import numpy as np

from fl.attacks.base import View
from fl.attacks.closed_form import unit_cloud
from fl.learners.base import FirstLayerLearner
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray

OF_UNITS = {
    "rows": "units are those of single updates; let the threat see rows, or leave units out of use",
    "positions": "the ratios of units are places; leave units out of use",
    "biased first layer": "reads the ratios of the first layer's units; leave units out of use",
}
"""what is needed, and why"""


def median_ratios(view: View, of_source: IntArray, n: int, area: Area) -> FloatArray:
    """Of senders (n,), of_source (n_source,): the median ratio dW_h / db_h of all units (n, 2), m.

    A ratio is a mean of the places of the samples that a unit reads (see `fl.attacks.closed_form.unit_cloud`), so a UE
    that returns to its places has much the same ratios; the median heeds no single one. Those outside of the area do
    not count. NaN for a sender without any.
    """
    learner, middle_m = cast(FirstLayerLearner, view.learner), np.full((n, 2), np.nan)
    centre, scale = (each[view.source_model][:, None] for each in learner.standardisation(view.model_before))
    with np.errstate(over="ignore", invalid="ignore"):
        place_m = centre + scale * unit_cloud(*learner.first_layer(view.update))
    inside = area.contains(place_m)
    for sender in range(n):
        mine = of_source == sender
        points_m = place_m[mine][inside[mine]]
        if len(points_m):
            middle_m[sender] = np.median(points_m, axis=0)
    return middle_m
