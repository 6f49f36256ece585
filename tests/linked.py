"""UEs under new names in each round, and the linker on places of known error: who is linked right,
and for how long."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from interrupted import run_in_two

from fl.leakage.linking import Linking, record_links
from fl.tracking.error_model import ErrorModel
from fl.tracking.fingerprint import DIRECTION, Clues
from fl.tracking.linking import Book, Linker
from fl.tracking.pseudonyms import Names, PerRound, give_names
from fl.types import Public, RoundContext
from netsim.clock import DAY_S
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run

AREA = Area(0, 0, 10_000, 10_000)
RNG = Streams(3).derive_rng("names")


@dataclass(frozen=True)
class Linked:
    """Share of the updates linked right that could be, and the last row of the table `linking`."""

    right: float
    row: dict


def play(x, sigma_m, seen=1.0, seed=0, fingerprint=None, round_s=300.0, area=AREA):
    """UEs at x (T, n, 2), NaN where there is none, each heard with probability `seen`.

    Places err by sigma_m an axis; none is known where numbers vary as `fingerprint` says: means (n,
    2), deviation.
    """
    rng = np.random.default_rng(seed)
    n = x.shape[1]
    book = Book.empty(2)
    state = Linking()
    names = Names.start(PerRound(), n)
    error = ErrorModel.from_sigma(sigma_m, 1e-3)
    right = count = 0.0
    for t, place_m in enumerate(x, start=1):
        ue = np.flatnonzero((rng.random(n) < seen) & np.isfinite(place_m[:, 0]))
        k = len(ue)
        if not k:
            continue
        names = give_names(names, PerRound(), ue, np.full(k, t * round_s), t, RNG)
        ue = ue[np.argsort(names.name_of_ue[ue])]
        z = (place_m[ue] + sigma_m * rng.standard_normal((k, 2)))[:, None]
        numbers = np.full((k, 2), np.nan)
        if fingerprint is not None:
            means, deviation = fingerprint
            z[:] = np.nan
            numbers = means[ue] + deviation * rng.standard_normal((k, 2))
        clues = Clues(z, numbers, np.full(k, -1), np.full((k, DIRECTION), np.nan))
        facts = RoundContext(t, t * round_s, Public(area, 1), round_s=round_s)
        linker = Linker(error, facts, 40.0)
        book, links = linker.link_names(names.name_of_ue[ue], clues, book)
        state, row = record_links(state, "a", links, names, facts.time_s)
        if row["seen"]:
            right += row["right_share"] * row["seen"]
            count += row["seen"]
    return Linked(right / count, row)


def days_as_ues(source, hours, min_charge_share):
    """Each local day of each UE as a UE of its own, all on one clock (T, n, 2): the rounds of these
    hours, and the days that have places in at least this share of them.
    """
    a_day = int(DAY_S / source.round_s)
    days = len(source.truth_m) // a_day
    first, last = (int(hour * a_day / 24) for hour in hours)
    by_day = source.truth_m[: days * a_day].reshape(days, a_day, -1, 2)  # (day, round, UE, 2)
    x = by_day[:, first:last].swapaxes(0, 1).reshape(last - first, -1, 2)
    return x[:, np.isfinite(x[:, :, 0]).mean(axis=0) >= min_charge_share]


SERVERS = {
    "rounds": {},
    "fedbuff": {
        "learning.server": {"kind": "fedbuff", "buffer": 3},
        "world.radio.dynamic_uplink": {},
    },
    "fedasync": {"learning.server": {"kind": "fedasync"}, "world.radio.dynamic_uplink": {}},
}


def table(folder, name):
    return pd.read_csv(folder / f"{name}.csv")


def play_cut(study, folder, table_bytes, cut_s):
    """Folder of a run that is the same to the byte where it was cut."""
    run(study, folder / "whole")
    run_in_two(study, folder / "cut", lambda progress: progress.values["time_s"] >= cut_s)
    assert table_bytes(folder / "cut") == table_bytes(folder / "whole")
    return folder / "whole"
