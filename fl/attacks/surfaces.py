r"""Attacks on population density: the maximum of a UE's surface, and what its answers and the
published map say.
"""

from __future__ import annotations

from typing import Literal, Self, cast

import numpy as np
from pydantic import Field
from scipy import ndimage

from fl.attacks.base import Attack, Attacked, View
from fl.attacks.esprit import Lattice, find_kernel_peak_offset_m, fit_phases, read_waves
from fl.learners import SurfaceLearner
from fl.types import Estimates, RoundContext, State
from netsim.columns import Columns, frozen, no_places, number_row
from netsim.mobility.static import Component, Mixture
from netsim.part import Count
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray, IntPair

_MISFIT = 0.1  # of a surface's energy, that its waves leave at most
_SAME = 0.1  # rad over the grid, by which a wave that is asked for again may turn
_REFINED = 200  # likely places that are moved onto the bands of their waves
_MOST_WAVES = 8  # that are read one by one
_MEDIAN_STEPS = 100
_TIE = 1e-12  # neighbours on a ridge differ by rounding


class DensityPeak(Attack, kind="density-peak"):
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

    within: float = Field(1.1, ge=1, le=1e6)
    """largest ratio of the highest maximum to a local maximum that counts as a place (epsilon_z)"""
    max_places: int = Field(500, ge=1, le=100_000)
    """largest number of estimated places per UE and round"""

    reference = "Zong et al., Privacy by Projection, PoPETs 2023, Lemma 1, Section 4.2.2, Eq. 16"
    needs = {
        "surfaces": "reads answers about a grid of points",
        "updates": "reads every device's own surface; a merged one has no UE's peak",
    }

    def run(self, view: View, facts: RoundContext, state: State, rng: Rng) -> Attacked:
        learner = cast(SurfaceLearner, view.learner)
        surface = learner.to_surfaces(view.model_before, view.update)[:, 0]
        grid = learner.build_grid_m(view.model_before)
        places_m = grid.reshape(-1, 2)
        flat = surface.reshape(len(surface), len(places_m))
        constant = np.ptp(flat, axis=1) == 0
        middle_m = (places_m[0] + places_m[-1]) / 2
        centroid_m = np.where(constant[:, None], middle_m, places_m[np.argmax(flat, axis=1)])
        status = ["constant surface" if c else "ok" for c in constant]
        source, p, q = self._find_peaks(surface, view.source_model, view.ue, rng)
        height = surface[source, p, q]
        total = np.bincount(source, weights=height)[source]
        is_zero = total == 0
        count = np.bincount(source)[source]
        weight = np.where(is_zero, 1.0 / count, height / np.where(is_zero, 1.0, total))
        estimates = [
            view.build_estimates("centroid", np.arange(len(surface)), centroid_m, status=status),
            view.build_estimates("place", source, grid[p, q], weight=weight),
        ]
        return Estimates.join(estimates), state

    def _find_peaks(
        self, surface: FloatArray, model: IntArray, ue: IntArray, rng: Rng
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Source and grid indices (k,) of the places named."""
        highest = surface.max(axis=(1, 2), keepdims=True, initial=-np.inf)
        threshold = np.minimum(highest, highest / self.within)
        around = ndimage.maximum_filter(surface, size=(1, 3, 3), mode="constant", cval=-np.inf)
        tie = _TIE * np.abs(surface).max(axis=(1, 2), keepdims=True)
        is_peak = surface + tie >= around  # the border takes part
        source, p, q = np.nonzero(is_peak & (surface >= threshold))
        owner = number_row(ue[source], model[source])
        place = p * surface.shape[2] + q
        order = np.lexsort((rng.uniform("places", owner, item=place), source))
        # both are in the order of sources
        rank = np.arange(len(source)) - np.searchsorted(source, source)
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
    def from_answer(cls, track: int, round_: int, wave: FloatArray, place_m: FloatArray) -> Self:
        """Waves (k, 3) and places (k, 2) of one answer."""
        return cls(np.full(len(wave), track), np.full(len(wave), round_), wave, place_m)


class Posterior(Attack, kind="posterior"):
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

    prior: Literal["map", "uniform"] | tuple[Component, ...] = "map"
    """where people are: the published map of the round, everywhere alike, or the components of a
    known mixture"""
    answer: Literal["median", "mode"] = "median"
    """estimate: geometric median or mode of the posterior"""
    places: int = Field(200, ge=2, le=2000)
    """number of places tried along the longer side of the grid"""
    memory_rounds: Count = 1
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
        return AnswerEvidence.from_answer(0, 0, np.zeros((0, 3)), no_places())

    def run(self, view: View, facts: RoundContext, state: AnswerEvidence, rng: Rng) -> Attacked:
        learner = cast(SurfaceLearner, view.learner)
        surface = learner.to_surfaces(view.model_before, view.update)
        tried = _AskedGrid.from_view(view, self.places)
        maps = learner.to_surfaces(view.model_after, view.model_after.parameters)[:, 0]
        models = np.unique(view.source_model).tolist()
        prior = {m: self._compute_prior(tried, maps[m]) for m in models}
        track = number_row(view.ue, view.model)[np.argsort(view.source)]  # one target a row
        past = self._select_recent(state, facts.round)
        centroid_m = np.zeros((len(track), 2))
        step_m = np.full((len(track), 2), np.nan)
        status = []
        pieces = []
        for i, owner in enumerate(track.tolist()):
            before = past.select(past.track == owner)
            wave, place_m, word = _read_answer(surface[i], tried, before.wave)
            answer = AnswerEvidence.from_answer(owner, facts.round, wave, place_m)
            if word == "ok":
                last = before.select(before.round == before.round.max(initial=0))
                step_m[i] = _find_step(answer, last, tried.grid)
            memory = before.select(before.round > facts.round - self.memory_rounds)
            if tried.epsilon is None:  # what is kept counts once, as it is now
                memory = memory.select(_find_twins(memory.wave, answer.wave, tried.grid) < 0)
            height = surface[i]
            if word != "no wave":
                height = height[:0]
            evidence = AnswerEvidence.join([memory, answer])
            law = prior[view.source_model[i]]
            centroid_m[i] = tried.estimate(law, evidence, height, median=self.answer == "median")
            status.append(word)
            pieces.append(answer)
        linked = np.flatnonzero(np.isfinite(step_m[:, 0]))
        estimates = [
            view.build_estimates("centroid", np.arange(len(centroid_m)), centroid_m, status=status),
            view.build_estimates("step", linked, step_m[linked]),
        ]
        return Estimates.join(estimates), AnswerEvidence.join([past, *pieces])

    def _select_recent(self, state: AnswerEvidence, round_: int) -> AnswerEvidence:
        """Evidence that still counts: the last `memory_rounds` rounds, and of each UE its last
        answer.
        """
        tracks, row = np.unique(state.track, return_inverse=True)
        last = np.zeros_like(tracks)
        np.maximum.at(last, row, state.round)
        is_recent = state.round > round_ - self.memory_rounds
        return state.select(is_recent | (state.round == last[row]))

    def _compute_prior(self, tried: _AskedGrid, published: FloatArray) -> FloatArray:
        """Prior of each tried place (n,), up to a factor."""
        if self.prior == "uniform":
            return np.ones(len(tried.at_m))
        if self.prior == "map":
            law = tried.interpolate(published)
        else:
            law = Mixture(components=self.prior).density(tried.at_m)
        law = np.maximum(law, 0.0)
        if law.max() > 0:
            return law
        return np.ones_like(law)


def _find_median_m(at_m: FloatArray, weight: FloatArray, best_m: FloatArray) -> FloatArray:
    """Geometric median (2,) of places (n, 2) with weights (n,) by Weiszfeld's method, or the most
    likely place where that is no farther off in the mean.
    """
    is_likely = weight > 1e-9
    side_m = np.ptp(at_m, axis=0).max()
    at_m = at_m[is_likely]
    weight = weight[is_likely]
    weight = weight / weight.sum()
    middle_m = weight @ at_m
    for _ in range(_MEDIAN_STEPS if len(at_m) > 1 else 0):
        pull = weight / np.maximum(np.linalg.norm(at_m - middle_m, axis=1), 1e-6 * side_m)
        before_m = middle_m
        middle_m = pull @ at_m / pull.sum()
        if np.linalg.norm(middle_m - before_m) <= 1e-4 * side_m:
            break
    middle_cost = weight @ np.linalg.norm(at_m - middle_m, axis=1)
    best_cost = weight @ np.linalg.norm(at_m - best_m, axis=1)
    if best_cost <= middle_cost:
        return best_m
    return middle_m


@frozen
class _AskedGrid:
    """Request of the server, and places at_m (n, 2) tried on a grid of shape (p, q), step_m apart.

    grid : points of the surface, about centre_m (2,); features : inf for the exact kernel; epsilon
    : of the noise on places, None without.
    """

    at_m: FloatArray
    shape: IntPair
    step_m: float
    grid: Lattice
    centre_m: FloatArray
    features: float
    bandwidth_m: FloatArray
    epsilon: float | None

    @classmethod
    def from_view(cls, view: View, longer: int) -> _AskedGrid:
        """Lattice of a view, with `longer` places along the longer side."""
        constants = view.model_before.constants
        x_m = constants["x_m"]
        y_m = constants["y_m"]
        grid = Lattice.from_axes(x_m, y_m)
        centre_m = np.array([x_m[0] + x_m[-1], y_m[0] + y_m[-1]]) / 2
        step_m = grid.extent_m / (longer - 1)
        x = _space_evenly(grid.x, step_m)
        y = _space_evenly(grid.y, step_m)
        at_m = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2) + centre_m
        request = cast(SurfaceLearner, view.learner).build_request(view.model_before)
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

    def interpolate(self, surface: FloatArray) -> FloatArray:
        """A surface (P, Q) at the tried places (n,), by straight lines."""
        x, y = (self.at_m - self.centre_m).T
        row = np.interp(x, self.grid.x, np.arange(len(self.grid.x)))
        column = np.interp(y, self.grid.y, np.arange(len(self.grid.y)))
        return ndimage.map_coordinates(surface, [row, column], order=1, mode="nearest")

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
        groups = [waves.wave]
        if self.epsilon:  # a place is moved again in each round
            groups = [waves.wave[waves.round == round_] for round_ in np.unique(waves.round)]
        for wave in groups:
            log += self._blur_by_noise(-self._compute_misfit(self.at_m, wave))
        for surface, h in zip(height, self.bandwidth_m, strict=False):
            below = self.interpolate(surface) - surface.max()
            log += self._blur_by_noise(below * 2 * (h / self.step_m) ** 2)
        for m in points:
            log -= (self.epsilon or 0.0) * np.linalg.norm(self.at_m - m, axis=1)
        best_m = self.at_m[np.argmax(log)]
        if len(waves.wave) and self.epsilon is None:
            best_m = self._move_onto_bands(log, waves.wave)
        if median:
            return _find_median_m(self.at_m, np.exp(log - log.max()), best_m)
        return best_m

    def _move_onto_bands(self, log: FloatArray, wave: FloatArray) -> FloatArray:
        """The most likely place (2,), which may lie beside the tried ones by up to half a step."""
        first = np.argsort(-log, kind="stable")[:_REFINED]
        tried_m = self.at_m[first]
        gaps = self._measure_phase_gaps(tried_m, wave)
        shift_m = np.linalg.lstsq(wave[:, :2], -gaps.T, rcond=1e-9)[0].T
        is_near = np.linalg.norm(shift_m, axis=1) <= 1.5 * self.step_m
        moved_m = tried_m + shift_m * is_near[:, None]
        gain = self._compute_misfit(tried_m, wave) - self._compute_misfit(moved_m, wave)
        return moved_m[np.argmax(log[first] + gain)]

    def _compute_misfit(self, at_m: FloatArray, wave: FloatArray) -> FloatArray:
        """sum_b off_b^2 / 2 s_b^2 of places (n, 2)."""
        omega = np.linalg.norm(wave[:, :2], axis=1)
        turn = self.step_m / 2 * np.maximum(omega, 1e-9 / self.grid.extent_m)
        return ((self._measure_phase_gaps(at_m, wave) / turn) ** 2).sum(axis=1) / 2

    def _measure_phase_gaps(self, at_m: FloatArray, wave: FloatArray) -> FloatArray:
        """Phases of places (n, 2) less those of waves (k, 3), in half a turn around 0: (n, k)."""
        return _wrap((at_m - self.centre_m) @ wave[:, :2].T - wave[:, 2])

    def _blur_by_noise(self, log: FloatArray) -> FloatArray:
        """Log-likelihood of places (n,) from that of the places that a UE answered for, within the
        grid.
        """
        if self.epsilon is None or not log.any():
            return log
        from scipy.signal import fftconvolve

        p, q = self.shape
        x = np.arange(1 - p, p) * self.step_m
        y = np.arange(1 - q, q) * self.step_m
        kernel = np.exp(-self.epsilon * np.hypot(x[:, None], y))
        spread = fftconvolve(np.exp(log - log.max()).reshape(self.shape), kernel, "same")
        return np.log(np.maximum(spread.ravel(), 1e-12 * spread.max()))


def _space_evenly(axis: FloatArray, step_m: float) -> FloatArray:
    """Numbers (n,) from the first to the last of an axis, about step_m apart."""
    count = round(float(np.ptp(axis)) / step_m) + 1
    return np.linspace(axis[0], axis[-1], count)


def _wrap(angle: FloatArray) -> FloatArray:
    return np.remainder(angle + np.pi, 2 * np.pi) - np.pi


def _find_twins(wave: FloatArray, before: FloatArray, grid: Lattice) -> IntArray:
    """Index of the wave of the same omega before (k, 3) for each wave (n, 3); -1: none."""
    if not len(before):
        return np.full(len(wave), -1)
    difference = wave[:, None, :2] - before[None, :, :2]
    gap = np.linalg.norm(difference, axis=2) * grid.extent_m
    gap = np.where(np.isnan(gap), np.inf, gap)
    return np.where(gap.min(axis=1) < _SAME, gap.argmin(axis=1), -1)


def _find_step(current: AnswerEvidence, last: AnswerEvidence, grid: Lattice) -> FloatArray:
    """The shortest displacement (2,) that turns all waves of the last answer into these; NaN: not
    the same waves.
    """
    twin = _find_twins(current.wave, last.wave, grid)
    if not len(twin) or (twin < 0).any():
        return np.full(2, np.nan)
    turn = _wrap(current.wave[:, 2] - last.wave[twin, 2])
    return np.asarray(np.linalg.lstsq(current.wave[:, :2], turn, rcond=1e-9)[0])


def _read_answer(
    surface: FloatArray, tried: _AskedGrid, known_waves: FloatArray
) -> tuple[FloatArray, FloatArray, str]:
    """Read surfaces (H, P, Q) of one UE: waves (k, 3), places (k, 2), and a word on them;
    known_waves : its waves before.
    """
    nothing = np.zeros((0, 3)), no_places()
    if np.ptp(surface) == 0:
        return *nothing, "constant surface"
    if np.isinf(tried.features):
        peak_m = find_kernel_peak_offset_m(surface[0], tried.grid, float(tried.bandwidth_m[0]))
        if peak_m is None:
            return *nothing, "no wave"
        return np.full((1, 3), np.nan), tried.centre_m + peak_m[None], "ok"
    if not 1 <= tried.features <= _MOST_WAVES:
        return *nothing, "no wave"
    columns = []
    word = "ok"
    for height, h in zip(surface, tried.bandwidth_m, strict=True):
        waves = read_waves(height, tried.grid, int(tried.features), float(h))
        if not waves.misfit <= _MISFIT:
            return *nothing, "no wave"
        twin = _find_twins(waves.columns, known_waves, tried.grid)
        if (twin >= 0).all():
            waves = fit_phases(height, tried.grid, known_waves[twin, :2])
        elif np.isfinite(known_waves).any():
            word = "new wave"
        columns.append(waves.columns)
    wave = np.concatenate(columns)
    return wave, np.full((len(wave), 2), np.nan), word
