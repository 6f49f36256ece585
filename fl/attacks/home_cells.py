r"""Homes told by the cells through which UEs send at night, whatever their updates were learnt from."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import softmax

from fl.attacks.arrival_times import OfUploads
from fl.attacks.base import View
from fl.attacks.dwell import HourOfDay
from fl.attacks.place_maps import NamesPlaces, PlaceMaps, answers
from fl.attacks.rings import levels_db
from fl.attacks.simulated_ues import SHADOWING_DB, Population
from fl.attacks.subspace import AnyFloats
from fl.attacks.threat import CELLS
from fl.population import POPULATIONS
from fl.population.base import PopulationPrior
from fl.population.buildings import InBuildings
from fl.tracking.discs import disc_masses
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, Facts, Public
from netsim.clock import DAY_S
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_SOFT_DB, _LEAST = 5.0, 0.02  # of the law of cells
_NO_MASS = 1e-12  # counts as that much
_MOST_UPLOADS = 4  # count: shadowing at home is the same in all of them
_MADE_UP = 256
_POWERS = (0.5, 0.7, 1.0, 1.4, 2.0)


@dataclass(frozen=True, eq=False)
class NightCells:
    """seen : how many uploads at night of each UE came through each cell, a map whose places are cells; power (2,) :
    alpha and beta, empty before they are learnt.
    """

    seen: PlaceMaps
    power: FloatArray


class HomeCells(NamesPlaces, OfUploads):
    r"""Names homes by the cells through which uploads come at night, and a map of where people live.

    A device that holds back what it measured at home still sends through the cell that serves its home. Of an upload
    that was asked for within `home_hours`, the cell b has at home h the probability

        p(b | h) = max(softmax_b((P_b + G_b(h) - 35 log10 d_b(h)) / 5 dB), 0.02)

    with power P, gain G of usual sector antennas and distance d. With A(h) the probability of `population` and N such
    uploads of a UE so far,

        log P(h) = alpha log A(h) + beta min(N, 4) mean log p(b | h) + const,

    where alpha and beta are those, of 0.5 to 2 each, that give the homes of 256 UEs which the attacker makes up most
    probability within near_m: they live where `population` says, and four uploads at home come through the
    strongest cell, by the same law with a shadowing of 8 dB that lasts, and half as much that does not. Answers: the
    place with most of P within near_m, then the highest at least `apart_m` from those before. Updates are not read.
    """

    kind: Literal["home-cells"] = "home-cells"
    home_hours: Annotated[tuple[HourOfDay, HourOfDay], Field(strict=False)] = (0.0, 6.0)
    """hours between which an upload that is asked for tells of home, both included; 22 to 6 goes over midnight"""
    population: Annotated[PopulationPrior, POPULATIONS] = InBuildings()
    """where people live, as far as the attacker knows"""
    near_m: float = Field(default=100.0, gt=0, le=1e6)
    """radius of the disc that should hold the home, m"""

    reference: ClassVar[str] = "netsim: cell identities as in Gonzalez et al. 2008, with a public map of buildings"
    example: ClassVar[dict[str, Any]] = {"kind": "home-cells", "population": {"kind": "uniform"}}
    needs: ClassVar[dict[str, str]] = {
        CELLS: "reads through which cell updates come; let the threat see rows or sum, without shuffle or cells: false",
        "positions": "says where UEs live, and these data have no places to compare that with",
    }

    @property
    def reads_the_city(self) -> bool:
        return self.population.of_the_city

    def check(self, public: Public, n_ue: int) -> None:
        super().check(public, n_ue)
        self.population.probability(self._grid(public, n_ue), public)

    def notes_on_rounds(self, rounds: Iterable[Facts]) -> tuple[str, ...]:
        if any(self._at_night(np.array([facts.time_s]), facts).any() for facts in rounds):
            return ()
        start, end = self.home_hours
        return (
            f"attack {self.label}: no round ends between {start:g} and {end:g} h, so it never hears of a home; set "
            "home_hours to hours in which rounds end",
        )

    def start(self) -> NightCells:
        return NightCells(PlaceMaps.empty(), np.zeros(0))

    def run(self, view: View, facts: Facts, state: NightCells, rng: Rng) -> tuple[Estimates, NightCells]:
        ue, first = np.unique(view.ue, return_index=True)  # all rows of a UE come together
        state = replace(state, seen=state.seen.plus(ue, self._heard(view, first, facts)))
        grid = self._grid(facts.public, len(state.seen.owner))
        prior = self.population.probability(grid, facts.public)
        law = np.log(np.maximum(softmax(_levels_db(grid.place_m, facts.public) / _SOFT_DB, axis=0), _LEAST))
        log_prior = np.log(np.maximum(prior, _NO_MASS))
        if not len(state.power):
            state = replace(state, power=self._learnt(law, log_prior, Population(grid, prior), facts.public, rng))
        counts = state.seen.of(ue)
        mass = disc_masses(_posterior(counts, law, log_prior, state.power), grid, self.near_m)
        mass[counts.sum(axis=1) == 0] = 0.0  # nothing is known of them
        return answers(view, PlaceMaps(ue, mass), grid, self.naming), state

    def _heard(self, view: View, target: IntArray, facts: Facts) -> FloatArray:
        """The uploads (n,) of targets (n,) that tell of home, one in the column of its cell: (n, n_cell)."""
        counts = np.zeros((len(target), facts.public.n_cell))
        if view.timing is not None and view.phase == view.learner.phases[0]:  # all phases have the cell of the request
            cell = view.timing.base_station[target]
            tells = np.flatnonzero((cell >= 0) & self._at_night(view.timing.requested_s[target], facts))
            counts[tells, cell[tells]] = 1.0
        return counts

    def _at_night(self, time_s: FloatArray, facts: Facts) -> BoolArray:
        """Which times (n,) are in the home hours by the wall clock; all, where nobody says what it shows."""
        hour = (facts.week_s + time_s - facts.time_s) % DAY_S / 3600.0
        start, end = self.home_hours
        return np.asarray(np.isnan(hour) | ((hour - start) % 24 <= (end - start) % 24))

    def _grid(self, public: Public, n_ue: int) -> PlaceGrid:
        return PlaceGrid.over(public.area, self.cell_m, n_ue + public.n_cell + _MADE_UP, self.label)

    def _learnt(
        self, law: FloatArray, log_prior: FloatArray, population: Population, public: Public, rng: Rng
    ) -> FloatArray:
        """alpha and beta (2,): of all pairs that with the largest mean logarithm of P near the homes of UEs made up."""
        made = np.arange(_MADE_UP)
        home_m = population.sample(rng.uniform("home", made, (3,)))
        lasting = SHADOWING_DB * rng.normal("shadowing", made, (1, len(law)))
        passing = SHADOWING_DB / 2 * rng.normal("passing", made, (_MOST_UPLOADS, len(law)))
        cell = (_levels_db(home_m, public).T[:, None] + lasting + passing).argmax(axis=2)
        counts = np.eye(len(law))[cell].sum(axis=1)
        away_m = np.hypot(*(population.grid.place_m - home_m[:, None]).transpose(2, 0, 1))

        def gain(power: tuple[float, float]) -> float:
            near = (_posterior(counts, law, log_prior, np.array(power)) * (away_m <= self.near_m)).sum(axis=1)
            return float(np.log(np.maximum(near, _NO_MASS)).mean())

        return np.array(max(product(_POWERS, _POWERS), key=gain))


def _posterior(counts: FloatArray, law: FloatArray, log_prior: FloatArray, power: FloatArray) -> AnyFloats:
    """P (n, G) of homes by counts (n, n_cell) of uploads; power (2,): alpha and beta."""
    n = counts.sum(axis=1, keepdims=True)
    each = counts * np.minimum(n, _MOST_UPLOADS) / np.maximum(n, 1.0)
    return np.asarray(softmax(power[0] * log_prior + power[1] * (each @ law), axis=1), dtype=np.float32)


def _levels_db(place_m: FloatArray, public: Public) -> FloatArray:
    """Level of every cell at places (k, 2): (n_cell, k)."""
    if public.antennas is None:
        raise ValueError("base stations without places, which `check` refuses")
    return np.array(list(levels_db(place_m, public.antennas, public.ue_height_m)))
