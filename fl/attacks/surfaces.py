r"""Attacks on population density: the maximum of a UE's surface, and what its answers and the
published map say.
"""

from __future__ import annotations

from typing import Literal, Self, cast

import numpy as np
from pydantic import Field
from scipy import ndimage

from fl.attacks.base import Attack, View
from fl.attacks.esprit import Lattice, fitted, kernel_place, read_waves
from fl.learners import SurfaceLearner
from fl.types import Estimates, RoundContext, State
from netsim.columns import Columns, frozen, no_places, row_id
from netsim.mobility.static import Component, Mixture
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_MISFIT = 0.1  # of a surface's energy, that its waves leave at most
_SAME = 0.1  # rad over the grid, by which a wave that is asked for again may turn
_REFINED = 200  # likely places that are moved onto the bands of their waves
_MOST_WAVES = 8  # that are read one by one
_MEDIAN_STEPS = 100
_TIE = 1e-12  # neighbours on a ridge differ by rounding


class DensityPeak(Attack):
    r"""Estimates the position as the maximum of a UE's surface, and places as all local maxima of
    similar height.

    Estimates: `centroid`, the highest point (the best single guess); `place`, every local maximum
    of at least the highest over `within`, weighted by its height: e_j / sum e. With the mean
    distance of places by weight (`place_error_m`, the Z of the paper) the error of the single guess
    is recorded, because Z understates leakage: the exact height B is reached at the true position
    only, so with 3 features the maximum is correct although Z includes other places.

    A surface that is negative everywhere has one place, its maximum. For a constant surface all
    points are places. If there are more than `max_places`, a random subset is used. Of several
    bandwidths the first is used.
    """

    kind: Literal["density-peak"] = "density-peak"
    within: float = Field(1.1, ge=1, le=1e6)
    """largest ratio of the highest maximum to a local maximum that counts as a place (epsilon_z)"""
    max_places: int = Field(500, ge=1, le=100_000)
    """largest number of estimated places per UE and round"""

    reference = "Zong et al., Privacy by Projection, PoPETs 2023, Lemma 1, Section 4.2.2, Eq. 16"
    needs = {
        "surfaces": "reads answers about a grid of points",
        "updates": "reads every device's own surface; a merged one has no UE's peak",
    }

    def run(
        self, view: View, facts: RoundContext, state: State, rng: Rng
    ) -> tuple[Estimates, State]:
        learner = cast(SurfaceLearner, view.learner)
        surface = learner.surfaces(view.model_before, view.update)[:, 0]
        grid = learner.grid_m(view.model_before)
        places_m = grid.reshape(-1, 2)
        flat = surface.reshape(len(surface), len(places_m))
        constant = np.ptp(flat, axis=1) == 0
        middle_m = (places_m[0] + places_m[-1]) / 2
        said = np.where(constant[:, None], middle_m, places_m[np.argmax(flat, axis=1)])
        status = ["constant surface" if c else "ok" for c in constant]
        source, p, q = self._named(surface, view.source_model, view.ue, rng)
        height = surface[source, p, q]
        total = np.bincount(source, weights=height, minlength=len(surface))
        zero = total[source] == 0
        many = np.bincount(source, minlength=len(surface))[source]
        weight = np.where(zero, 1.0 / many, height / np.where(zero, 1.0, total[source]))
        estimates = [
            view.spread("centroid", np.arange(len(surface)), said, status=status),
            view.spread("place", source, grid[p, q], weight=weight),
        ]
        return Estimates.join(estimates), state

    def _named(
        self, surface: FloatArray, model: IntArray, ue: IntArray, rng: Rng
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Source and grid indices (k,) of the places named."""
        highest = surface.max(axis=(1, 2), keepdims=True, initial=-np.inf)
        around = ndimage.maximum_filter(surface, size=(1, 3, 3), mode="constant", cval=-np.inf)
        peak = (
            surface + _TIE * np.abs(surface).max(axis=(1, 2), keepdims=True) >= around
        )  # the border takes part
        source, p, q = np.nonzero(peak & (surface >= np.minimum(highest, highest / self.within)))
        owner = row_id(ue[source], model[source])
        place = p * surface.shape[2] + q
        order = np.lexsort((rng.uniform("places", owner, item=place), source))
        rank = np.arange(len(source)) - np.searchsorted(
            source, source
        )  # both are in the order of sources
        keep = np.sort(order[rank < self.max_places])
        return source[keep], p[keep], q[keep]


@frozen
class AnswerEvidence(Columns):
    """Evidence (k,) from answers: the track and the round, a wave (k, 3) omega per metre and phase,
    and a place (k, 2), that of the kernel's peak; NaN where it is no wave, or no place.
    """

    track: IntArray
    round: IntArray
    wave: FloatArray
    place_m: FloatArray

    @classmethod
    def of(cls, track: int, round_: int, wave: FloatArray, place_m: FloatArray) -> Self:
        """Waves (k, 3) and places (k, 2) of one answer."""
        return cls(np.full(len(wave), track), np.full(len(wave), round_), wave, place_m)


class Posterior(Attack):
    r"""The posterior of a UE's place, given its answers and where people are: waves and moved
    places alike.

        log pi(g) = log prior(g) - sum_b wrap(omega_b . (g - c) - phase_b)^2 / 2 s_b^2 - epsilon
        sum_t |g - m_t|

    Prior: the map that the server itself publishes after the round, or a known law. Waves are read
    from the surface by two-dimensional ESPRIT (`fl.attacks.esprit`); m_t is the peak of an exact
    kernel, where the UE moved its place (`geo-indistinguishable`, whose epsilon is a public
    setting). s_b is what half the distance between two tried places turns the wave by. A surface
    that is neither (many waves, the mean of several places) counts by its height: s(g) - B is sum_b
    (cos - 1), the same law to second order; its status is `no wave`. A constant surface leaves the
    prior.

    Estimates: `centroid`, the geometric median of the posterior, which has the smallest mean error,
    or its `mode`; `step`, the displacement since the last answer with the same waves, the shortest
    that fits: along one wave, in the plane with two. Answers of the last `memory_rounds` rounds
    count together, a wave that is kept once: for UEs that stay. Several bandwidths are waves of
    their own.
    """

    kind: Literal["posterior"] = "posterior"
    prior: Literal["map", "uniform"] | tuple[Component, ...] = "map"
    """where people are: the published map of the round, everywhere alike, or the components of a
    known mixture"""
    answer: Literal["median", "mode"] = "median"
    """estimate: geometric median or mode of the posterior"""
    places: int = Field(200, ge=2, le=2000)
    """number of places tried along the longer side of the grid"""
    memory_rounds: int = Field(1, ge=1, le=1_000_000)
    """number of rounds whose answers count together; 1: each round alone"""

    reference = (
        "against Zong et al., Privacy by Projection, PoPETs 2023: an adversary who knows the map"
    )
    example = {"kind": "posterior", "places": 20}
    needs = {
        "surfaces": "reads answers about a grid of points",
        "updates": "reads every device's own waves; merged ones cannot be separated",
    }

    def start(self) -> AnswerEvidence:
        return AnswerEvidence.of(0, 0, np.zeros((0, 3)), no_places())

    def run(
        self, view: View, facts: RoundContext, state: AnswerEvidence, rng: Rng
    ) -> tuple[Estimates, AnswerEvidence]:
        learner = cast(SurfaceLearner, view.learner)
        surface = learner.surfaces(view.model_before, view.update)
        at = _AskedGrid.of(view, self.places)
        maps = learner.surfaces(view.model_after, view.model_after.parameters)[:, 0]
        prior = {m: self._weight(at, maps[m]) for m in np.unique(view.source_model).tolist()}
        track = row_id(view.ue, view.model)[np.argsort(view.source)]  # one target a row
        past = self._recent(state, facts.round)
        said = np.zeros((len(track), 2))
        step_m = np.full((len(track), 2), np.nan)
        status = []
        pieces = []
        for i, who in enumerate(track.tolist()):
            before = past.select(past.track == who)
            wave, place_m, word = _read(surface[i], at, before.wave)
            now = AnswerEvidence.of(who, facts.round, wave, place_m)
            if word == "ok":
                step_m[i] = _step(
                    now, before.select(before.round == before.round.max(initial=0)), at.grid
                )
            memory = before.select(before.round > facts.round - self.memory_rounds)
            if at.epsilon is None:  # what is kept counts once, as it is now
                memory = memory.select(_twin(memory.wave, now.wave, at.grid) < 0)
            if word == "no wave":
                height = surface[i]
            else:
                height = surface[i][:0]
            evidence = AnswerEvidence.join([memory, now])
            said[i] = at.estimate(
                prior[view.source_model[i]], evidence, height, median=self.answer == "median"
            )
            status.append(word)
            pieces.append(now)
        linked = np.flatnonzero(np.isfinite(step_m[:, 0]))
        estimates = [
            view.spread("centroid", np.arange(len(said)), said, status=status),
            view.spread("step", linked, step_m[linked]),
        ]
        return Estimates.join(estimates), AnswerEvidence.join([past, *pieces])

    def _recent(self, state: AnswerEvidence, round_: int) -> AnswerEvidence:
        """Evidence that still counts: the last `memory_rounds` rounds, and of each UE its last
        answer.
        """
        several, of_row = np.unique(state.track, return_inverse=True)
        last = np.zeros_like(several)
        np.maximum.at(last, of_row, state.round)
        return state.select(
            (state.round > round_ - self.memory_rounds) | (state.round == last[of_row])
        )

    def _weight(self, at: _AskedGrid, published: FloatArray) -> FloatArray:
        """Prior of each tried place (n,), up to a factor."""
        if self.prior == "uniform":
            return np.ones(len(at.at_m))
        if self.prior == "map":
            law = at.interpolated(published)
        else:
            law = Mixture(components=self.prior).density(at.at_m)
        law = np.maximum(law, 0.0)
        if law.max() > 0:
            return law
        return np.ones_like(law)


def _median_m(at_m: FloatArray, weight: FloatArray, best_m: FloatArray) -> FloatArray:
    """Geometric median (2,) of places (n, 2) with weights (n,) by Weiszfeld's method, or the most
    likely place where that is no farther off in the mean.
    """
    some = weight > 1e-9
    side_m = np.ptp(at_m, axis=0).max()
    at_m = at_m[some]
    weight = weight[some] / weight[some].sum()
    middle = weight @ at_m
    for _ in range(_MEDIAN_STEPS if len(at_m) > 1 else 0):
        pull = weight / np.maximum(np.linalg.norm(at_m - middle, axis=1), 1e-6 * side_m)
        before = middle
        middle = pull @ at_m / pull.sum()
        if np.linalg.norm(middle - before) <= 1e-4 * side_m:
            break
    cost = [weight @ np.linalg.norm(at_m - p, axis=1) for p in (middle, best_m)]
    if cost[1] <= cost[0]:
        return best_m
    return middle


@frozen
class _AskedGrid:
    """Request of the server, and places at_m (n, 2) tried on a grid of shape (p, q), step_m apart.

    grid : points of the surface, about centre_m (2,); features : inf for the exact kernel; epsilon
    : of the noise on places, None without.
    """

    at_m: FloatArray
    shape: tuple[int, int]
    step_m: float
    grid: Lattice
    centre_m: FloatArray
    features: float
    bandwidth_m: FloatArray
    epsilon: float | None

    @classmethod
    def of(cls, view: View, longer: int) -> _AskedGrid:
        """Lattice of a view, with `longer` places along the longer side."""
        constants = view.model_before.constants
        axes = constants["x_m"], constants["y_m"]
        grid = Lattice.of(*axes)
        centre_m = np.array([axis[0] + axis[-1] for axis in axes]) / 2
        step_m = grid.extent_m / (longer - 1)
        x, y = (
            np.linspace(axis[0], axis[-1], round(float(np.ptp(axis)) / step_m) + 1)
            for axis in (grid.x, grid.y)
        )
        at_m = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2) + centre_m
        request = cast(SurfaceLearner, view.learner).request(view.model_before)
        features = np.nan if request is None else request.features
        epsilon = None if view.replica is None else view.replica.displacement_per_m
        return cls(
            at_m,
            (len(x), len(y)),
            step_m,
            grid,
            centre_m,
            features,
            constants["bandwidth_m"],
            epsilon,
        )

    def interpolated(self, surface: FloatArray) -> FloatArray:
        """A surface (P, Q) at the tried places (n,), by straight lines."""
        axes = zip((self.at_m - self.centre_m).T, (self.grid.x, self.grid.y), strict=True)
        where = [np.interp(shift, axis, np.arange(len(axis))) for shift, axis in axes]
        return ndimage.map_coordinates(surface, where, order=1, mode="nearest")

    def estimate(
        self, prior: FloatArray, evidence: AnswerEvidence, height: FloatArray, *, median: bool
    ) -> FloatArray:
        """Median or mode (2,) from the prior (n,), evidence of a UE, and surfaces (H, P, Q) that
        count by their height, or none.
        """
        waves = evidence.select(np.isfinite(evidence.wave[:, 0]))
        points = evidence.place_m[np.isfinite(evidence.place_m[:, 0])]
        if self.epsilon is None and len(points):
            return points[-1]
        with np.errstate(divide="ignore"):
            log = np.log(prior)
        each = (
            np.unique(waves.round) if self.epsilon else [None]
        )  # a place is moved again in each round
        for some in (waves.wave if r is None else waves.wave[waves.round == r] for r in each):
            log += self._moved(-self._misfit(self.at_m, some))
        for surface, h in zip(height, self.bandwidth_m, strict=False):
            log += self._moved(
                (self.interpolated(surface) - surface.max()) * 2 * (h / self.step_m) ** 2
            )
        for m in points:
            log -= (self.epsilon or 0.0) * np.linalg.norm(self.at_m - m, axis=1)
        best_m = self.at_m[np.argmax(log)]
        if len(waves.wave) and self.epsilon is None:
            best_m = self._onto_bands(log, waves.wave)
        if median:
            return _median_m(self.at_m, np.exp(log - log.max()), best_m)
        return best_m

    def _onto_bands(self, log: FloatArray, wave: FloatArray) -> FloatArray:
        """The most likely place (2,), which may lie beside the tried ones by up to half a step."""
        first = np.argsort(-log, kind="stable")[:_REFINED]
        tried_m = self.at_m[first]
        shift = np.linalg.lstsq(wave[:, :2], -self._off(tried_m, wave).T, rcond=1e-9)[0].T
        moved_m = tried_m + shift * (np.linalg.norm(shift, axis=1) <= 1.5 * self.step_m)[:, None]
        gain = self._misfit(tried_m, wave) - self._misfit(moved_m, wave)
        return moved_m[np.argmax(log[first] + gain)]

    def _misfit(self, at_m: FloatArray, wave: FloatArray) -> FloatArray:
        """sum_b off_b^2 / 2 s_b^2 of places (n, 2)."""
        turn = (
            self.step_m
            / 2
            * np.maximum(np.linalg.norm(wave[:, :2], axis=1), 1e-9 / self.grid.extent_m)
        )
        return ((self._off(at_m, wave) / turn) ** 2).sum(axis=1) / 2

    def _off(self, at_m: FloatArray, wave: FloatArray) -> FloatArray:
        """Phases of places (n, 2) less those of waves (k, 3), in half a turn around 0: (n, k)."""
        return _wrapped((at_m - self.centre_m) @ wave[:, :2].T - wave[:, 2])

    def _moved(self, log: FloatArray) -> FloatArray:
        """Log-likelihood of places (n,) from that of the places that a UE answered for, within the
        grid.
        """
        if self.epsilon is None or not log.any():
            return log
        from scipy.signal import fftconvolve

        x, y = (np.arange(1 - n, n) * self.step_m for n in self.shape)
        kernel = np.exp(-self.epsilon * np.hypot(x[:, None], y))
        spread = fftconvolve(np.exp(log - log.max()).reshape(self.shape), kernel, "same")
        return np.log(np.maximum(spread.ravel(), 1e-12 * spread.max()))


def _wrapped(angle: FloatArray) -> FloatArray:
    return np.remainder(angle + np.pi, 2 * np.pi) - np.pi


def _twin(wave: FloatArray, other: FloatArray, grid: Lattice) -> IntArray:
    """Index of the wave of the same omega among others (k, 3) for each wave (n, 3); -1: none."""
    if not len(other):
        return np.full(len(wave), -1)
    gap = np.linalg.norm(wave[:, None, :2] - other[None, :, :2], axis=2) * grid.extent_m
    gap = np.where(np.isnan(gap), np.inf, gap)
    return np.where(gap.min(axis=1) < _SAME, gap.argmin(axis=1), -1)


def _step(now: AnswerEvidence, last: AnswerEvidence, grid: Lattice) -> FloatArray:
    """The shortest displacement (2,) that turns all waves of the last answer into these; NaN: not
    the same waves.
    """
    twin = _twin(now.wave, last.wave, grid)
    if not len(twin) or (twin < 0).any():
        return np.full(2, np.nan)
    turn = _wrapped(now.wave[:, 2] - last.wave[twin, 2])
    return np.asarray(np.linalg.lstsq(now.wave[:, :2], turn, rcond=1e-9)[0])


def _read(
    surface: FloatArray, at: _AskedGrid, known: FloatArray
) -> tuple[FloatArray, FloatArray, str]:
    """Read surfaces (H, P, Q) of one UE: waves (k, 3), places (k, 2), and a word on them; known :
    its waves before.
    """
    nothing = np.zeros((0, 3)), no_places()
    if np.ptp(surface) == 0:
        return *nothing, "constant surface"
    if np.isinf(at.features):
        peak_m = kernel_place(surface[0], at.grid, float(at.bandwidth_m[0]))
        if peak_m is None:
            return *nothing, "no wave"
        return np.full((1, 3), np.nan), at.centre_m + peak_m[None], "ok"
    if not 1 <= at.features <= _MOST_WAVES:
        return *nothing, "no wave"
    found = []
    word = "ok"
    for one, h in zip(surface, at.bandwidth_m, strict=True):
        waves = read_waves(one, at.grid, int(at.features), float(h))
        if not waves.misfit <= _MISFIT:
            return *nothing, "no wave"
        twin = _twin(waves.columns, known, at.grid)
        if (twin >= 0).all():
            waves = fitted(one, at.grid, known[twin, :2])
        elif np.isfinite(known).any():
            word = "new wave"
        found.append(waves.columns)
    wave = np.concatenate(found)
    return wave, np.full((len(wave), 2), np.nan), word
