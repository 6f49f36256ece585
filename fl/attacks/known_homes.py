"""People whose homes an attacker knows, from an address book or places shared before, and who of
them sends.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from fl.notice import notice
from fl.tracking.dwelling import Hours, Period, Residences, Shares, compute_log_evidence, split_rows
from fl.tracking.error_model import ErrorModel
from fl.tracking.linking import Identities, NameLinks, compute_log_odds, identify_senders
from fl.tracking.place_grid import PlaceGrid
from fl.types import Directory, Public, RoundContext
from netsim.columns import look_up_or_nan, no_ints
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.maps import project_lon_lat
from netsim.notice import Notices
from netsim.rng import Rng
from netsim.safe import open_regular
from netsim.traces.source import Sheet, read_sheets
from netsim.traces.values import quote_text
from netsim.units import Float32Array, FloatArray, FloatPair, IntArray, TextPair

_CELL_M = 50.0
_MOST_CELLS = 200  # of the grid of homes, a side
_MOST_UES = 1_000  # three maps each
_NIGHTS = 0.93
_WHOLE_DAYS = 0.45  # shares of nights, and of rounds as long as a day, that are at home
_NO_HOURS = (0.0, 0.0)
_MOST_PEOPLE = 20_000
_MOST_BYTES = 16 * 2**20
_MOST_NAME = 200  # characters
_METRES = ("x_m", "y_m")
_DEGREES = ("lat", "lon")
_BOUNDS = {"x_m": 1e8, "y_m": 1e8, "lat": 90.0, "lon": 180.0}


KNOWN = "known"
"""in place of a file: the homes of all UEs"""


def load_directory(homes: str, public: Public, label: str) -> Directory:
    """Directory of a file, or of the UEs of the world where these are known. Raises BadInput with
    one line.
    """
    if homes != KNOWN:
        try:
            return read_directory(homes, public.origin_deg)
        except BadInput as error:
            raise BadInput(f"learning.attacks: {label}: homes: {error}") from None
    if public.residents is None:
        raise BadInput(
            f"learning.attacks: {label}: homes: known needs homes in threat.knowledge; "
            f"add it, or give a file"
        )
    return public.residents


@lru_cache(maxsize=4)
def read_directory(file: str, origin_deg: FloatPair | None) -> Directory:
    """A CSV file with a column user, and x_m and y_m (metres of the world) or lat and lon (WGS84).

    Raises BadInput with one line.
    """
    users = []
    places = []
    columns = _METRES
    try:
        open_regular(file, _MOST_BYTES).close()
        for sheet in read_sheets(file):
            columns = _pick_columns(sheet, origin_deg)
            names = [user.strip() for user in sheet.get_texts("user")]
            for row, user in enumerate(names):
                if not 0 < len(user) <= _MOST_NAME:
                    reason = f"{len(user)} characters; give a name of 1 to {_MOST_NAME}"
                    sheet.refuse(row, "user", reason)
            users += names
            place = [
                sheet.parse_numbers(column, -_BOUNDS[column], _BOUNDS[column]) for column in columns
            ]
            places.append(np.stack(place, axis=1))
            if len(users) > _MOST_PEOPLE:
                raise BadInput(f"{file}: more than {_MOST_PEOPLE:,} people; take at most that many")
    except OSError as error:
        raise BadInput(
            f"{file}: cannot be read ({error.strerror}); give a CSV file of homes"
        ) from None
    if len(set(users)) < len(users):
        twice = next(user for user, n in Counter(users).items() if n > 1)
        raise BadInput(f"{file}: user {quote_text(twice)} stands twice; give each user one home")
    home = np.concatenate(places)
    if columns == _DEGREES and origin_deg is not None:
        home = project_lon_lat(home[:, ::-1], origin_deg)
    return Directory(tuple(users), home)


def _pick_columns(sheet: Sheet, origin_deg: FloatPair | None) -> TextPair:
    """The two that tell where homes are."""
    if "user" not in sheet.header:
        raise BadInput(
            f"{sheet.path}: no column user; a file of homes has user, and x_m and y_m, "
            f"or lat and lon"
        )
    pairs = [pair for pair in (_METRES, _DEGREES) if set(pair) <= set(sheet.header)]
    if len(pairs) != 1:
        raise BadInput(
            f"{sheet.path}: give either columns x_m and y_m, or lat and lon, beside user"
        )
    if pairs[0] == _DEGREES and origin_deg is None:
        raise BadInput(
            f"{sheet.path}: lat and lon mean nothing in a world of local metres; give x_m and y_m"
        )
    return pairs[0]


@dataclass(frozen=True)
class Residents:
    """past : what nights said of tracks; identities : of the last round."""

    past: Residences = field(default_factory=lambda: Residences.from_senders(no_ints(), 0))
    identities: Identities = field(default_factory=lambda: Identities.unknown(0, no_ints()))


@dataclass(frozen=True)
class HomeLinker:
    """Links tracks to the people of a directory, of whom a share `outside` of senders is not, by
    the nights that `home_hours` tell of, and estimates with these errors.
    """

    directory: Directory
    home_hours: FloatPair
    outside: float
    errors: ErrorModel

    def link_tracks(
        self,
        before: Residents,
        links: NameLinks,
        z_m: FloatArray,
        alive: IntArray | None,
        facts: RoundContext,
        rng: Rng,
    ) -> Residents:
        """After a part of a round, with what was estimated of each name: z_m (k, R, 2). alive :
        tracks that are followed, where names change; None: all, and each is one UE.

        Senders of one round are different people, and tracks of different rounds may be pieces of
        one; so tracks of this part are given to different people or, where names do not change, all
        tracks.
        """
        grid = build_homes_grid(facts.public.area)
        hours = Hours.from_round(facts)
        past = before.past
        if alive is not None:
            past = past.select(np.isin(past.sender, alive))
        at_home = _NIGHTS
        period = None
        if hours is not None and hours.whole_day:  # no time of day: it is a night as a whole
            at_home = _WHOLE_DAYS
            period = Period(hours.day[0], True)
        elif hours is not None:
            period = hours.find_period(self.home_hours, _NO_HOURS)
        shares = Shares(at_home, 0.5, 0.5, 0.5)  # nothing is asked of work
        row = np.flatnonzero(np.isfinite(z_m[..., 0]).any(axis=1))
        row = row[np.argsort(links.track[row])]
        if period is not None and len(row):
            evidence = compute_log_evidence(z_m[row], self.errors, grid)
            past = past.add_round(links.track[row], evidence, period, shares)
        rivals = past.sender
        if alive is not None:
            rivals = np.intersect1d(rivals, links.track)
        homes = [np.zeros((0, len(grid)), dtype=np.float32)]
        for rows in split_rows(np.searchsorted(past.sender, rivals)):
            _, home = past.select(rows).estimate_homes(shares, grid, self.errors.bias_m)
            homes.append(home)
        home = np.concatenate(homes)
        is_seen = home.any(axis=1)
        identities = Identities.unknown(facts.round, links.name)
        if is_seen.any():
            identities = self._identify_names(
                identities, links.track, rivals[is_seen], home[is_seen], grid, rng
            )
        return Residents(past, identities.join_part(before.identities))

    def _identify_names(
        self,
        identities: Identities,
        track: IntArray,
        rivals: IntArray,
        home: Float32Array,
        grid: PlaceGrid,
        rng: Rng,
    ) -> Identities:
        """Persons of names with tracks (k,), when rivals (m,) with homes (m, G) are given to
        different people.
        """
        order = np.argsort(
            rng.uniform("directory", np.arange(len(self.directory.user))), kind="stable"
        )
        person, probability, bits = identify_senders(
            compute_log_odds(home, self.directory.home_m, grid, self.outside), order
        )
        recalled = look_up_or_nan(rivals, person, track)
        person = np.where(np.isnan(recalled), identities.person, recalled).astype(int)
        return replace(
            identities,
            person=person,
            probability=look_up_or_nan(rivals, probability, track),
            entropy_bits=look_up_or_nan(rivals, bits, track),
        )


def build_homes_grid(area: Area) -> PlaceGrid:
    """Cells of 50 m, or larger ones where these would be more than 200 a side."""
    shape = np.clip(np.ceil(area.side_m / _CELL_M), 1, _MOST_CELLS)
    nx, ny = shape.astype(int).tolist()
    return PlaceGrid(area, nx, ny)


def note_homes_outside(directory: Directory, area: Area, label: str) -> Notices:
    """People who live outside of the area, whom no sender is ever given to."""
    if outside := (~area.contains(directory.home_m)).sum():
        yield notice("attack-homes-outside", label, number=outside, total=len(directory.user))


def check_directory(directory: Directory, area: Area, n_ue: int, label: str) -> None:
    """BadInput where no person lives in the area, or n_ue UEs are too many."""
    if not area.contains(directory.home_m).any():
        raise BadInput(
            f"learning.attacks: {label}: homes: none of {len(directory.user):,} homes lies in the "
            "area of the world; give homes within it"
        )
    if n_ue > _MOST_UES:
        raise BadInput(
            f"learning.attacks: {label}: homes: at most {_MOST_UES:,} UEs can be linked to homes, "
            f"got {n_ue:,}; attack fewer with threat.n_targets"
        )
