r"""Homes from what base stations measure of UEs that send at night: enhanced cell identity."""

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import softmax

from fl.attacks.arrival_times import UploadAttack, compute_relative_levels_db
from fl.attacks.base import Attacked, View
from fl.attacks.dwell import HourRange
from fl.attacks.place_maps import (
    NamesPlaces,
    NeuronVotes,
    PlaceMaps,
    pair_owners_with_sources,
    smooth_maps,
)
from fl.attacks.threat import MEASURED
from fl.notice import Prepared, notice
from fl.tracking.place_grid import PlaceGrid, compute_disc_masses
from fl.tracking.population import POPULATIONS, InBuildings, PopulationPrior
from fl.types import Public, RoundContext
from netsim.clock import DAY_S
from netsim.columns import frozen
from netsim.notice import Notices
from netsim.part import Positive
from netsim.radio.path_loss import compute_urban_sight
from netsim.radio.positioning import EXCESS_MEAN_M, EXCESS_STD_M, NetworkFixes
from netsim.rng import Rng
from netsim.units import BoolArray, Float32Array, FloatArray

AWAY = 0.1
"""probability that a UE is not at home on a night, and that a vote says nothing of home"""
_SHADOWING_DB = 8.0
_OF_UNIT = 12.0**-0.5  # standard deviation of a uniform number between 0 and 1
_LEAST = 1e-30  # beside a likelihood, or a vote
_SOFT_DB = 5.0
_LEAST_OF_CELL = 0.02  # of the law of cells


@frozen
class Heard:
    """Maps (k, G) of the log laws of all nights added up, whose mean is the number of fixes, and of
    the votes of all updates.
    """

    nights: PlaceMaps
    votes: PlaceMaps


class NetworkPositioning(NamesPlaces, UploadAttack, kind="network-positioning"):
    r"""Names homes by what base stations measure of the UEs that send at night: enhanced cell
    identity.

    The network knows of each connection the serving cell, its timing advance, the angle of arrival,
    and levels of the strongest sites as the UE reports them (see `world.radio.positioning`);
    `threat.operator` grants them one by one. A home at h, with or without sight (s) of cell b by
    public probability, has the likelihood

        L(h) = p(b | h) sum_s p(s | d) N(path; d + e_s, std_s^2) N(angle; azimuth, angle_std_s^2)

    with e_s the mean excess of the path, and deviations that a step of the path and a cell of the
    grid widen, p(s | d) that of UMa [3GPP TR 38.901, Table 7.4.2-1], and

        p(b | h) = max(softmax_b((P_b + G_b(h) - 35 log10 d_b(h)) / 5 dB), 0.02)

    with power P, gain G of usual sector antennas and distance d. Levels of sites count beside their
    mean, with nominal ones by path loss of exponent 3.5 and a deviation of 8 dB. With A(h) the
    probability of `population`, and 0.1 that a UE is elsewhere on a night,

        log P(h) = log A(h) + mean log(0.9 L(h) + 0.1 sum_h A L) + const

    over all fixes of a UE at night: those of one place share shadowing, sight and reflections, and
    count as one. Answers: the place with most of P within hit_radius_m, then the highest at least
    `apart_m` from those before. Updates are not read, but for `votes`: then P is multiplied by V(h)
    / sum V + 0.1 / G, with V the map of all votes of `neuron-votes` in G places.
    """

    cell_m: float | None = Field(25.0, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m; none: as of span"""
    home_hours: HourRange = (0.0, 6.0)
    """hours between which an upload that is asked for tells of home, both included; 22 to 6 goes
    over midnight"""
    population: Annotated[PopulationPrior, POPULATIONS] = InBuildings()
    """where people live, as far as the attacker knows"""
    hit_radius_m: Positive = 100.0
    """radius of the disc that should hold the home, m"""
    votes: NeuronVotes | None = None
    """an attack on updates whose map is multiplied with its own; none: it reads no update"""

    reference = "3GPP TS 36.305, Section 8.3, and TS 38.305, Sections 8.9 and 8.14 (E-CID, UL-AoA)"
    example = {"kind": "network-positioning", "population": {"kind": "uniform"}}

    needs = {
        MEASURED: (
            "reads what base stations measure; grant some of it with threat.operator, and set "
            "threat.observes: updates or aggregate, without shuffle"
        ),
        "positions": "says where UEs live, and these data have no places to compare that with",
    }

    reads_sums = True

    @property
    def reads_the_city(self) -> bool:  # type: ignore[override]
        return self.population.reads_city

    def check(self, public: Public, n_ue: int) -> None:
        super().check(public, n_ue)
        self.population.compute_probability(self.build_grid(public, n_ue), public)

    def notices(self, prepared: Prepared) -> Notices:
        yield from super().notices(prepared)
        for facts in prepared.rounds():
            if self.is_night(np.array([facts.time_s]), facts).any():
                return
        start_h, end_h = self.home_hours
        yield notice("attack-nights-missed", self.label, start_h=start_h, end_h=end_h)

    def is_night(self, time_s: FloatArray, facts: RoundContext) -> BoolArray:
        """Which times (n,) are in the home hours by the wall clock; all, if it is unknown."""
        hour = (facts.week_s + (time_s - facts.time_s)) % DAY_S / 3600.0
        start, end = self.home_hours
        return np.isnan(hour) | ((hour - start) % 24 <= (end - start) % 24)

    def build_grid(self, public: Public, n_ue: int) -> PlaceGrid:
        """The places that are compared, in the maps of n_ue UEs."""
        return PlaceGrid.from_area(public.area, self.cell_m, n_ue + public.n_cell, self.label)

    def sum_discs(self, log_law: FloatArray, grid: PlaceGrid, public: Public) -> Float32Array:
        """Probability (n, G) within hit_radius_m of each place, by the population and log laws (n,
        G).
        """
        log_prior = np.log(self.population.compute_probability(grid, public))
        p = np.asarray(softmax(log_law + log_prior, axis=1), dtype=np.float32)
        return compute_disc_masses(p, grid, self.hit_radius_m)

    def start(self) -> Heard:
        return Heard(PlaceMaps.empty(), PlaceMaps.empty())

    def run(self, view: View, facts: RoundContext, state: Heard, rng: Rng) -> Attacked:
        ue, first = np.unique(view.ue, return_index=True)  # all rows of a UE come together
        grid = self.build_grid(facts.public, len(ue))
        nights = state.nights.plus(ue, np.zeros((len(ue), len(grid))))
        votes = state.votes
        timing = view.timing
        if timing and timing.network:
            first = first[self.is_night(timing.requested_s[first], facts)]
            fixes = timing.network.select(first)
            nights = nights.plus(view.ue[first], self.compute_log_laws(fixes, grid, facts.public))
        log_law = nights.look_up(ue)
        log_law = log_law / np.maximum(log_law.mean(axis=1, keepdims=True), 1.0)
        if self.votes:
            owner, source = pair_owners_with_sources(view)
            score = self.votes.compute_scores(view, grid, rng)
            votes = votes.plus(owner, smooth_maps(score, grid, self.votes.width_m)[source])
            v = votes.look_up(ue) + _LEAST
            log_law += np.log(v / v.sum(axis=1, keepdims=True) + AWAY / len(grid))
        mass = self.sum_discs(log_law, grid, facts.public)
        return self.answer_targets(view, PlaceMaps(ue, mass), grid), Heard(nights, votes)

    def compute_log_laws(self, fixes: NetworkFixes, grid: PlaceGrid, public: Public) -> FloatArray:
        """log (0.9 L + 0.1 sum A L) + const of fixes (n, G), of mean 1; 0 of one without a cell."""
        coverage = public.coverage
        if coverage is None:
            raise ValueError("base stations without places, which `check` refuses")
        budget = coverage.budget
        positioning = coverage.radio.positioning
        prior = self.population.compute_probability(grid, public)
        cell_law = np.exp(compute_cell_log_law(grid.place_m, public))
        level_db = compute_relative_levels_db(grid.place_m, public)
        # of links in sight, and of others
        cell_m = grid.cell_m.max()
        excess_m = np.array([[0.0], [EXCESS_MEAN_M]])
        step_m = np.hypot(cell_m, positioning.timing_step_m)
        std_m = np.hypot([[0.0], [EXCESS_STD_M]], _OF_UNIT * step_m)
        std_deg = np.array([[positioning.angle_los_deg], [positioning.angle_nlos_deg]])
        rows = np.zeros((len(fixes.cell), len(grid)))
        for i in np.flatnonzero(fixes.cell >= 0):
            b = fixes.cell[i]
            # east is imaginary, so that its angle is an azimuth
            offset_m = (grid.place_m - budget.at_m[b]) @ [1j, 1.0]
            flat_m = np.maximum(np.abs(offset_m), cell_m / 2.0)
            path_m = fixes.path_m[i] - np.hypot(flat_m, budget.height_m[b] - public.ue_height_m)
            turned_m = offset_m * np.exp(-1j * np.radians(fixes.azimuth_deg[i]))
            spread_deg = np.hypot(std_deg, np.degrees(_OF_UNIT * cell_m / flat_m))
            sight = compute_urban_sight(flat_m, 63.0)
            law = np.stack([sight, 1.0 - sight]) * _compute_density(path_m - excess_m, std_m)
            law *= _compute_density(np.degrees(np.angle(turned_m)), spread_deg)
            law = law.sum(axis=0) * cell_law[b]
            heard = np.isfinite(fixes.level_dbm[i])
            if heard.any():
                rest_db = fixes.level_dbm[i, heard, None] - level_db[heard]
                law *= np.exp(-0.5 * heard.sum() * rest_db.var(axis=0) / _SHADOWING_DB**2)
            law = np.log((1.0 - AWAY) * law + AWAY * (prior @ law) + _LEAST)
            rows[i] = law - law.mean() + 1.0
        return rows


def _compute_density(away: FloatArray, std: FloatArray) -> FloatArray:
    """N(away; 0, std^2) (G,) up to a factor; 1 where it is NaN: not measured."""
    return np.nan_to_num(np.exp(-0.5 * (away / std) ** 2) / std, nan=1.0)


def compute_cell_log_law(place_m: FloatArray, public: Public) -> FloatArray:
    """log p(b | h) (n_cell, G) of homes at places (G, 2)."""
    level_db = compute_relative_levels_db(place_m, public)
    return np.log(np.maximum(softmax(level_db / _SOFT_DB, axis=0), _LEAST_OF_CELL))
