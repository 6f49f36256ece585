r"""The filter with particles: where UEs may be is P weighted points of the plane instead of cells of a grid.

Motion is that of `fl.tracking.motion` at points: a Gaussian ends inside the area, a jump ends in a cell drawn from the
prior and anywhere in it. To stay is a Gaussian of 1 m a axis: particles that never moved at all would soon be copies of
a few. The estimates of a round are Gaussians and a floor, so that what follows a particle at x has a closed form,

    K(x, x') e(x') = w_J pi(x') e(x') + sum_k w_k G_k(x, x') [floor + sum_r v_r N(x'; c_r, s_r^2 I)],

a mixture with the weights alpha_o(x) of its parts o. A particle is weighed by their sum, and moves to a draw from the
mixture: it goes where the estimates are, and an exact estimate needs no more particles than a vague one. (The
bootstrap filter, which moves first and weighs then, has no particle near an estimate of 1 m in a town.) Particles are
resampled systematically, before they move, when the effective number falls below P / 2. With r_k the mean of
alpha_k / sum alpha over particles, the weights of motion are learnt as in `fl.tracking.filter`.

[Pitt and Shephard 1999 for full adaptation; Douc and Cappé 2005 for systematic resampling]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl.tracking.cloud import Cloud, Sight
from fl.tracking.filter import blocks
from fl.tracking.motion import Motion
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.truncated import inside_mass, truncated_normal
from fl.tracking.wide import Maps
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

STAY_M = 1.0


@dataclass(frozen=True, eq=False)
class Kernel:
    """Motion at points: sigma_m (K + 1,) of staying and of the Gaussians; prior (1, ny, nx) of jumps."""

    sigma_m: FloatArray
    grid: PlaceGrid
    prior: Maps

    @classmethod
    def of(cls, motion: Motion, prior: Maps) -> Kernel:
        """With the components of motion on a grid."""
        return cls(np.concatenate([[STAY_M], motion.sigma_m]), motion.grid, prior)

    def inside(self, place_m: FloatArray) -> FloatArray:
        """Mass (..., K + 1) of the Gaussians around places (..., 2) that lies inside the area."""
        area = self.grid.area
        return inside_mass(place_m[..., None, :], self.sigma_m[:, None], area.low_m, area.high_m)


@dataclass(frozen=True, eq=False)
class Move:
    """What a step makes of UEs: their cloud; log_ratio (n,), the logarithm of how likely the estimates were; share
    (n, K + 2) : uses of the components; bad (n,) : whose estimates were impossible and changed nothing.
    """

    cloud: Cloud
    log_ratio: FloatArray
    share: FloatArray
    bad: BoolArray

    @classmethod
    def none(cls, n_ue: int, particles: int, components: int) -> Move:
        """To be filled in."""
        share, bad = np.zeros((n_ue, components)), np.zeros(n_ue, dtype=np.bool_)
        return cls(Cloud.none(n_ue, particles), np.zeros(n_ue), share, bad)

    def put(self, rows: IntArray | slice, part: Move) -> None:
        """Fills in what became of some UEs."""
        self.cloud.put(rows, part.cloud)
        self.log_ratio[rows], self.share[rows], self.bad[rows] = part.log_ratio, part.share, part.bad


def followed(
    kernel: Kernel, cloud: Cloud, new: BoolArray, legs: list[FloatArray], sight: Sight, rng: Rng, ue: IntArray
) -> Iterator[Move]:
    """Each of the rounds of motion before a look at UEs (n,), with weights (n, K + 2); estimates come after the last.

    new (n,) : who begins with the prior. Without a round that has passed, only weights of the others change.
    """
    for leg, weight in enumerate(legs):
        last = leg == len(legs) - 1
        seen = sight if last else Sight.nothing(len(ue), kernel.grid)
        done = _in_blocks(kernel, cloud, _with_prior(weight, new), seen, rng, ue, leg)
        cloud = done.cloud
        yield done
    if legs:
        return
    done, rows = weighed(cloud, sight), np.flatnonzero(new)
    if len(rows):
        weight = _with_prior(np.zeros((len(rows), len(kernel.sigma_m) + 1)), np.ones(len(rows), dtype=np.bool_))
        first = _in_blocks(kernel, cloud.of(rows), weight, sight.select(rows), rng, ue[rows], 0)
        done.cloud.put(rows, first.cloud)
        done.log_ratio[rows], done.bad[rows] = first.log_ratio, first.bad
    yield done


def _with_prior(weight: FloatArray, new: BoolArray) -> FloatArray:
    """Weights (n, K + 2) of which those of new UEs (n,) jump."""
    only_jumps = np.eye(weight.shape[1])[-1]
    return np.where(new[:, None], only_jumps, weight)


def _in_blocks(
    kernel: Kernel, cloud: Cloud, weight: FloatArray, sight: Sight, rng: Rng, ue: IntArray, leg: int
) -> Move:
    """`moved`, a few UEs at a time."""
    n, particles = cloud.log_weight.shape
    out = Move.none(n, particles, weight.shape[1])
    for rows in blocks(n, particles):
        unit = rng.uniform("move", ue[rows], (4 * particles + 1,), item=leg)
        done = moved(kernel, cloud.of(rows), weight[rows], sight.select(rows), unit)
        out.put(rows, done)
    return out


def weighed(cloud: Cloud, sight: Sight) -> Move:
    """The same places after estimates, where no time has passed."""
    at = sight.at
    square = ((cloud.place_m[:, :, None] - at.mean_m[:, None]) ** 2).sum(axis=3)  # (n, P, R)
    each = at.weight[:, None] * _gaussian(square, at.sigma_m[:, None] ** 2)
    return _weighed(cloud, at.floor[:, None] + each.sum(axis=2))


def moved(kernel: Kernel, cloud: Cloud, weight: FloatArray, sight: Sight, unit: FloatArray) -> Move:
    """One round of motion with weights (n, K + 2) and then estimates; unit (n, 4 P + 1) : uniform numbers."""
    alpha = _parts(kernel, cloud, weight, sight)
    n, particles, parts = alpha.shape
    done = _weighed(cloud, alpha.sum(axis=2))
    if done.bad.any():
        return _without(kernel, cloud, weight, sight, unit, done.bad)
    belief = np.exp(done.cloud.log_weight)
    ancestors, log_weight = _ancestors(done.cloud.log_weight, unit[:, -1])
    rows = np.arange(n)[:, None]
    ranks = sight.at.weight.shape[1]
    use = np.einsum("np,npo->no", belief, alpha / alpha.sum(axis=2, keepdims=True))
    share = np.concatenate([use[:, :-1].reshape(n, -1, ranks + 1).sum(axis=2), use[:, -1:]], axis=1)
    alpha = np.cumsum(alpha[rows, ancestors], axis=2)
    u = unit[:, :-1].reshape(n, particles, 4)
    part = np.minimum((alpha < u[..., :1] * alpha[..., -1:]).sum(axis=2), parts - 1)
    place_m = _placed(kernel, cloud.place_m[rows, ancestors], part, sight, u[..., 1:])
    return Move(Cloud(place_m, log_weight), done.log_ratio, share, done.bad)


def _without(kernel: Kernel, cloud: Cloud, weight: FloatArray, sight: Sight, unit: FloatArray, bad: BoolArray) -> Move:
    """`moved`, where the estimates of some UEs are impossible: these move only."""
    n, particles = cloud.log_weight.shape
    out = Move.none(n, particles, weight.shape[1])
    some, others = np.flatnonzero(~bad), np.flatnonzero(bad)
    if len(some):
        out.put(some, moved(kernel, cloud.of(some), weight[some], sight.select(some), unit[some]))
    blind = moved(kernel, cloud.of(others), weight[others], Sight.nothing(len(others), kernel.grid), unit[others])
    out.cloud.put(others, blind.cloud)
    out.bad[others] = True
    return out


def _parts(kernel: Kernel, cloud: Cloud, weight: FloatArray, sight: Sight) -> FloatArray:
    """alpha (n, P, (K + 1) (R + 1) + 1): for each Gaussian of motion the ranks and the floor; last, the jump."""
    at, x, s = sight.at, cloud.place_m[:, :, None, None], kernel.sigma_m[:, None]
    mean_m, wide = at.mean_m[:, None, None], at.sigma_m[:, None, None]  # (n, 1, 1, R, 2), (n, 1, 1, R)
    both = s**2 + wide**2  # (n, 1, K + 1, R)
    meets = _gaussian(((x - mean_m) ** 2).sum(axis=4), both)
    middle, spread = _product(x, s, mean_m, wide)
    area = kernel.grid.area
    meets *= inside_mass(middle, spread[..., None], area.low_m, area.high_m)
    meets *= at.weight[:, None, None] / kernel.inside(cloud.place_m)[..., None]
    floor = np.broadcast_to(at.floor[:, None, None, None], (*meets.shape[:3], 1))
    gaussians = weight[:, None, :-1, None] * np.concatenate([meets, floor], axis=3)  # (n, P, K + 1, R + 1)
    total = kernel.prior.reshape(1, -1).sum(axis=1)
    jump = weight[:, -1] * np.exp(sight.cells.log_top) * sight.cells.inner(kernel.prior, total)
    n, particles = cloud.log_weight.shape
    jump = np.broadcast_to(jump[:, None, None], (n, particles, 1))
    return np.concatenate([gaussians.reshape(n, particles, -1), jump], axis=2)


def _placed(kernel: Kernel, from_m: FloatArray, part: IntArray, sight: Sight, u: FloatArray) -> FloatArray:
    """New places (n, P, 2) of particles from places, each by a part of the mixture; u (n, P, 3)."""
    at, area = sight.at, kernel.grid.area
    component, rank = np.divmod(part, at.weight.shape[1] + 1)
    jumps, ranked = component == len(kernel.sigma_m), rank < at.weight.shape[1]
    s = kernel.sigma_m[np.where(jumps, 0, component)]
    row, of = np.arange(len(part))[:, None], np.minimum(rank, at.weight.shape[1] - 1)
    middle, spread = _product(from_m, s, at.mean_m[row, of], at.sigma_m[row, of])
    middle, spread = np.where(ranked[..., None], middle, from_m), np.where(ranked, spread, s)
    place_m = truncated_normal(middle, spread[..., None], area.low_m, area.high_m, u[..., :2])
    for i in np.flatnonzero(jumps.any(axis=1)):
        who = jumps[i]
        place_m[i, who] = _landed(kernel, sight.select(slice(i, i + 1)), u[i, who])
    return place_m


def _landed(kernel: Kernel, sight: Sight, u: FloatArray) -> FloatArray:
    """Ends (k, 2) of jumps of one UE, drawn from pi e; u (k, 3)."""
    grid, at = kernel.grid, sight.at
    mass = np.cumsum((sight.cells.peaked() * kernel.prior).ravel(), dtype=np.float64)
    aim = u[:, 2] * mass[-1]
    cell = np.minimum(np.searchsorted(mass, aim), len(mass) - 1)
    own = mass[cell] - np.where(cell > 0, mass[cell - 1], 0.0)
    left = np.clip((mass[cell] - aim) / own, 0.0, 1.0)  # uniform again, within the cell
    row, column = np.divmod(cell, grid.nx)
    ranks = sight.cells.fy[0][:, row] * sight.cells.fx[0][:, column]  # (R, k)
    each = np.cumsum(np.concatenate([ranks.astype(np.float64), np.full((1, len(cell)), sight.cells.floor[0])]), axis=0)
    rank = np.minimum((each < left * each[-1]).sum(axis=0), len(ranks))
    low = grid.place_m[cell] - grid.cell_m / 2
    named, of = rank < len(ranks), np.minimum(rank, len(ranks) - 1)
    drawn = truncated_normal(at.mean_m[0, of], at.sigma_m[0, of][:, None], low, low + grid.cell_m, u[:, :2])
    return np.where(named[:, None], drawn, low + u[:, :2] * grid.cell_m)


def _weighed(cloud: Cloud, e: FloatArray) -> Move:
    """Weights times e (n, P); who has none left keeps its own."""
    with np.errstate(divide="ignore"):
        log_weight = cloud.log_weight + np.log(e)
    from scipy.special import logsumexp

    log_ratio = logsumexp(log_weight, axis=1)
    bad = ~np.isfinite(log_ratio)
    log_ratio[bad] = 0.0
    log_weight = np.where(bad[:, None], cloud.log_weight, log_weight - log_ratio[:, None])
    return Move(Cloud(cloud.place_m.copy(), log_weight), log_ratio, np.zeros((len(e), 0)), bad)


def _ancestors(log_weight: FloatArray, u: FloatArray) -> tuple[IntArray, FloatArray]:
    """Who each particle (n, P) descends from, and its new weight: all anew where the effective number is small."""
    n, particles = log_weight.shape
    ancestors = np.tile(np.arange(particles), (n, 1))
    new = log_weight.copy()
    p = np.exp(log_weight)
    for i in np.flatnonzero((p**2).sum(axis=1) * particles > 2):
        ladder = (np.arange(particles) + u[i]) / particles
        ancestors[i] = np.minimum(np.searchsorted(np.cumsum(p[i]), ladder), particles - 1)
        new[i] = -np.log(particles)
    return ancestors, new


def _product(x: FloatArray, s: FloatArray, mean_m: FloatArray, wide: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (..., 2) and standard deviation (...) of N(x, s^2) N(mean, wide^2), up to a factor."""
    both = s**2 + wide**2
    return (x * (wide**2 / both)[..., None] + mean_m * (s**2 / both)[..., None]), np.asarray(s * wide / np.sqrt(both))


def _gaussian(square: FloatArray, variance: FloatArray) -> FloatArray:
    """Density, 1/m^2, of a Gaussian of the plane at squared distances."""
    return np.exp(-square / (2 * variance)) / (2 * np.pi * variance)
