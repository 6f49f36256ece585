r"""The error of an attack, learnt by the attacker on UEs that it makes up.

The replica of the training (see `fl.attacks.base.Replica`) gives the updates of made-up UEs with
all defenses, the attack estimates where they were, and the attacker knows the truth of its own UEs.
The parameters of `fl.tracking.error_model.ErrorModel` are the maximum of the likelihood (EM).
Nothing of a real UE's position enters.

Estimates of a moving UE err more than those of one at rest, so what is learnt on UEs that move too
much says that all errors are large. The attacker sees how far the estimates of a UE lie apart in
two successive rounds. Made-up UEs whose estimates lie as far apart move as real ones do, or are
hidden in the same noise, and then nothing is changed:

    speed'   = speed  median(steps of real UEs) / median(steps of made-up UEs),      of steps above
    50 m,
    roaming' = 1 - rest (1 - roaming) / rest of made-up UEs,                         rest: share of
    steps below 50 m.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from fl.attacks.base import Attack, View
from fl.attacks.shadow_ues import ROAMING, SPEED_MPS, STILL_M, Population, made_up
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import successive
from fl.types import Estimates, Local, RoundContext, State
from netsim.checkpoint import from_tree, to_tree
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

MOST_RANKS = 4
"""places of a UE and round that count, by descending weight"""
_MOST_KEPT = (
    512  # residuals, or steps; older ones are forgotten, since errors change as the model learns
)
_STEPS = 60  # of EM
_LEAST_M = 1.0
_LEAST_GAIN = 0.001
_FEWEST = 10
_MEDIAN = float(np.log(2.0))  # of |b|^2 / 2 for b of two standard normal numbers
_FEWEST_STEPS = 16
_LEAST_MPS = 0.02
_MOST_MPS = 50.0
_AT_ONCE = 4.0  # factor of speeds
_SAME_SPEED = 1.25
_SAME_SHARE = 0.1  # what is nearer is left as it is
_MATCHED = tuple(
    2**k for k in range(2, 13)
)  # rounds after which the motion of made-up UEs is matched again


def named_places(estimates: Estimates, area: Area) -> tuple[IntArray, FloatArray]:
    """Estimates of each UE: names (k,) ascending, places (k, R, 2), NaN where fewer were named.

    Centroids count where there are any, averaged over the models of the UE; they stand at all
    ranks, so that their errors may have several scales. Else places or answers count, by weight.
    What lies outside the area was not named.
    """
    names, row = np.unique(estimates.ue, return_inverse=True)
    what = np.array(estimates.what, dtype=object)
    inside = area.contains(estimates.position_m)
    centroid = inside & (what == "centroid")
    count = np.bincount(row[centroid], minlength=len(names))
    total = np.zeros((len(names), 2))
    np.add.at(total, row[centroid], estimates.position_m[centroid])
    mean = total / np.where(count > 0, count, np.nan)[:, None]
    found = np.repeat(mean[:, None], MOST_RANKS, axis=1)
    others = inside & ((what == "place") | (what == "answer")) & (count[row] == 0)
    some = np.lexsort((-estimates.weight, row))
    some = some[others[some]]
    rank = np.arange(len(some)) - np.searchsorted(row[some], row[some])
    first = rank < MOST_RANKS
    found[row[some[first]], rank[first]] = estimates.position_m[some[first]]
    return names, found


@frozen
class OwnEstimates(Columns):
    """Estimates named_m (m, R, 2), NaN where nothing was named, of the attacker's own UEs ue (m,)
    in rounds round (m,), and the truth (m, 2).
    """

    named_m: FloatArray = field(default_factory=lambda: np.zeros((0, MOST_RANKS, 2)))
    ue: IntArray = field(default_factory=no_ints)
    round: IntArray = field(default_factory=no_ints)
    truth_m: FloatArray = field(default_factory=no_places)

    def successive(self) -> tuple[IntArray, IntArray]:
        """Entries (n,) that have one of the same UE in the round before, and those (n,)."""
        span = self.ue.max(initial=0) + 1
        key = self.round * span + self.ue
        _, here, last = np.intersect1d(key - span, key, return_indices=True)
        return here, last


@frozen
class Pace:
    """roaming, speed_mps : of made-up UEs; round : the last in which UEs ue (k,) were estimated at
    place_m (k, 2); steps_m (n,) : how far estimates of one UE in successive rounds lay apart.
    """

    roaming: float = ROAMING
    speed_mps: float = SPEED_MPS
    round: int = -1
    ue: IntArray = field(default_factory=no_ints)
    place_m: FloatArray = field(default_factory=no_places)
    steps_m: FloatArray = field(default_factory=no_floats)

    def of(self, population: Population) -> Population:
        """A population that moves so, but for what is given."""
        return replace(
            population,
            roaming=self.roaming if population.match_roaming else population.roaming,
            speed_mps=self.speed_mps if population.match_speed else population.speed_mps,
        )

    def seen(self, round_: int, ue: IntArray, place_m: FloatArray) -> Pace:
        """With estimates (k, 2) of real UEs (k,) ascending in a round; several looks at a round
        count as the first.
        """
        if round_ == self.round:
            return self
        now, then = successive(round_, ue, self.round, self.ue)
        step_m = np.hypot(*(place_m[now] - self.place_m[then]).T)
        steps_m = np.concatenate([self.steps_m, step_m[np.isfinite(step_m)]])[-_MOST_KEPT:]
        return replace(self, round=round_, ue=ue, place_m=place_m, steps_m=steps_m)

    def matched(self, population: Population, made_up_m: FloatArray) -> Pace:
        """After steps (m,) of estimates of UEs made up of that population; itself, where nothing
        differs or too little is known.
        """
        if min(len(made_up_m), len(self.steps_m)) < _FEWEST_STEPS:
            return self
        real, made = (step_m[step_m > STILL_M] for step_m in (self.steps_m, made_up_m))
        ratio = 1.0
        roaming = population.roaming
        if min(len(real), len(made)) >= _FEWEST_STEPS // 3:
            ratio = float(np.clip(np.median(real) / np.median(made), 1 / _AT_ONCE, _AT_ONCE))
        at_rest = 1 - len(real) / len(self.steps_m)
        made_at_rest = 1 - len(made) / len(made_up_m)
        if made_at_rest > _SAME_SHARE and roaming < 1:
            roaming = float(np.clip(1 - at_rest * (1 - roaming) / made_at_rest, 0.0, 1.0))
        elif at_rest > _SAME_SHARE:
            roaming = float(np.clip(1 - at_rest, 0.0, 1.0))
        speed_mps = float(np.clip(population.speed_mps * ratio, _LEAST_MPS, _MOST_MPS))
        differs = (
            max(speed_mps / population.speed_mps, population.speed_mps / speed_mps) > _SAME_SPEED
        )
        new = self
        if population.match_speed and differs:
            new = replace(new, speed_mps=speed_mps)
        if population.match_roaming and abs(roaming - population.roaming) > _SAME_SHARE:
            new = replace(new, roaming=roaming)
        return new


@frozen
class LearntErrors:
    """What the attacker has learnt from its own UEs.

    of, replica : states of the attack, and of the parts, for them, as trees (`netsim.checkpoint`),
    empty before the first round; tested : the latest estimates; displacements_m (n,) : how far the
    UEs had moved since the round before; learnt : rounds learnt from; fitted : the model, None
    before anything was named; pace : how they move.
    """

    of: State = field(default_factory=dict)
    replica: State = field(default_factory=dict)
    tested: OwnEstimates = field(default_factory=OwnEstimates)
    displacements_m: FloatArray = field(default_factory=no_floats)
    learnt: int = 0
    fitted: ErrorModel | None = None
    pace: Pace = field(default_factory=Pace)

    def plus(
        self,
        view: View,
        facts: RoundContext,
        of: Attack,
        population: Population,
        n_ue: int,
        rng: Rng,
        fresh: bool,
    ) -> LearntErrors:
        """With a round of its own UEs, n_ue or as many as the attacker sees together; unchanged
        without a replica.

        fresh : the attack forgets what it knew of them before.
        """
        if view.replica is None or not len(view.ue):
            return self
        known = self._matched(population) if self.learnt in _MATCHED else self
        n_ue = view.replica.made_up(n_ue)
        rng = replace(rng, purpose=f"{rng.purpose}.simulated")
        data = made_up(n_ue, view, facts, known.pace.of(population), rng)
        seen, replica = view.replica.play(data, known.replica, rng)
        if known.of:
            before = from_tree(known.of["attack"], of.start())
        else:
            before = of.start()
        estimates, inner = of.run(seen, facts, before, rng)
        named_m = np.full((n_ue, MOST_RANKS, 2), np.nan)
        names, found_m = named_places(estimates, facts.public.area)
        named_m[names] = found_m
        new = OwnEstimates(named_m, np.arange(n_ue), np.full(n_ue, facts.round), _means(data, n_ue))
        tested = OwnEstimates.join([known.tested, new]).select(slice(-max(_MOST_KEPT, n_ue), None))
        here, last = tested.successive()
        moved_m = np.hypot(*(tested.truth_m[here] - tested.truth_m[last]).T)
        some = tested.select(np.flatnonzero(np.isfinite(tested.named_m[:, :, 0]).any(axis=1)))
        model = known.fitted
        if len(some.ue):
            model = fitted(some.named_m, some.truth_m, float(np.prod(facts.public.area.side_m)))
            model = replace(model, bias_m=lasting_m(model, tested))
        attack = {} if fresh else {"attack": to_tree(inner)}
        return LearntErrors(attack, replica, tested, moved_m, self.learnt + 1, model, known.pace)

    def _matched(self, population: Population) -> LearntErrors:
        """With UEs that move as real ones seem to; what was seen of others is forgotten, if they
        are others.
        """
        here, last = self.tested.successive()
        step_m = np.hypot(*(self.tested.named_m[here, 0] - self.tested.named_m[last, 0]).T)
        pace = self.pace.matched(self.pace.of(population), step_m[np.isfinite(step_m)])
        if pace is self.pace:
            return self
        return replace(self, pace=pace, of={}, tested=OwnEstimates())


def lasting_m(model: ErrorModel, tested: OwnEstimates) -> float:
    """Standard deviation a axis of what estimates of a UE that has not moved have in common in two
    rounds, from the median product of the two: a few UEs whose updates are lost in noise in all
    rounds err alike by far more.

    The rank that tells most counts, by its own line: a line through all ranks would displace exact
    estimates.
    """
    here, last = tested.successive()
    rank = np.argmax(model.share * (model.gain / model.sigma_m) ** 2)
    away = tested.named_m[:, rank] - model.offset_m[rank] - model.gain[rank] * tested.truth_m
    good = np.hypot(*away.T) < 4 * model.sigma_m.max()
    residual = away / model.gain[rank]
    still = np.hypot(*(tested.truth_m[here] - tested.truth_m[last]).T) < STILL_M
    use = still & good[here] & good[last]
    product = (residual[here[use]] * residual[last[use]]).sum(axis=1) / 2
    if len(product) >= _FEWEST:
        common = np.median(product) / _MEDIAN
    else:
        common = 0.0
    return float(np.sqrt(max(common, 0.0)))


def fitted(named_m: FloatArray, truth_m: FloatArray, area_m2: float) -> ErrorModel:
    """Maximum likelihood of `ErrorModel` by EM for estimates (m, R, 2), NaN where fewer were named,
    of truth (m, 2).

    One false estimate is added to those seen, so that no outcome is ruled out by a small sample.
    Ranks that are the same place have one gain and offset.
    """
    there = np.isfinite(named_m).all(axis=2)
    one = np.array_equal(named_m, np.broadcast_to(named_m[:, :1], named_m.shape), equal_nan=True)
    z = np.nan_to_num(named_m)
    ranks = np.asarray(there.any(axis=0))
    share = ranks / ranks.sum()
    outlier = 0.1
    square = ((z - truth_m[:, None]) ** 2).sum(axis=2)
    low, high = np.maximum(np.sqrt(np.quantile(square[there], [0.1, 0.95]) / 2), _LEAST_M)
    sigma = np.geomspace(low, high, len(ranks))  # different ones, so that equal places part
    for _ in range(_STEPS):
        of_row = np.where(there, share, 0.0)
        of_row = of_row / np.maximum(of_row.sum(axis=1, keepdims=True), 1e-300)
        density = of_row * np.exp(-square / (2 * sigma**2)) / (2 * np.pi * sigma**2)
        whole = (1 - outlier) * density.sum(axis=1) + outlier / area_m2
        mine = (1 - outlier) * density / whole[:, None]
        precision = mine / sigma**2
        if one:
            precision = precision.sum(axis=1, keepdims=True)
        gain, offset = _lines(precision, z[:, : precision.shape[1]], truth_m)
        square = ((z - offset - gain[:, None] * truth_m[:, None]) ** 2).sum(axis=2)
        weight = mine.sum(axis=0)
        asked = there.sum(axis=0)
        sigma = np.sqrt((mine * square).sum(axis=0) / np.maximum(2 * weight, 1e-9))
        sigma = np.clip(sigma, _LEAST_M, np.sqrt(area_m2))
        share = weight / np.maximum(asked, 1)
        if share.sum() > 0:
            share = share / share.sum()
        else:
            share = ranks / ranks.sum()
        outlier = min(float((outlier / area_m2 / whole).sum() + 1.0) / (len(square) + 1.0), 0.999)
    return ErrorModel(
        share, sigma, outlier, 0.0, np.ones(len(ranks)) * gain, np.zeros((len(ranks), 2)) + offset
    )


def _lines(
    precision: FloatArray, z: FloatArray, truth_m: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """gain (R,) and offset (R, 2) of the most probable z = offset + gain truth with precision (m,
    R), where a gain is beforehand 1 with a standard deviation of 1: it is seen, unless hardly
    anything was.
    """
    total = np.maximum(precision.sum(axis=0), 1e-300)[:, None]
    mean_x = precision.T @ truth_m / total
    precision = precision[..., None]  # alike along both axes
    mean_z = (precision * z).sum(axis=0) / total
    dz = z - mean_z
    dx = truth_m[:, None] - mean_x
    over = (precision * dz * dx).sum(axis=(0, 2)) + 1.0
    under = (precision * dx**2).sum(axis=(0, 2)) + 1.0
    gain = np.clip(over / under, _LEAST_GAIN, 1.0 / _LEAST_GAIN)
    return gain, mean_z - gain[:, None] * mean_x


def _means(data: Local, n_ue: int) -> FloatArray:
    """Mean position (n_ue, 2) of all samples of each UE."""
    owner = data.ue[data.row_of_sample]
    total = [np.bincount(owner, weights=x, minlength=n_ue) for x in data.x.T]
    return np.stack(total, axis=1) / np.bincount(owner, minlength=n_ue)[:, None]
