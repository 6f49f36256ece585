r"""Measures of location privacy of an attacker's beliefs, one row per round and UE.

With the belief p over places c of a UE that is truly at x, and the attacker's best answers (`fl.tracking.belief`):

    privacy (correctness)   sum_c p_c d(c, x)         expected distance of an answer that is drawn from the belief
    error                   d(best answer, x)
    success                 whether x is within hit_radius_m of the best disc's centre, whose mass is stated
    uncertainty             -sum_c p_c log2 p_c, credible areas, and whether x lies in them

[Shokri et al. 2011, Quantifying Location Privacy, Section III.] The same is said of the prior alone, and of the attack
whose estimates the attacker tracks. How long a UE is known is the sum of windows in which the answer succeeds.
"""

from __future__ import annotations

import numpy as np

from fl.round.tables import Cells, cells, xy
from fl.tracking.belief import Belief, answers, expected_distance_m, in_area, probability_within
from fl.types import Estimates, Local
from netsim.columns import Columns, frozen, no_ints, no_places
from netsim.units import FloatArray, IntArray

_HELD, _MOST_CELLS = 0.95, 60  # of a belief in the table `beliefs`


@frozen
class Whereabouts(Columns):
    """Where UEs really were on average in each window: round, ue (n,), place_m (n, 2); in order of rounds."""

    round: IntArray
    ue: IntArray
    place_m: FloatArray

    @classmethod
    def nowhere(cls) -> Whereabouts:
        """Before the first round."""
        return cls(no_ints(), no_ints(), no_places())

    @classmethod
    def of(cls, number: int, measured: Local) -> Whereabouts:
        """Truth of the UEs with measurements in this round, all their models together."""
        some = measured.nonempty()
        ue, row = np.unique(some.ue, return_inverse=True)
        count = np.bincount(row, weights=some.count, minlength=len(ue))
        mean = some.mean_x()
        total = [np.bincount(row, weights=some.count * mean[:, k], minlength=len(ue)) for k in (0, 1)]
        return cls(np.full(len(ue), number), ue, np.stack(total, axis=1) / count[:, None])

    def plus(self, more: Whereabouts) -> Whereabouts:
        """These, then those of a later round."""
        return self.join([self, more])

    def at(self, number: int) -> Whereabouts:
        """Truth of one round."""
        low, high = np.searchsorted(self.round, [number, number + 1])
        return self.select(slice(low, high))


def compared(
    label: str, belief: Belief, there: Whereabouts, plain: Estimates | None, hit_radius_m: float, *, hindsight: bool
) -> Cells:
    """Columns of the table `tracking`, for the UEs that are in both; plain : what the tracked attack said in this
    round by itself, None where it is not at hand.
    """
    ue, mine, theirs = np.intersect1d(belief.ue, there.ue, assume_unique=True, return_indices=True)
    p, x, grid = belief.probability[mine], there.place_m[theirs], belief.grid
    point_m = None if belief.point_m is None else belief.point_m[mine]
    said = answers(p, grid, hit_radius_m, point_m, belief.alone)
    prior, every = answers(belief.prior[None], grid, hit_radius_m), np.zeros(len(ue), dtype=np.int64)
    priors = np.broadcast_to(belief.prior, p.shape)
    plain_error_m = _away(_plain(plain, ue), x)
    return cells(
        "tracking", len(ue), said, belief, attack=label, ue=ue, hindsight=hindsight,
        **xy(said.place_m), **xy(said.disc_m, "disc_"), **xy(x, "truth_"),
        error_m=_away(said.place_m, x), near=_away(said.disc_m, x) <= hit_radius_m,
        expected_distance_m=expected_distance_m(p, grid, x),
        in50=in_area(p, grid, x, said.least50), in90=in_area(p, grid, x, said.least90),
        plain_error_m=plain_error_m, plain_near=plain_error_m <= hit_radius_m,
        prior_error_m=_away(prior.place_m[every], x), prior_near=_away(prior.disc_m[every], x) <= hit_radius_m,
        prior_expected_distance_m=expected_distance_m(priors, grid, x),
        prior_draw_near=probability_within(priors, grid, x, hit_radius_m),
    )  # fmt: skip


def _plain(estimates: Estimates | None, ue: IntArray) -> FloatArray:
    """Where the tracked attack itself puts UEs (n,): its first estimate of each that is inside the area, or NaN."""
    at = np.full((len(ue), 2), np.nan)
    if estimates is None:
        return at
    own = np.flatnonzero([what == "plain" for what in estimates.what])
    known, first = np.unique(estimates.ue[own], return_index=True)
    _, mine, theirs = np.intersect1d(ue, known, assume_unique=True, return_indices=True)
    at[mine] = estimates.position_m[own[first[theirs]]]
    return at


def _away(a_m: FloatArray, b_m: FloatArray) -> FloatArray:
    return np.asarray(np.hypot(*(a_m - b_m).T))


def belief_rows(label: str, belief: Belief, number_of_ues: int, *, hindsight: bool) -> Cells:
    """Columns of the table `beliefs`: the likeliest cells of the UEs of smallest number."""
    some = belief.only(belief.ue < number_of_ues)
    count = min(_MOST_CELLS, len(belief.grid))
    order = np.argsort(-some.probability, axis=1, kind="stable")[:, :count]
    held = np.take_along_axis(some.probability, order, axis=1).astype(np.float64)
    before = np.cumsum(held, axis=1) - held
    row, rank = np.nonzero((before < _HELD) & (held > 0))
    return cells(
        "beliefs", len(row), belief, attack=label, ue=some.ue[row], hindsight=hindsight,
        **xy(belief.grid.place_m[order[row, rank]]), probability=held[row, rank],
        cell_m=float(np.sqrt(np.prod(belief.grid.cell_m))),
    )  # fmt: skip
