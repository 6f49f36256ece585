"""Links tracks to people whose homes are known: what nights say of each track, against a directory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fl.tracking.dwelling import Hours, Period, Residences, Shares, blocks, log_evidence
from fl.tracking.error_model import ErrorModel
from fl.tracking.linking import Identities, identified, log_odds
from fl.tracking.place_grid import PlaceGrid
from fl.types import Directory, RoundContext
from netsim.columns import frozen, no_ints
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_CELL_M, _MOST_CELLS = 50.0, 200  # of the grid of homes, a side
_MOST_UES = 1_000  # three maps each
_NIGHTS, _WHOLE_DAYS = 0.93, 0.45  # shares of nights, and of rounds as long as a day, that are at home
_NO_HOURS = (0.0, 0.0)


@dataclass(frozen=True)
class Residents:
    """past : what nights said of tracks; identities : of the last round."""

    past: Residences = field(default_factory=lambda: Residences.nothing(no_ints(), 0))
    identities: Identities = field(default_factory=lambda: Identities.unknown(0, no_ints()))


@frozen
class TracksOfRound:
    """Names (k,) of a part of a round, the track of each, and what was estimated of it: z_m (k, R, 2)."""

    name: IntArray
    track: IntArray
    z_m: FloatArray


@dataclass(frozen=True)
class HomeLinker:
    """Links tracks to the people of a directory, of whom a share `outside` of senders is not."""

    directory: Directory
    home_hours: tuple[float, float]
    outside: float

    def linked(
        self,
        known: Residents,
        heard: TracksOfRound,
        alive: IntArray | None,
        errors: ErrorModel,
        facts: RoundContext,
        rng: Rng,
    ) -> Residents:
        """After a part of a round. alive: tracks that are followed, where names change; None: all, and each is one UE.

        Senders of one round are different people, and tracks of different rounds may be pieces of one; so tracks of
        this part are given to different people or, where names do not change, all tracks.
        """
        area = facts.public.area
        grid, hours, past = grid_of_homes(area), Hours.of_round(facts), known.past
        if alive is not None:
            past = past.select(np.isin(past.sender, alive))
        shares = _shares(hours)
        period = None if hours is None else _night(hours, self.home_hours)
        some = np.flatnonzero(np.isfinite(heard.z_m[..., 0]).any(axis=1))
        if period is not None and len(some):
            some = some[np.argsort(heard.track[some])]
            log_e = log_evidence(heard.z_m[some], errors, grid)
            past = past.plus(heard.track[some], log_e, period, shares)
        mine = past.sender if alive is None else np.intersect1d(past.sender, heard.track)
        return Residents(
            past, known.identities.plus(self._identified(past, mine, heard, errors, shares, grid, facts, rng))
        )

    def _identified(
        self, past: Residences, rivals: IntArray, heard: TracksOfRound, errors: ErrorModel, shares: Shares,
        grid: PlaceGrid, facts: RoundContext, rng: Rng,
    ) -> Identities:  # fmt: skip
        """Persons of the names, when rivals (m,) are given to different people."""
        said, people = Identities.unknown(facts.round, heard.name), len(self.directory.user)
        at = np.searchsorted(past.sender, rivals)
        every = [past.select(some).homes(shares, grid, errors.bias_m)[1] for some in blocks(at)]
        home = np.concatenate([np.zeros((0, len(grid)), dtype=np.float32), *every])
        known = np.asarray(home.any(axis=1))
        rivals, home = rivals[known], home[known]
        if not len(rivals):
            return said
        order = np.argsort(rng.uniform("directory", np.arange(people)), kind="stable")
        odds = log_odds(home, self.directory.home_m, grid, self.outside)
        person, probability, bits = identified(odds, order)
        at = np.minimum(np.searchsorted(rivals, heard.track), len(rivals) - 1)
        spoken = rivals[at] == heard.track
        return replace(
            said, person=np.where(spoken, person[at], said.person),
            probability=np.where(spoken, probability[at], np.nan), entropy_bits=np.where(spoken, bits[at], np.nan),
        )  # fmt: skip


def grid_of_homes(area: Area) -> PlaceGrid:
    """Cells of 50 m, or larger ones where these would be more than 200 a side."""
    nx, ny = (int(np.clip(np.ceil(side / _CELL_M), 1, _MOST_CELLS)) for side in area.side_m.tolist())
    return PlaceGrid(area, nx, ny)


def outside_notes(directory: Directory, area: Area, label: str) -> tuple[str, ...]:
    """A line where people live outside of the area, whom no sender is ever given to."""
    outside, people = int((~area.contains(directory.home_m)).sum()), len(directory.user)
    if not outside:
        return ()
    return (
        f"{label}: homes: {outside:,} of {people:,} lie outside of the area of the world, and nobody is taken for "
        "these people; correct the file, or take a larger area",
    )


def check(directory: Directory, area: Area, n_ue: int, label: str) -> None:
    """BadInput where no person lives in the area, or n_ue UEs are too many."""
    if not area.contains(directory.home_m).any():
        raise BadInput(
            f"learning.attacks: {label}: homes: none of {len(directory.user):,} homes lies in the area of the world; "
            "give homes within it"
        )
    if n_ue > _MOST_UES:
        raise BadInput(
            f"learning.attacks: {label}: homes: at most {_MOST_UES:,} UEs can be linked to homes, got {n_ue:,}; attack "
            "fewer with threat.n_targets"
        )


def _shares(hours: Hours | None) -> Shares:
    """The share of periods at home; nothing is asked of work."""
    return Shares(_WHOLE_DAYS if hours is not None and hours.whole_day else _NIGHTS, 0.5, 0.5, 0.5)


def _night(hours: Hours, home_hours: tuple[float, float]) -> Period | None:
    """The night that a round is in, if it is in any; a round that has no time of day is one as a whole."""
    return Period(int(hours.day[0]), True) if hours.whole_day else hours.period(home_hours, _NO_HOURS)
