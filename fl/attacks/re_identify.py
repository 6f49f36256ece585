r"""Linking of names: updates under new names are given to the senders of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from fl.attacks.arrival_times import ArrivalTimes
from fl.attacks.base import Attack, View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.clues import clues_of
from fl.attacks.density_peak import DensityPeak
from fl.attacks.dlg import Dlg
from fl.attacks.dwell import Dwell
from fl.attacks.learnt_errors import LearntErrors, named_places
from fl.attacks.likelihood import Likelihood
from fl.attacks.link_rounds import LinkRounds
from fl.attacks.simulated_inversion import SimulatedInversion
from fl.attacks.simulated_ues import Population
from fl.attacks.span import Span
from fl.attacks.threat import SENDERS
from fl.attacks.tracker import Tracker
from fl.attacks.unit_votes import UnitVotes
from fl.attacks.weighted_centroid import WeightedCentroid
from fl.tracking.belief import Belief
from fl.tracking.book import Book
from fl.tracking.error_model import ErrorModel
from fl.tracking.linker import Linker, Rates
from fl.tracking.linking import Links
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, Facts, Public, State
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_NUMBERS = 2  # of a fingerprint: amount of data, time per bit
_CELLS = 50  # of the grid that made-up UEs are spread over, a side
_OUTLIER = 0.05
_SIMULATED_UES = 32
_ROUGHLY = 0.1  # of the longer side of the area: error of an attack that nobody could try out
RE_IDENTIFIED = OneOf(
    "attack", ClosedForm, Dlg, SimulatedInversion, LinkRounds, UnitVotes, Span, WeightedCentroid, Likelihood,
    DensityPeak, ArrivalTimes, Tracker, Dwell,
)  # fmt: skip
"""Attacks whose senders can be tracks."""
PLACES = OneOf("attack", ClosedForm, Dlg, SimulatedInversion, DensityPeak, Span, UnitVotes)
"""Attacks that name places of a UE from one round."""


@dataclass(frozen=True)
class Memory:
    """of : state of the attack on tracks; errors : of the one that names places; links : of the last round."""

    of: State
    book: Book
    rates: Rates
    errors: LearntErrors = field(default_factory=LearntErrors)
    links: Links = field(default_factory=Links.none)


class _Needs:
    """What the attacks in it need; of the class itself: what its defaults do."""

    def __get__(self, part: ReIdentify | None, owner: type[Part]) -> dict[str, str]:
        own = {SENDERS: "links the names under which updates are sent; let the threat see rows or sum"}
        if part is None:
            return {**own, **ClosedForm.needs}
        return {**own, **(part.places_by.needs if "place" in part.use else {}), **part.of.needs}


class ReIdentify(Attack):
    r"""Follows UEs through changes of their names, and attacks the tracks with another attack.

    In each round the names that it has not seen before are assigned to tracks, at least cost (see
    `fl.tracking.linking`): near where the track was (place, by an attack on that round alone, `by`), and like it
    (fingerprint: amount of data, time per bit, serving cell, direction of the update). A name that it has seen stays
    with its track, which is certain. The attack `of` then sees tracks instead of names, so what it adds up over rounds
    goes on; its estimates are told by the names of the round. A wrong link mixes two UEs.

    The error of `by` is learnt on UEs that the attacker makes up, if it knows the training and sigma_m is not given;
    how UEs move, how often they send, and how alike updates of one UE are, is learnt from what was linked, weighted by
    how probable each link was. A track that nothing belonged to for an hour, and for six rounds, is given up.
    """

    kind: Literal["re-identify"] = "re-identify"
    of: Annotated[Attack, RE_IDENTIFIED] = ClosedForm(cloud=False)
    """the attack on tracks"""
    by: Annotated[Attack, PLACES] | None = None
    """the attack that names places from one round; none: `of`, if that is one, else closed-form"""
    use: tuple[Literal["place", "fingerprint"], ...] = Field(default=("place", "fingerprint"), min_length=1)
    """what names are linked by"""
    sigma_m: float | None = Field(default=None, ge=0.1, le=1e6)
    """standard deviation of the error of a place, a axis, m; none: learnt on UEs that it makes up, or a tenth of the
    longer side of the area where it cannot"""
    outlier: float | None = Field(default=None, ge=1e-6, lt=1)
    """share of places that say nothing; none: learnt likewise, or 0.05"""
    largest_speed_mps: float = Field(default=30.0, gt=0, le=1000)
    """largest speed of UEs, m/s: in one round they move by less than twice the widest Gaussian"""
    simulated_ues: int | None = Field(default=None, ge=1, le=10_000)
    """number of UEs that the attacker makes up, if the error is learnt; none: 32"""

    reference: ClassVar[str] = (
        "Hoh and Gruteser, Protecting Location Privacy Through Path Confusion, 2005: tracking of anonymous samples; "
        "Reid 1979: costs of births and misses; fingerprints: netsim"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "re-identify"}
    needs: ClassVar[dict[str, str]] = cast(dict[str, str], _Needs())

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for part in (self.of, self.by):
            if part is not None and part.name is not None:
                raise ValueError(f"{part.name!r} is in no record: give that name to re-identify itself")
        if len(set(self.use)) < len(self.use):
            raise ValueError(f"use: {self.use[0]!r} stands twice; name it once")
        of_places = {
            "by": self.by,
            "sigma_m": self.sigma_m,
            "outlier": self.outlier,
            "simulated_ues": self.simulated_ues,
        }
        if "place" not in self.use and (given := [key for key, value in of_places.items() if value is not None]):
            raise ValueError(f"{given[0]}: it speaks of places, and use has none; leave it out, or use place")
        if self.sigma_m is not None and self.simulated_ues is not None:
            raise ValueError("simulated_ues: with sigma_m no UEs are made up; leave one of them out")
        if self.outlier is not None and self.sigma_m is None:
            raise ValueError("outlier: it is learnt with sigma_m; give both, or none")
        return self

    @property
    def places_by(self) -> Attack:
        """The attack that names places."""
        if self.by is not None:
            return self.by
        one_round = (ClosedForm, Dlg, SimulatedInversion, DensityPeak)
        return self.of if isinstance(self.of, one_round) else ClosedForm(cloud=False)

    @property
    def reads_the_city(self) -> bool:
        return self.of.reads_the_city

    def check(self, public: Public, n_ue: int) -> None:
        self.of.check(public, n_ue)
        self.places_by.check(public, n_ue)

    def start(self) -> Memory:
        return Memory(self.of.start(), Book.empty(_NUMBERS), Rates.start())

    def run(self, view: View, facts: Facts, state: Memory, rng: Rng) -> tuple[Estimates, Memory]:
        name, of_target = np.unique(view.ue, return_inverse=True)
        state = self._learnt(view, facts, state, rng)
        clues = clues_of(view, of_target, self._places(view, facts, name, rng), "fingerprint" in self.use, rng)
        linker = Linker(self._error(state, facts), facts, self.largest_speed_mps, view.renames)
        book, rates, links = linker.linked(name, clues, state.book, state.rates)
        track = book.track_of(name)
        said, inner = self.of.run(view.renamed(track[of_target]), facts, state.of, rng)
        order = np.argsort(track)
        names = name[order][np.searchsorted(track[order], said.ue)]
        links = state.links.plus(links)
        return replace(said, ue=names), replace(state, of=inner, book=book, rates=rates, links=links)

    def figures(self, state: Memory) -> dict[str, float]:
        return self.of.figures(state.of)

    def links(self, state: Memory) -> Links:
        return state.links

    def belief(self, state: Memory, facts: Facts) -> Belief | None:
        """That of the attack on tracks, each by its last name."""
        believed = self.of.belief(state.of, facts)
        return None if believed is None else _by_names(believed, state.book)

    def hindsight(self, state: Memory, facts: Facts) -> Any:
        """That of the attack on tracks, each by the name that it had last in the round."""
        return (_by_names(believed, state.book) for believed in self.of.hindsight(state.of, facts))

    def _learnt(self, view: View, facts: Facts, state: Memory, rng: Rng) -> Memory:
        """With what it has learnt in this round of errors of places."""
        if "place" not in self.use or self.sigma_m is not None:
            return state
        grid = PlaceGrid(facts.public.area, _CELLS, _CELLS)
        everywhere, n = Population.uniform(grid), self.simulated_ues or _SIMULATED_UES
        return replace(
            state, errors=state.errors.plus(view, facts, self.places_by, everywhere, n, _own(rng), fresh=True)
        )

    def _error(self, state: Memory, facts: Facts) -> ErrorModel:
        """How far from the truth places are."""
        if self.sigma_m is not None:
            return ErrorModel.plain(self.sigma_m, _OUTLIER if self.outlier is None else self.outlier)
        if state.errors.fitted is not None:
            return state.errors.fitted
        return ErrorModel.plain(_ROUGHLY * float(facts.public.area.side_m.max()), _OUTLIER)

    def _places(self, view: View, facts: Facts, name: IntArray, rng: Rng) -> FloatArray:
        """What the round alone says of where the senders (k,) are: (k, R, 2)."""
        if "place" not in self.use:
            return np.full((len(name), 1, 2), np.nan)
        said, _ = self.places_by.run(view, facts, self.places_by.start(), _own(rng))
        known, z_m = named_places(said, facts.public.area)
        places_m = np.full((len(name), *z_m.shape[1:]), np.nan)
        places_m[np.searchsorted(name, known)] = z_m
        return places_m


def _own(rng: Rng) -> Rng:
    """Draws of the attack on single rounds."""
    return replace(rng, purpose=f"{rng.purpose}.by")


def _by_names(belief: Belief, book: Book) -> Belief:
    """A belief about tracks as one about names, ascending."""
    track, name = book.names_at(belief.round)
    there = np.isin(belief.ue, track)
    some = belief.only(there)
    names = name[np.searchsorted(track, some.ue)]
    order = np.argsort(names)
    return replace(some.only(order), ue=names[order])
