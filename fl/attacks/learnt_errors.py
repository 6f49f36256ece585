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
from fl.attacks.shadow_ues import ROAMING, SPEED_MPS, STILL_M, Population, simulate_measurements
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import match_successive
from fl.types import Estimates, RoundContext, State
from netsim.checkpoint import from_tree, to_tree
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places
from netsim.geometry import Area, measure_lengths
from netsim.rng import Rng
from netsim.units import ArrayPair, FloatArray, IntArray, IntArrayPair

MAX_RANKS = 4
"""places of a UE and round that count, by descending weight"""
# residuals, or steps; older ones are forgotten, since errors change as the model learns
_MOST_KEPT = 512
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
# rounds after which the motion of made-up UEs is matched again
_MATCHED = tuple(2**k for k in range(2, 13))


def rank_places(estimates: Estimates, area: Area) -> tuple[IntArray, FloatArray]:
    """Estimates of each UE: names (k,) ascending, places (k, R, 2), NaN where fewer were named.

    Centroids count where there are any, averaged over the models of the UE; they stand at all
    ranks, so that their errors may have several scales. Else places or answers count, by weight.
    What lies outside the area was not named.
    """
    names, row = np.unique(estimates.ue, return_inverse=True)
    kind = estimates.kind
    inside = area.contains(estimates.position_m)
    centroid = inside & (kind == "centroid")
    count = np.bincount(row[centroid], minlength=len(names))
    total = np.zeros((len(names), 2))
    np.add.at(total, row[centroid], estimates.position_m[centroid])
    mean = total / np.where(count > 0, count, np.nan)[:, None]
    places_m = np.repeat(mean[:, None], MAX_RANKS, axis=1)
    is_other = inside & ((kind == "place") | (kind == "answer")) & (count[row] == 0)
    order = np.lexsort((-estimates.weight, row))
    order = order[is_other[order]]
    rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
    first = rank < MAX_RANKS
    places_m[row[order[first]], rank[first]] = estimates.position_m[order[first]]
    return names, places_m


@frozen
class OwnEstimates(Columns):
    """Estimates named_m (m, R, 2), NaN where nothing was named, of the attacker's own UEs ue (m,)
    in rounds round (m,), and the truth (m, 2).
    """

    named_m: FloatArray = field(default_factory=lambda: np.zeros((0, MAX_RANKS, 2)))
    ue: IntArray = field(default_factory=no_ints)
    round: IntArray = field(default_factory=no_ints)
    truth_m: FloatArray = field(default_factory=no_places)

    def find_successive(self) -> IntArrayPair:
        """Entries (n,) that have one of the same UE in the round before, and those (n,)."""
        span = self.ue.max(initial=0) + 1
        key = self.round * span + self.ue
        _, current, last = np.intersect1d(key - span, key, return_indices=True)
        return current, last


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

    def apply_to(self, population: Population) -> Population:
        """A population that moves so, but for what is given."""
        if population.match_roaming:
            population = replace(population, roaming=self.roaming)
        if population.match_speed:
            population = replace(population, speed_mps=self.speed_mps)
        return population

    def with_estimates(self, round_: int, ue: IntArray, place_m: FloatArray) -> Pace:
        """With estimates (k, 2) of real UEs (k,) ascending in a round; several looks at a round
        count as the first.
        """
        if round_ == self.round:
            return self
        current, last = match_successive(round_, ue, self.round, self.ue)
        step_m = measure_lengths(place_m[current] - self.place_m[last])
        steps_m = np.concatenate([self.steps_m, step_m[np.isfinite(step_m)]])
        return replace(self, round=round_, ue=ue, place_m=place_m, steps_m=steps_m[-_MOST_KEPT:])

    def match_to(self, population: Population, made_up_m: FloatArray) -> Pace:
        """After steps (m,) of estimates of UEs made up of that population; itself, where nothing
        differs or too little is known.
        """
        if min(len(made_up_m), len(self.steps_m)) < _FEWEST_STEPS:
            return self
        real_m = self.steps_m[self.steps_m > STILL_M]
        shadow_m = made_up_m[made_up_m > STILL_M]
        ratio = 1.0
        if min(len(real_m), len(shadow_m)) >= _FEWEST_STEPS // 3:
            ratio = np.median(real_m) / np.median(shadow_m)
            ratio = float(np.clip(ratio, 1 / _AT_ONCE, _AT_ONCE))
        real_rest = 1 - len(real_m) / len(self.steps_m)
        shadow_rest = 1 - len(shadow_m) / len(made_up_m)
        before = population.roaming
        roaming = before
        if shadow_rest > _SAME_SHARE and before < 1:
            roaming = float(np.clip(1 - real_rest * (1 - before) / shadow_rest, 0.0, 1.0))
        elif real_rest > _SAME_SHARE:
            roaming = float(np.clip(1 - real_rest, 0.0, 1.0))
        speed_mps = float(np.clip(population.speed_mps * ratio, _LEAST_MPS, _MOST_MPS))
        differs = (
            max(speed_mps / population.speed_mps, population.speed_mps / speed_mps) > _SAME_SPEED
        )
        new = self
        if population.match_speed and differs:
            new = replace(new, speed_mps=speed_mps)
        if population.match_roaming and abs(roaming - before) > _SAME_SHARE:
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
        attack: Attack,
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
        before = self
        if self.learnt in _MATCHED:
            before = self._match_pace(population)
        n_ue = view.replica.count_shadow_ues(n_ue)
        rng = replace(rng, purpose=f"{rng.purpose}.simulated")
        population = before.pace.apply_to(population)
        data = simulate_measurements(n_ue, view, facts, population, rng)
        shadow_view, replica = view.replica.play(data, before.replica, rng)
        state = attack.start()
        if before.of:
            state = from_tree(before.of["attack"], state)
        estimates, state = attack.run(shadow_view, facts, state, rng)
        area = facts.public.area
        named_m = np.full((n_ue, MAX_RANKS, 2), np.nan)
        names, places_m = rank_places(estimates, area)
        named_m[names] = places_m
        owner = data.ue[data.row_of_sample]
        total_m = [np.bincount(owner, weights=x, minlength=n_ue) for x in data.x.T]
        truth_m = np.stack(total_m, axis=1) / np.bincount(owner, minlength=n_ue)[:, None]
        new = OwnEstimates(named_m, np.arange(n_ue), np.full(n_ue, facts.round), truth_m)
        tested = OwnEstimates.join([before.tested, new])
        tested = tested.select(slice(-max(_MOST_KEPT, n_ue), None))
        current, last = tested.find_successive()
        moved_m = measure_lengths(tested.truth_m[current] - tested.truth_m[last])
        is_named = np.isfinite(tested.named_m[:, :, 0]).any(axis=1)
        named = tested.select(np.flatnonzero(is_named))
        model = before.fitted
        if len(named.ue):
            model = fit_error_model(named.named_m, named.truth_m, float(np.prod(area.side_m)))
            model = replace(model, bias_m=estimate_bias_std_m(model, tested))
        return LearntErrors(
            {} if fresh else {"attack": to_tree(state)},
            replica,
            tested,
            moved_m,
            self.learnt + 1,
            model,
            before.pace,
        )

    def _match_pace(self, population: Population) -> LearntErrors:
        """With UEs that move as real ones seem to; what was seen of others is forgotten, if they
        are others.
        """
        current, last = self.tested.find_successive()
        place_m = self.tested.named_m[:, 0]
        step_m = measure_lengths(place_m[current] - place_m[last])
        pace = self.pace.match_to(self.pace.apply_to(population), step_m[np.isfinite(step_m)])
        if pace is self.pace:
            return self
        return replace(self, pace=pace, of={}, tested=OwnEstimates())


def estimate_bias_std_m(model: ErrorModel, tested: OwnEstimates) -> float:
    """Standard deviation a axis of what estimates of a UE that has not moved have in common in two
    rounds, from the median product of the two: a few UEs whose updates are lost in noise in all
    rounds err alike by far more.

    The rank that tells most counts, by its own line: a line through all ranks would displace exact
    estimates.
    """
    current, last = tested.find_successive()
    rank = np.argmax(model.share * (model.gain / model.sigma_m) ** 2)
    gain = model.gain[rank]
    away = tested.named_m[:, rank] - model.offset_m[rank] - gain * tested.truth_m
    is_good = measure_lengths(away) < 4 * model.sigma_m.max()
    residual = away / gain
    moved_m = measure_lengths(tested.truth_m[current] - tested.truth_m[last])
    is_used = (moved_m < STILL_M) & is_good[current] & is_good[last]
    product = (residual[current] * residual[last])[is_used].sum(axis=1) / 2
    if len(product) < _FEWEST:
        return 0.0
    return float(np.sqrt(max(np.median(product) / _MEDIAN, 0.0)))


def fit_error_model(named_m: FloatArray, truth_m: FloatArray, area_m2: float) -> ErrorModel:
    """Maximum likelihood of `ErrorModel` by EM for estimates (m, R, 2), NaN where fewer were named,
    of truth (m, 2).

    One false estimate is added to those seen, so that no outcome is ruled out by a small sample.
    Ranks that are the same place have one gain and offset.
    """
    is_named = np.isfinite(named_m).all(axis=2)
    is_one_place = np.array_equal(
        named_m, np.broadcast_to(named_m[:, :1], named_m.shape), equal_nan=True
    )
    z = np.nan_to_num(named_m)
    ranks = np.asarray(is_named.any(axis=0))
    equal_share = ranks / ranks.sum()
    n_named = is_named.sum(axis=0)
    share = equal_share
    outlier = 0.1
    square = ((z - truth_m[:, None]) ** 2).sum(axis=2)
    quantiles = np.quantile(square[is_named], [0.1, 0.95])
    low, high = np.maximum(np.sqrt(quantiles / 2), _LEAST_M)
    sigma = np.geomspace(low, high, len(ranks))  # different ones, so that equal places part
    for _ in range(_STEPS):
        prior = np.where(is_named, share, 0.0)
        prior = prior / np.maximum(prior.sum(axis=1, keepdims=True), 1e-300)
        density = prior * np.exp(-square / (2 * sigma**2)) / (2 * np.pi * sigma**2)
        whole = (1 - outlier) * density.sum(axis=1) + outlier / area_m2
        responsibility = (1 - outlier) * density / whole[:, None]
        precision = responsibility / sigma**2
        if is_one_place:
            precision = precision.sum(axis=1, keepdims=True)
        gain, offset = _fit_lines(precision, z[:, : precision.shape[1]], truth_m)
        square = ((z - offset - gain[:, None] * truth_m[:, None]) ** 2).sum(axis=2)
        weight = responsibility.sum(axis=0)
        variance = (responsibility * square).sum(axis=0) / np.maximum(2 * weight, 1e-9)
        sigma = np.clip(np.sqrt(variance), _LEAST_M, np.sqrt(area_m2))
        share = weight / np.maximum(n_named, 1)
        share = share / share.sum() if share.sum() > 0 else equal_share
        n_outlier = float((outlier / area_m2 / whole).sum() + 1.0)
        outlier = min(n_outlier / (len(square) + 1.0), 0.999)
    gains = np.ones(len(ranks)) * gain
    return ErrorModel(share, sigma, outlier, 0.0, gains, np.zeros((len(ranks), 2)) + offset)


def _fit_lines(precision: FloatArray, z: FloatArray, truth_m: FloatArray) -> ArrayPair:
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
