r"""The batch centroid in closed form from the first layer of an update."""

from typing import cast

import numpy as np
from pydantic import Field, PositiveFloat

from fl.attacks.base import Attack, Attacked, View
from fl.learners import FirstLayerLearner
from fl.types import Estimates, RoundContext, State
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_DEAD = 1e-6  # units whose bias moved less than this share of the largest carry only rounding


def estimate_centroid(dw: FloatArray, db: FloatArray) -> FloatArray:
    r"""Least-squares solution z of dW_h = db_h z over hidden units h, for each row.

    With g_ih the delta of unit h at sample i, summed over local steps,
    dW_h = sum_i g_ih z_i and db_h = sum_i g_ih, hence

        z = sum_h db_h dW_h / sum_h db_h^2,

    a weighted mean of the batch's inputs; step size and sign cancel. dw (n, hidden, p), db (n,
    hidden) -> (n, p); NaN where sum db^2 is 0 or not finite. Reference: Bakopoulou et al., Eq. 1
    (one unit), combined here over all units.
    """
    with np.errstate(all="ignore"):
        # so that squares of tiny updates do not underflow
        scale = np.abs(db).max(axis=1, initial=0.0)
        dw = dw / scale[:, None, None]
        db = db / scale[:, None]
        z = np.einsum("nh,nhp->np", db, dw) / np.einsum("nh,nh->n", db, db)[:, None]
    return np.where(np.isfinite(z), z, np.nan)


def compute_unit_ratios(dw: FloatArray, db: FloatArray) -> FloatArray:
    """Ratio r_h = dW_h / db_h of every unit: (n, hidden, p), NaN for a unit with a negligible
    update.

    With ReLU units r_h is the centroid of the samples that activate unit h, so the cloud separates
    places.
    """
    size = np.abs(db)
    alive = size > _DEAD * size.max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        return np.where(alive[:, :, None], dw / db[:, :, None], np.nan)


class ClosedForm(Attack, kind="closed-form"):
    """Recovers the centroid of a UE's batch from the first layer's weights and biases in closed
    form.

    Only the two rows of weights that read the standardised position are used, beside an encoding
    too. Whatever local training makes of the samples' gradients, dW_h and db_h are the same linear
    combination of them as long as no coordinate is treated differently: several steps, momentum
    that starts at zero, a proximal term (which shrinks the update so far), clipped gradients of
    samples or of a batch. Adam divides every coordinate by its own size.

    Estimates: `estimate_centroid` (`estimate_centroid`), and with `cloud` also `place`: centres of
    clusters (DBSCAN) of the per-unit ratios, weighted by their share of the units, which separate
    home from work when units are rectified. Exact for one sample; for FedSGD the error of one unit
    is (1 / (n gbar)) sum_i (g_i - gbar)(x_i - xbar).
    """

    cloud: bool = True
    """also estimate places from the cloud of per-unit ratios"""
    cluster_m: PositiveFloat = 75.0
    """eps of DBSCAN for the clusters of units, m"""
    cluster_units: int = Field(5, ge=1)
    """smallest number of units in a cluster"""
    max_places: int = Field(4, ge=1, le=64)
    """largest number of estimated places per UE and round"""

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Lemma 1, Eq. 1"
    space = {"cloud": (False, True)}
    needs = {
        "positions": "the network's inputs must be positions",
        "biased first layer": (
            "reads the update of a fully connected first layer with biases, whose first inputs are "
            "the position"
        ),
        "linear local steps": (
            "the ratio of two updates is a mean of places under steps that are linear in gradients"
        ),
        "linear server step": (
            "published models must differ by a sum of gradients; take fedavgm, or "
            "threat.observes: updates or aggregate"
        ),
    }

    def run(self, view: View, facts: RoundContext, state: State, rng: Rng) -> Attacked:
        learner = cast(FirstLayerLearner, view.learner)
        centre, scale = view.get_standardisation()
        dw, db = learner.first_layer(view.update)
        with np.errstate(over="ignore", invalid="ignore"):  # a wild ratio lands outside of any area
            place_m = centre + scale * estimate_centroid(dw, db)
            cloud = centre[:, None] + scale[:, None] * compute_unit_ratios(dw, db)
        estimates = [view.build_estimates("centroid", np.arange(len(place_m)), place_m)]
        if self.cloud:
            source, position, share = self._cluster_places(cloud)
            estimates.append(view.build_estimates("place", source, position, weight=share))
        return Estimates.join(estimates), state

    def _cluster_places(self, cloud: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Cluster centres of each source's cloud (n, hidden, 2), largest first.

        Returns source (k,), position (k, 2) and share (k,) of the source's live units.
        """
        from fl.dbscan import cluster_by_density  # compiled: not for readers of scenarios

        source = []
        position = []
        share = []
        for i, points in enumerate(cloud):
            points = points[np.isfinite(points).all(axis=1)]
            label = cluster_by_density(points, self.cluster_m, self.cluster_units)
            mass = np.bincount(label[label >= 0])
            for c in np.argsort(-mass, kind="stable")[: self.max_places]:
                source.append(i)
                position.append(points[label == c].mean(axis=0))
                share.append(mass[c] / len(points))
        return np.array(source, dtype=int), np.array(position).reshape(-1, 2), np.array(share)
