r"""The error of an attack, learnt by the attacker on UEs that it makes up.

The replica of the training (see `fl.attacks.base.Replica`) gives the updates of made-up UEs with all defenses, the
attack estimates where they were, and the attacker knows the truth of its own UEs. The parameters of
`fl.tracking.error_model.ErrorModel` are the maximum of the likelihood (EM). Nothing of a real UE's position enters.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from fl.attacks.base import Attack, View
from fl.attacks.pace import Pace
from fl.attacks.shadow_ues import STILL_M, Population, made_up
from fl.tracking.error_model import ErrorModel
from fl.types import Estimates, RoundContext, State
from netsim.checkpoint import from_tree, to_tree
from netsim.columns import frozen, no_floats, no_ints, no_places
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

MOST_RANKS = 4
"""places of a UE and round that count, by descending weight"""
_MOST_KEPT = 512  # residuals; older ones are forgotten, since errors change as the model learns
_STEPS = 60  # of EM
_LEAST_M, _LEAST_GAIN = 1.0, 0.001
_FEWEST = 10
_MEDIAN = float(np.log(2.0))  # of |b|^2 / 2 for b of two standard normal numbers
_MATCHED = tuple(2**k for k in range(2, 13))  # rounds after which the motion of made-up UEs is matched again


def named_places(estimates: Estimates, area: Area) -> tuple[IntArray, FloatArray]:
    """Estimates of each UE: names (k,) ascending, places (k, R, 2), NaN where fewer were named.

    Centroids count where there are any, averaged over the models of the UE; they stand at all ranks, so that their
    errors may have several scales. Else places or answers count, by weight. What lies outside the area was not named.
    """
    names = np.unique(estimates.ue)
    found = np.full((len(names), MOST_RANKS, 2), np.nan)
    what = np.array(estimates.what, dtype=object)
    inside = area.contains(estimates.position_m)
    centroid = inside & (what == "centroid")
    others = inside & ((what == "place") | (what == "answer"))
    row = np.searchsorted(names, estimates.ue)
    count = np.bincount(row[centroid], minlength=len(names))
    for axis in (0, 1):
        total = np.bincount(row[centroid], weights=estimates.position_m[centroid, axis], minlength=len(names))
        mean = np.divide(total, count, out=np.full(len(names), np.nan), where=count > 0)
        found[:, :, axis] = mean[:, None]
    some = np.flatnonzero(others & (count[row] == 0))
    some = some[np.lexsort((-estimates.weight[some], row[some]))]
    start = np.searchsorted(row[some], row[some], "left")
    rank = np.arange(len(some)) - start
    first = rank < MOST_RANKS
    found[row[some[first]], rank[first]] = estimates.position_m[some[first]]
    return names, found


@frozen
class LearntErrors:
    """Observations of the attacker on its own UEs.

    of, replica : states of the attack, and of the parts, for them, as trees (see `netsim.checkpoint`), empty before the
    first round; named_m (m, R, 2) : estimates, NaN where nothing was named; ue, round (m,) : whose, and when; truth_m
    (m, 2) : of them; displacements_m (n,) : how far they had moved since the round before; learnt : rounds learnt from;
    fitted : the model, None before anything was named; pace : how they move.
    """

    of: State = field(default_factory=dict)
    replica: State = field(default_factory=dict)
    named_m: FloatArray = field(default_factory=lambda: np.zeros((0, MOST_RANKS, 2)))
    ue: IntArray = field(default_factory=no_ints)
    round: IntArray = field(default_factory=no_ints)
    truth_m: FloatArray = field(default_factory=no_places)
    displacements_m: FloatArray = field(default_factory=no_floats)
    learnt: int = 0
    fitted: ErrorModel | None = None
    pace: Pace = field(default_factory=Pace)

    def plus(
        self, view: View, facts: RoundContext, of: Attack, population: Population, n_ue: int, rng: Rng, fresh: bool
    ) -> LearntErrors:
        """With a round of its own UEs, n_ue or as many as the attacker sees together; unchanged without a replica.

        fresh : the attack forgets what it knew of them before.
        """
        if view.replica is None or not len(view.ue):
            return self
        if self.learnt in _MATCHED:
            known = self._matched(population)
            if known.pace is not self.pace:
                return replace(known, learnt=self.learnt + 1).plus(view, facts, of, population, n_ue, rng, fresh)
        n_ue, population = view.replica.made_up(n_ue), self.pace.of(population)
        rng = replace(rng, purpose=f"{rng.purpose}.simulated")
        data = made_up(n_ue, view, facts, population, rng)
        seen, replica = view.replica.play(data, self.replica, rng)
        before = from_tree(self.of["attack"], of.start()) if self.of else of.start()
        estimates, inner = of.run(seen, facts, before, rng)
        names, z = named_places(estimates, facts.public.area)
        truth = _means(data.ue, data.count, data.mean_x(), n_ue)
        named = np.full((n_ue, MOST_RANKS, 2), np.nan)
        named[names] = z
        known = replace(
            self,
            of={} if fresh else {"attack": to_tree(inner)},
            replica=replica,
            named_m=np.concatenate([self.named_m, named])[-max(_MOST_KEPT, n_ue) :],
            ue=np.concatenate([self.ue, np.arange(n_ue)])[-max(_MOST_KEPT, n_ue) :],
            round=np.concatenate([self.round, np.full(n_ue, facts.round)])[-max(_MOST_KEPT, n_ue) :],
            truth_m=np.concatenate([self.truth_m, truth])[-max(_MOST_KEPT, n_ue) :],
            learnt=self.learnt + 1,
        )
        here, last = known._successive()
        moved = np.hypot(*(known.truth_m[here] - known.truth_m[last]).T)
        return replace(known, displacements_m=moved, fitted=known._fit(facts.public.area, here, last))

    def _matched(self, population: Population) -> LearntErrors:
        """With UEs that move as real ones seem to; what was seen of others is forgotten, if they are others."""
        here, last = self._successive()
        step_m = np.hypot(*(self.named_m[here, 0] - self.named_m[last, 0]).T)
        pace = self.pace.matched(self.pace.of(population), step_m[np.isfinite(step_m)])
        if pace is self.pace:
            return self
        new = LearntErrors()
        return replace(
            self, pace=pace, of={}, named_m=new.named_m, ue=new.ue, round=new.round, truth_m=new.truth_m
        )  # fmt: skip

    def _successive(self) -> tuple[IntArray, IntArray]:
        """Entries (n,) that have one of the same UE in the round before, and those (n,)."""
        span = int(self.ue.max(initial=0)) + 1
        key = self.round * span + self.ue
        order = np.argsort(key, kind="stable")
        at = np.minimum(np.searchsorted(key[order], key - span), len(key) - 1)
        there = key[order[at]] == key - span if len(key) else np.zeros(0, dtype=np.bool_)
        return np.flatnonzero(there), order[at][there]

    def _fit(self, area: Area, here: IntArray, last: IntArray) -> ErrorModel | None:
        """The model that makes the residuals most likely."""
        some = np.isfinite(self.named_m[:, :, 0]).any(axis=1)
        if not some.any():
            return self.fitted
        model = fitted(self.named_m[some], self.truth_m[some], float(np.prod(area.side_m)))
        return replace(model, bias_m=self._lasting_m(model, here, last))

    def _lasting_m(self, model: ErrorModel, here: IntArray, last: IntArray) -> float:
        """Standard deviation a axis of what estimates of a UE that has not moved have in common in two rounds, from the
        median product of the two: a few UEs whose updates are lost in noise in all rounds err alike by far more.

        The rank that tells most counts, by its own line: a line through all ranks would displace exact estimates.
        """
        rank = int(np.argmax(model.share * (model.gain / model.sigma_m) ** 2))
        away = self.named_m[:, rank] - model.offset_m[rank] - model.gain[rank] * self.truth_m
        good, residual = np.hypot(*away.T) < 4 * model.sigma_m.max(), away / model.gain[rank]
        still = np.hypot(*(self.truth_m[here] - self.truth_m[last]).T) < STILL_M
        use = still & good[here] & good[last]
        product = (residual[here[use]] * residual[last[use]]).sum(axis=1) / 2
        common = float(np.median(product)) / _MEDIAN if len(product) >= _FEWEST else 0.0
        return float(np.sqrt(np.clip(common, 0.0, None)))


def fitted(named_m: FloatArray, truth_m: FloatArray, area_m2: float) -> ErrorModel:
    """Maximum likelihood of `ErrorModel` by EM for estimates (m, R, 2), NaN where fewer were named, of truth (m, 2).

    One false estimate is added to those seen, so that no outcome is ruled out by a small sample. Ranks that are the
    same place have one gain and offset.
    """
    there = np.isfinite(named_m).all(axis=2)
    one = np.array_equal(named_m, np.broadcast_to(named_m[:, :1], named_m.shape), equal_nan=True)
    z, ranks = np.nan_to_num(named_m), np.asarray(there.any(axis=0))
    gain, offset = np.ones(len(ranks)), np.zeros((len(ranks), 2))
    share, outlier = ranks / ranks.sum(), 0.1
    square = ((z - truth_m[:, None]) ** 2).sum(axis=2)
    low, high = np.maximum(np.sqrt(np.quantile(square[there], [0.1, 0.95]) / 2), _LEAST_M)
    sigma = np.geomspace(low, high, len(ranks))  # different ones, so that equal places part
    for _ in range(_STEPS):
        square = ((z - offset - gain[:, None] * truth_m[:, None]) ** 2).sum(axis=2)
        of_row = np.where(there, share, 0.0)
        of_row = of_row / np.maximum(of_row.sum(axis=1, keepdims=True), 1e-300)
        density = of_row * np.exp(-square / (2 * sigma**2)) / (2 * np.pi * sigma**2)
        whole = (1 - outlier) * density.sum(axis=1) + outlier / area_m2
        mine = (1 - outlier) * density / whole[:, None]
        if one:
            gain, offset = _lines((mine / sigma**2).sum(axis=1)[:, None], z[:, :1], truth_m, np.ones(1))
            gain, offset = np.repeat(gain, len(ranks)), np.repeat(offset, len(ranks), axis=0)
        else:
            gain, offset = _lines(mine, z, truth_m, sigma)
        square = ((z - offset - gain[:, None] * truth_m[:, None]) ** 2).sum(axis=2)
        weight, asked = mine.sum(axis=0), there.sum(axis=0)
        sigma = np.sqrt((mine * square).sum(axis=0) / np.maximum(2 * weight, 1e-9))
        sigma = np.clip(sigma, _LEAST_M, np.sqrt(area_m2))
        share = np.divide(weight, asked, out=np.zeros_like(weight), where=asked > 0)
        share = share / share.sum() if share.sum() > 0 else ranks / ranks.sum()
        outlier = min(float((outlier / area_m2 / whole).sum() + 1.0) / (len(square) + 1.0), 0.999)
    return ErrorModel(share, sigma, outlier, 0.0, gain, offset)


def _lines(
    weight: FloatArray, z: FloatArray, truth_m: FloatArray, sigma_m: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """gain (R,) and offset (R, 2) of the most probable z = offset + gain truth with weights (m, R) and errors sigma_m
    (R,), where a gain is beforehand 1 with a standard deviation of 1: it is seen, unless hardly anything was.
    """
    total = np.maximum(weight.sum(axis=0), 1e-9)[:, None]
    mean_z, mean_x = (weight[..., None] * z).sum(axis=0) / total, weight.T @ truth_m / total
    dz, dx = z - mean_z, truth_m[:, None] - mean_x
    over = (weight[..., None] * dz * dx).sum(axis=(0, 2)) + sigma_m**2
    under = (weight[..., None] * dx**2).sum(axis=(0, 2)) + sigma_m**2
    gain = np.clip(over / under, _LEAST_GAIN, 1.0 / _LEAST_GAIN)
    return gain, mean_z - gain[:, None] * mean_x


def _means(ue: IntArray, count: IntArray, mean_m: FloatArray, n_ue: int) -> FloatArray:
    """Mean position (n_ue, 2) of all samples of each UE, from those of its rows (n,)."""
    total = np.bincount(ue, weights=count, minlength=n_ue)
    parts = [np.bincount(ue, weights=count * mean_m[:, axis], minlength=n_ue) for axis in (0, 1)]
    return np.stack(parts, axis=1) / total[:, None]
