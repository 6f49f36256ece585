r"""Homes from the cells through which UEs send at night, whatever their updates were learnt
from.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.special import softmax

from fl.attacks.arrival_times import UploadAttack, iterate_relative_levels_db
from fl.attacks.base import View
from fl.attacks.dwell import HourRange
from fl.attacks.place_maps import NamesPlaces, PlaceMaps
from fl.attacks.threat import CELLS
from fl.notice import Prepared, notice
from fl.tracking.place_grid import PlaceGrid, compute_disc_masses
from fl.tracking.population import POPULATIONS, InBuildings, PopulationPrior
from fl.types import Estimates, Public, RoundContext
from netsim.clock import DAY_S
from netsim.notice import Notice
from netsim.rng import Rng
from netsim.units import BoolArray, Float32Array, FloatArray

_SOFT_DB = 5.0
_LEAST = 0.02  # of the law of cells
_MOST_UPLOADS = 4  # count: shadowing at home is the same in all of them


class NightAttack(NamesPlaces, UploadAttack):
    """Names homes by what it learns of a UE when it sends at night, and a map of where people
    live.
    """

    cell_m: float | None = Field(25.0, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m; none: as of span"""
    home_hours: HourRange = (0.0, 6.0)
    """hours between which an upload that is asked for tells of home, both included; 22 to 6 goes
    over midnight"""
    population: Annotated[PopulationPrior, POPULATIONS] = InBuildings()
    """where people live, as far as the attacker knows"""
    hit_radius_m: float = Field(100.0, gt=0, le=1e6)
    """radius of the disc that should hold the home, m"""

    @property
    def reads_sums(self) -> bool:
        return True

    @property
    def reads_the_city(self) -> bool:
        return self.population.reads_city

    def check(self, public: Public, n_ue: int) -> None:
        super().check(public, n_ue)
        self.population.compute_probability(self.build_grid(public, n_ue), public)

    def notices(self, prepared: Prepared) -> Iterator[Notice]:
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


class HomeCells(NightAttack):
    r"""Names homes by the cells through which uploads come at night, and a map of where people
    live.

    A device that holds back what it measured at home still sends through the cell that serves its
    home. Of an upload that was asked for within `home_hours`, the cell b has at home h the
    probability

        p(b | h) = max(softmax_b((P_b + G_b(h) - 35 log10 d_b(h)) / 5 dB), 0.02)

    with power P, gain G of usual sector antennas and distance d. With A(h) the probability of
    `population` and N such uploads of a UE so far,

        log P(h) = log A(h) + min(N, 4) mean log p(b | h) + const:

    many uploads at one place share its shadowing, and count as four. (Weights of 0.5 to 2 on either
    term change what is found by no more than chance.) Answers: the place with most of P within
    hit_radius_m, then the highest at least `apart_m` from those before. Of a UE that did not send
    at night nothing is said. Updates are not read.
    """

    kind: Literal["home-cells"] = "home-cells"

    reference = "netsim: cells of uploads at night, with a public map of buildings"
    space = {"population": ({"kind": "buildings"}, {"kind": "uniform"})}
    example = {"kind": "home-cells", "population": {"kind": "uniform"}}
    needs = {
        CELLS: (
            "reads through which cell updates come; set threat.observes: updates or aggregate, "
            "without shuffle or cells: false"
        ),
        "positions": "says where UEs live, and these data have no places to compare that with",
    }

    def start(self) -> PlaceMaps:
        """Number of uploads at night of each UE through each cell: a map whose places are cells."""
        return PlaceMaps.empty()

    def run(
        self, view: View, facts: RoundContext, state: PlaceMaps, rng: Rng
    ) -> tuple[Estimates, PlaceMaps]:
        ue, first = np.unique(view.ue, return_index=True)  # all rows of a UE come together
        uploads = np.zeros((len(ue), facts.public.n_cell))
        timing = view.timing
        # all phases have the cell of the request
        if timing is not None and view.phase == view.learner.phases[0]:
            cell = timing.base_station[first]
            tells = np.flatnonzero((cell >= 0) & self.is_night(timing.requested_s[first], facts))
            uploads[tells, cell[tells]] = 1.0
        state = state.plus(ue, uploads)
        grid = self.build_grid(facts.public, len(state.owner))
        counts = state.look_up(ue)
        n = counts.sum(axis=1, keepdims=True)
        weight = counts * np.minimum(n, _MOST_UPLOADS) / np.maximum(n, 1.0)
        log_law = weight @ compute_cell_log_law(grid.place_m, facts.public)
        mass = self.sum_discs(log_law, grid, facts.public) * (n > 0)
        return self.answer_targets(view, PlaceMaps(ue, mass), grid), state


def compute_cell_log_law(place_m: FloatArray, public: Public) -> FloatArray:
    """log p(b | h) (n_cell, G) of homes at places (G, 2)."""
    level_db = compute_relative_levels_db(place_m, public)
    return np.log(np.maximum(softmax(level_db / _SOFT_DB, axis=0), _LEAST))


def compute_relative_levels_db(place_m: FloatArray, public: Public) -> FloatArray:
    """Levels (n_cell, G) of all cells at places (G, 2), as `iterate_relative_levels_db` has
    them.
    """
    if public.antennas is None:
        raise ValueError("base stations without places, which `check` refuses")
    return np.array(list(iterate_relative_levels_db(place_m, public.antennas, public.ue_height_m)))
