"""UEs under new names in each round, and the linker on places of known error: who is linked right,
and for how long."""

from dataclasses import dataclass

import numpy as np
from tracked import Source

from fl.leakage.linking import Linking, observe
from fl.tracking.error_model import ErrorModel
from fl.tracking.fingerprint import DIRECTION, Clues
from fl.tracking.linking import Book, Linker
from fl.tracking.pseudonyms import Names, PerRound, asked
from fl.types import Public, RoundContext
from netsim.clock import DAY_S
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0, 0, 10_000, 10_000)
RNG = Streams(3).at("names")


@dataclass(frozen=True)
class Linked:
    """Share of the updates linked right that could be, and the last row of the table `linking`."""

    right: float
    row: dict[str, float]

    @property
    def minutes(self) -> float:
        """Time to confusion."""
        return self.row["time_to_confusion_s"] / 60

    @property
    def chance_minutes(self) -> float:
        """That of random links."""
        return self.row["chance_time_to_confusion_s"] / 60


def play(x, sigma_m, seen=1.0, seed=0, fingerprint=None, round_s=300.0, area=AREA) -> Linked:
    """UEs at x (T, n, 2), NaN where there is none, each heard with probability `seen`.

    Places err by sigma_m an axis; none is known where numbers vary as `fingerprint` says: means (n,
    2), deviation.
    """
    rng = np.random.default_rng(seed)
    n = x.shape[1]
    book = Book.empty(2)
    state = Linking()
    names = Names.start(PerRound(), n)
    right = count = 0.0
    for t, here in enumerate(x, start=1):
        ue = np.flatnonzero((rng.random(n) < seen) & np.isfinite(here[:, 0]))
        if not len(ue):
            continue
        names = asked(names, PerRound(), ue, np.full(len(ue), t * round_s), t, RNG)
        name = names.now[ue]
        order = np.argsort(name)
        name = name[order]
        ue = ue[order]
        z = (here[ue] + sigma_m * rng.standard_normal((len(ue), 2)))[:, None]
        numbers = np.full((len(ue), 2), np.nan)
        if fingerprint is not None:
            z[:] = np.nan
            numbers = fingerprint[0][ue] + fingerprint[1] * rng.standard_normal((len(ue), 2))
        clues = Clues(z, numbers, np.full(len(ue), -1), np.full((len(ue), DIRECTION), np.nan))
        facts = RoundContext(t, t * round_s, Public(area, 1), round_s=round_s)
        book, links = Linker(ErrorModel.plain(sigma_m, 1e-3), facts, 40.0).linked(name, clues, book)
        state, row = observe(state, "a", links, names, facts.time_s)
        if row["seen"]:
            right = right + row["right_share"] * row["seen"]
            count = count + row["seen"]
    return Linked(right / count, row)


def days_as_ues(source: Source, hours: tuple[float, float], min_charge_share: float) -> np.ndarray:
    """Each local day of each UE as a UE of its own, all on one clock (T, n, 2): the rounds of these
    hours, and the days that have places in at least this share of them.
    """
    a_day = int(DAY_S / source.round_s)
    days = len(source.truth_m) // a_day
    by_day = source.truth_m[: days * a_day].reshape(
        days, a_day, -1, 2
    )  # (day, round of the day, UE, 2)
    first, last = (int(hour * a_day / 24) for hour in hours)
    x = by_day[:, first:last].transpose(1, 0, 2, 3).reshape(last - first, -1, 2)
    return np.asarray(x[:, np.isfinite(x[:, :, 0]).mean(axis=0) >= min_charge_share])
