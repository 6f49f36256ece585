r"""Linking of names: updates under new names are given to the senders of earlier ones."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.attacks import ATTACKS
from fl.attacks.base import Attack, Attacked, View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.dlg import Dlg
from fl.attacks.dwell import HourRange
from fl.attacks.known_homes import (
    KNOWN,
    HomeLinker,
    Residents,
    check_directory,
    load_directory,
    note_homes_outside,
    read_directory,
)
from fl.attacks.learnt_errors import LearntErrors, rank_places
from fl.attacks.shadow_ues import Population
from fl.attacks.surfaces import DensityPeak
from fl.attacks.threat import KNOWN_HOMES, SENDERS
from fl.notice import Prepared, notice
from fl.tracking.belief import Belief
from fl.tracking.error_model import ErrorModel
from fl.tracking.fingerprint import DIRECTION, Clues, project_directions
from fl.tracking.linking import Book, Identities, Linker, NameLinks
from fl.tracking.place_grid import PlaceGrid
from fl.types import Directory, Metrics, Public, RoundContext, State
from netsim.columns import look_up_or_nan
from netsim.geometry import Area
from netsim.notice import Notices
from netsim.part import FILE_NAME, Needs
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray, Texts

NUMBERS = 2
"""numbers of a fingerprint: amount of data, time per bit"""
Clue = Literal["place", "fingerprint"]
_LEAST_S = 1e-9
_OUTSIDE = 0.1  # share of senders of whom a file of homes says nothing
_HOME_HOURS = (0.0, 6.0)
_CELLS = 50  # of the grid that made-up UEs are spread over, a side
_OUTLIER = 0.05
_SIMULATED_UES = 32
_ROUGHLY = 0.1  # of the longer side of the area: error of an attack that could not be tried out
RE_IDENTIFIED = ATTACKS.restrict(
    "closed-form",
    "dlg",
    "neuron-votes",
    "span",
    "weighted-centroid",
    "link-filter",
    "density-peak",
    "arrival-times",
    "tracker",
    "dwell",
)
"""Attacks whose senders can be tracks."""
PLACES = ATTACKS.restrict("closed-form", "dlg", "density-peak", "span", "neuron-votes")
"""Attacks that name places of a UE from one round."""


@dataclass(frozen=True)
class ReIdentifyState:
    """of : state of the attack on tracks; errors : of the one that names places; links : of the
    last round; residents : what is known of homes.
    """

    of: State
    book: Book
    errors: LearntErrors = field(default_factory=LearntErrors)
    links: NameLinks = field(default_factory=NameLinks.empty)
    residents: Residents = field(default_factory=Residents)


class ReIdentify(Attack, kind="re-identify"):
    r"""Follows UEs through changes of their names, and attacks the tracks with another attack.

    In each round the names that it has not seen before are assigned to tracks, at least cost (see
    `fl.tracking.linking`): near where the track was (place, by an attack on that round alone,
    `by`), and like it (fingerprint: amount of data, time per bit, serving cell, direction of the
    update). A name that it has seen stays with its track, which is certain. The attack `of` then
    sees tracks instead of names, so what it adds up over rounds goes on; its estimates have the
    names of the round. A wrong link mixes two UEs.

    The error of `by` is learnt on UEs that the attacker makes up, if it knows the training and
    sigma_m is not given; how UEs move, how often they send, and how alike updates of one UE are, is
    learnt from what was linked, weighted by how probable each link was. A track that nothing
    belonged to for an hour, and for six rounds, is given up.

    With `homes` it also links names to people of whom it knows where they live: what the places of
    a track's nights say of its home is the posterior of `dwell`, and each person of the directory
    is given to one sender of a round at most (see `fl.tracking.linking`). Rounds of more than 6 h
    count as a whole, with 0.45 of them at home.
    """

    of: Annotated[Attack, RE_IDENTIFIED] = ClosedForm(cloud=False)
    """the attack on tracks"""
    by: Annotated[Attack, PLACES] | None = None
    """the attack that names places from one round; none: `of`, if that is one, else closed-form"""
    use: tuple[Clue, ...] = Field(("place", "fingerprint"), min_length=1)
    """what names are linked by; by the maps of updates `link-maps` links more of them"""
    sigma_m: float | None = Field(None, ge=0.1, le=1e6)
    """standard deviation of the error of a place, a axis, m; none: learnt on UEs that it makes up,
    or a tenth of the longer side of the area where it cannot"""
    outlier: float | None = Field(None, ge=1e-6, lt=1)
    """share of places that say nothing; none: learnt likewise, or 0.05"""
    max_speed_mps: float = Field(30.0, gt=0, le=1000)
    """largest speed of UEs, m/s: in one round they move by less than twice the widest Gaussian"""
    shadow_ues: int | None = Field(None, ge=1, le=10_000)
    """number of UEs that the attacker makes up, if the error is learnt; none: 32"""

    homes: Literal["known"] | Annotated[str, FILE_NAME] | None = None
    """whose homes it knows, to link names to people: known (those of all UEs, which
    threat.knowledge must grant), or the path of a CSV file with columns user and x_m, y_m or lat,
    lon; none: no homes"""
    home_hours: HourRange | None = None
    """with homes: hours between which a round tells of home, from and to; 20 to 8 goes over
    midnight. none: 0 to 6"""
    outside: float | None = Field(None, ge=0, lt=1)
    """with homes: share of senders who are not in the directory; none: 0.1 of a file, 0 of those
    known"""

    reference = (
        "Hoh and Gruteser, Protecting Location Privacy Through Path Confusion, 2005: tracking of "
        "anonymous samples; Reid 1979: costs of births and misses; fingerprints: netsim"
    )

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """Needs of the attacks in it, and of known homes."""
        own_needs = {
            SENDERS: (
                "links the names under which updates are sent; set threat.observes: updates "
                "or aggregate"
            )
        }
        if self.homes == KNOWN:
            own_needs[KNOWN_HOMES] = (
                "homes: known are those of the threat; add homes to threat.knowledge, "
                "or give a file"
            )
        if self.reads_places:
            own_needs |= self.places_by.needs
        return own_needs | self.of.needs

    @model_validator(mode="after")
    def _check_clues(self) -> Self:
        if len(set(self.use)) < len(self.use):
            raise ValueError(f"use: {self.use[0]!r} stands twice; name it once")
        if self.home_hours is not None and self.home_hours[0] == self.home_hours[1]:
            raise ValueError(
                f"home_hours: from and to {self.home_hours[0]:g} is no time at all; take "
                f"different hours"
            )
        return self

    @property
    def places_by(self) -> Attack:
        """The attack that names places."""
        if self.by is not None:
            return self.by
        if isinstance(self.of, ClosedForm | Dlg | DensityPeak):
            return self.of
        return ClosedForm(cloud=False)

    @property
    def reads_places(self) -> bool:
        """Whether it uses the places of senders in a round."""
        return "place" in self.use or self.homes is not None

    @property
    def reads_the_city(self) -> bool:  # type: ignore[override]
        return self.of.reads_the_city

    @property
    def files(self) -> Texts:
        if self.homes in (None, KNOWN):
            return ()
        return (self.homes,)

    def check(self, public: Public, n_ue: int) -> None:
        self.of.check(public, n_ue)
        self.places_by.check(public, n_ue)
        if self.files:
            read_directory.cache_clear()  # a run keeps what the file holds as it begins
        directory = self.directory(public)
        if directory is not None:
            check_directory(directory, public.area, n_ue, self.label)

    def notices(self, prepared: Prepared) -> Notices:
        if (directory := self.directory(prepared.public)) is not None:
            knowledge = "where every UE's owner lives"
            if self.homes != KNOWN:
                knowledge = f"the homes of the people in {self.homes}"
            yield notice("attack-granted", self.label, knowledge=knowledge)
            yield from note_homes_outside(directory, prepared.public.area, self.label)
        yield from self.of.notices(prepared)

    def directory(self, public: Public) -> Directory | None:
        if self.homes is None:
            return None
        return load_directory(self.homes, public, self.label)

    def start(self) -> ReIdentifyState:
        return ReIdentifyState(self.of.start(), Book.empty(NUMBERS))

    def run(self, view: View, facts: RoundContext, state: ReIdentifyState, rng: Rng) -> Attacked:
        name, row = np.unique(view.ue, return_inverse=True)
        own_rng = replace(rng, purpose=f"{rng.purpose}.by")
        learnt, places_m = self._locate_names(name, view, facts, state.errors, own_rng)
        errors = self._choose_errors(learnt, facts.public.area)
        clues = collect_clues(view, row, places_m, self.use, rng)
        book, links = Linker(errors, facts, self.max_speed_mps, view.renames).link_names(
            name, clues, state.book
        )
        track = book.find_tracks(name)
        estimates, inner = self.of.run(view.rename(track[row]), facts, state.of, rng)
        order = np.argsort(track)
        names = name[order][np.searchsorted(track[order], estimates.ue)]
        residents = state.residents
        directory = self.directory(facts.public)
        if directory is not None:
            outside = self.outside
            if outside is None:
                outside = 0.0 if self.homes == KNOWN else _OUTSIDE
            homes = HomeLinker(directory, self.home_hours or _HOME_HOURS, outside, errors)
            residents = homes.link_tracks(
                residents, links, places_m, book.tracks.number if view.renames else None, facts, rng
            )
        links = state.links.add_part(links)
        state = replace(state, of=inner, book=book, errors=learnt, links=links, residents=residents)
        return replace(estimates, ue=names), state

    def figures(self, state: ReIdentifyState) -> Metrics:
        return self.of.figures(state.of)

    def links(self, state: ReIdentifyState) -> NameLinks:
        return state.links

    def identities(self, state: ReIdentifyState) -> Identities | None:
        if self.homes is None:
            return None
        return state.residents.identities

    def belief(self, state: ReIdentifyState, facts: RoundContext) -> Belief | None:
        """Belief of the attack on tracks, each by its last name."""
        believed = self.of.belief(state.of, facts)
        if believed is None:
            return None
        return _to_names(state.book, believed)

    def smooth_beliefs(self, state: ReIdentifyState, facts: RoundContext) -> Iterator[Belief]:
        """Beliefs of the attack on tracks, each by the name that it had last in the round."""
        for believed in self.of.smooth_beliefs(state.of, facts):
            yield _to_names(state.book, believed)

    def _locate_names(
        self, name: IntArray, view: View, facts: RoundContext, errors: LearntErrors, rng: Rng
    ) -> tuple[LearntErrors, FloatArray]:
        """What is learnt of errors, and places of senders (k,) ascending: (k, R, 2), NaN where none
        is named; the attack that names them forgets all at the end of a round.
        """
        if not self.reads_places:
            return errors, np.full((len(name), 1, 2), np.nan)
        by = self.places_by
        area = facts.public.area
        if self.sigma_m is None:
            everywhere = Population.uniform(PlaceGrid(area, _CELLS, _CELLS))
            errors = errors.plus(
                view, facts, by, everywhere, self.shadow_ues or _SIMULATED_UES, rng, fresh=True
            )
        estimates, _ = by.run(view, facts, by.start(), rng)
        return errors, look_up_or_nan(*rank_places(estimates, area), name)

    def _choose_errors(self, learnt: LearntErrors, area: Area) -> ErrorModel:
        if self.sigma_m is not None:
            return ErrorModel.from_sigma(self.sigma_m, self.outlier or _OUTLIER)
        return learnt.fitted or ErrorModel.from_sigma(_ROUGHLY * float(area.side_m.max()), _OUTLIER)


def _to_names(book: Book, belief: Belief) -> Belief:
    """A belief about tracks as one about names, ascending: each track by the name that it had last
    by then.
    """
    track, name = book.list_names(belief.round)
    named_belief = belief.select_ues(np.isin(belief.ue, track))
    names = name[np.searchsorted(track, named_belief.ue)]
    order = np.argsort(names)
    return replace(named_belief.select_ues(order), ue=names[order])


def collect_clues(
    view: View, sender_of_target: IntArray, places_m: FloatArray, use: tuple[Clue, ...], rng: Rng
) -> Clues:
    """Clues `use` of senders (k,) from places (k, R, 2) and fingerprints; sender_of_target
    (n_target,): the sender of each target.

    Numbers are the logarithms of the amount of data and of the time per bit. In a sum of updates,
    amounts and directions of single ones are not seen.
    """
    n = len(places_m)
    x = np.full((n, NUMBERS), np.nan)
    cell = np.full(n, -1)
    unit = np.full((n, DIRECTION), np.nan)
    if "place" not in use:
        places_m = np.full_like(places_m, np.nan)
    clues = Clues(places_m, x, cell, unit)
    if not n or "fingerprint" not in use:
        return clues
    if view.vantage == "updates":
        sender = np.zeros(len(view.update), dtype=int)
        sender[view.source] = sender_of_target
        if view.count is not None:
            amount = np.bincount(sender, weights=view.count, minlength=n)
            x[:, 0] = np.log(np.maximum(amount, 1.0))
        unit = project_directions(view.update, view.source_model, sender, n, replace(rng, round=0))
    if view.timing is not None:
        # all models of a UE come together
        _, first = np.unique(sender_of_target, return_index=True)
        timing = view.timing.select(first)
        took_s = np.maximum(timing.arrived_s - timing.requested_s, _LEAST_S)
        with np.errstate(divide="ignore", invalid="ignore"):
            x[:, 1] = np.where(np.isfinite(took_s), np.log(took_s / timing.n_bits), np.nan)
        cell = timing.base_station
    return replace(clues, x=x, cell=cell, unit=unit)
