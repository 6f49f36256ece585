"""Traces with and without each of their users: what noise at the server covers, and what the run
says that it does not.

Nothing here knows which values follow from the rows: the same study is played on the whole trace,
and again without the rows of one user, and the sums before noise are compared with the sensitivity
that was booked. Either no user moves them further, in the same rounds, or the run names what
follows from the data of all.
"""

import numpy as np
import pytest
from noticed import by_key, of_run
from pytest import mark

from fl.defenses.gaussian import CentralGaussian
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table

C = 2e-3
DAYS = range(19, 26)  # of April 2021, all of the stated extent
STATED = {
    "extent": "stated",
    "area_deg": [52.0, 4.0, 52.02, 4.03],
    "since": "2021-04-19",
    "until": "2021-04-26",
    "absent_after_s": 600,
    "users": "id",
    "cell": "x",
    "timezone": "Europe/Amsterdam",
}
USERS = ["once", "many", "late", "far", "ill"]
HEADER = "time_s,user,lat,lon,rsrp_dbm,cell,accuracy_m"


def make_rows(user, cells="xyz"):
    """Rows of one user: few on a day of its own, many and mostly of cell y, late in the week, far
    away, or in error."""
    x, y, z = cells
    draw = np.random.default_rng(USERS.index(user))
    days = {"once": [20], "many": [20, 21, 22], "late": [24], "far": [20, 21], "ill": [21]}[user]
    for day in days:
        for hour in range(6, 20, 1 if user == "many" else 2):
            lat, lon = np.array([52.01, 4.015]) + 2e-3 * draw.normal(size=2)
            lat, lon = (52.4, 4.8) if user == "far" and hour == 12 else (lat, lon)
            if user == "late" or (user == "many" and hour % 3):
                cell = y
            else:
                cell = x
            cell = z if user == "ill" and hour == 8 else cell
            error_m = "" if user == "ill" else f"{draw.uniform(5, 60):.0f}"
            level = draw.normal(-80 + 3 * USERS.index(user), 5)
            yield f"2021-04-{day}T{hour:02d}:00:00Z,{user},{lat:.6f},{lon:.6f},{level:.1f},{cell},{error_m}"


@pytest.fixture
def played(tiny, tmp_path_factory, monkeypatch):
    """Play changes of the study on the rows of some users, in this order: sums of rounds,
    sensitivity, what was said.

    Models stay at their first values, as composition takes it.
    """

    def play(changes, users, cells="xyz", columns=None):
        sums = {}

        def record_sum(part, total, n, facts, state, rng):
            same, after, spends = finish(part, total, n, facts, state, rng)
            sums[facts.round] = total / facts.weight
            return np.zeros_like(same), after, spends

        out = tmp_path_factory.mktemp("run")
        lines = [HEADER, *(row for user in users for row in make_rows(user, cells))]
        (out / "t.csv").write_text(
            "".join(",".join(line.split(",")[:columns]) + "\n" for line in lines)
        )
        answers = {"kind": "replay", "trace": str(out / "t.csv"), **STATED}
        study = tiny(
            {
                "world.duration_s": None,
                "world.tick_s": 3600,
                "world.city": {"kind": "open-field"},
                "world.base_stations": [],
                "world.radio.shadowing": {"kind": "none"},
                "world.ues": {
                    "mobility": {
                        k: v for k, v in answers.items() if f"world.ues.mobility.{k}" not in changes
                    }
                },
                "learning.round_s": 86400,
                "learning.attacks": [],
                "learning.references": {"central": False},
                "learning.aggregation": {"kind": "uniform", "clients": 5},
                "learning.data": {"kind": "measured"},
                "learning.learner.labels": "standardised",
                "learning.defenses": [
                    {"kind": "clip", "norm": C, "relation": "add-remove"},
                    {"kind": "central-gaussian", "noise_multiplier": 1.0},
                ],
            }
            | changes
        )
        finish = CentralGaussian.finish
        with monkeypatch.context() as patch:
            patch.setattr(CentralGaussian, "finish", record_sum)
            run(study, out / "run")
        estimates = by_key(of_run(out / "run"))
        booked = read_record_table(out / "run", "spends")["sensitivity"].max()
        return (
            sums,
            booked,
            " ".join(
                estimates[key]
                for key in ("values-of-all-users", "data-published")
                if key in estimates
            ),
        )

    return play


def measure_move(first, second):
    """Largest distance of two runs' sums, of a round and a model; infinite where rounds or models
    are others."""
    if first.keys() != second.keys() or any(first[r].shape != second[r].shape for r in first):
        return np.inf
    return max(np.linalg.norm(first[r] - second[r], axis=1).max() for r in first)


def mobility(**keys):
    return {f"world.ues.mobility.{key}": value for key, value in keys.items()}


def data(**keys):
    return {"learning.data": {"kind": "measured", **keys}}


WITHIN = {
    "days, stated": {},
    "a day": data(hold_out_by="day"),
    "a day and a block": data(hold_out_by=["day", "block"], hold_out=0.4),
    "a session": data(hold_out_by="session", memory="all", participants="holding"),
    "a block": data(hold_out_by="block"),
    "the strongest of all cells": mobility(cell="all") | data(cell="strongest"),
    "farthest": {"learning.curation": [{"kind": "farthest-batch", "eps_m": 50, "num": 3}]},
    "random": {"learning.curation": [{"kind": "random", "num": 3}]},
    "cooldown": {"learning.withholding": [{"kind": "cooldown", "time_s": 100_000}]},
    "silence": {"learning.withholding": [{"kind": "random-silence", "probability": 0.5}]},
    "coins": {
        "learning.participation": 0.5,
        "learning.sampling": "poisson",
        "learning.aggregation": {"kind": "uniform", "clients": 5, "participation": 0.5},
    },
    "rarely": mobility(sample_s=10_000),
    "segments": {"learning.data": {"kind": "segments", "campaign_rounds": 3}},
    "errors": {"world.ues.position_error_m": 20},
    "places": mobility(cell=None) | {"world.radio.shadowing": {"kind": "correlated", "std_db": 6}},
    "places at regular times": mobility(cell=None, resample_s=900, gap_s=8000),
    "positions": {
        "learning.data": {"kind": "positions"},
        "learning.learner": {"kind": "density", "bandwidth_m": [300]},
    },
    "late deadlines": {"learning.server": {"kind": "synchronous", "deadline_s": 172_800}},
}
NAMED = {
    "users": (
        mobility(users="auto"),
        ["once", "late", "ill", "many"],
        "what a user is (world.ues.mobility.users: id)",
    ),
    "extent": (
        mobility(extent="rows"),
        USERS,
        "the area, the middle of the plane, the first day, the number of rounds",
    ),
    "a day of the rows": (
        mobility(extent="rows") | data(hold_out_by="day"),
        USERS,
        "which days are held out (world.ues.mobility.extent: stated)",
    ),
    "busiest": (mobility(cell=None), USERS, "the busiest cell (world.ues.mobility.cell)"),
    "busiest learnt": (
        mobility(cell="all") | data(cell="busiest"),
        USERS,
        "the cell with most measurements (learning.data.cell)",
    ),
    "cells": (mobility(cell="all"), USERS, "which cells there are (world.ues.mobility.cell)"),
    "outliers": (
        mobility(outlier_sigmas=1.0, area_deg=[51.0, 3.0, 53.0, 6.0]),
        USERS,
        "which rows are outliers (world.ues.mobility.outlier_sigmas: none)",
    ),
    "accuracy": (
        {"world.ues.position_error_m": "recorded"},
        USERS,
        "the error of rows that state none (world.ues.position_error_m)",
    ),
    "statistics": (
        {"learning.learner.standardise_by": "dataset"},
        USERS,
        "every UE receives the mean and deviation of all true",
    ),
    "bandwidths": (
        {
            "learning.data": {"kind": "positions"},
            "learning.learner": {"kind": "density", "neighbours": 1},
        },
        USERS,
        "every UE receives how near the true positions are to each other",
    ),
}


@mark.parametrize("case", WITHIN)
def test_no_user_of_a_trace_moves_a_sum_by_more_than_is_booked(played, case):
    worst = 0.0
    columns = 4 if case.startswith("places") else None  # without signals
    for user in USERS if case in ("days, stated", "a day") else ("many", "late"):
        rest = [first for first in USERS if first != user]
        whole, booked, estimates = played(WITHIN[case], [*rest, user], columns=columns)
        fewer, _, _ = played(WITHIN[case], rest, columns=columns)
        assert estimates == ""
        assert booked == C
        assert measure_move(whole, fewer) <= booked * (1 + 1e-9), user
        worst = max(worst, measure_move(whole, fewer) / booked)
    assert worst > 0.5


@mark.parametrize("case", NAMED)
def test_what_follows_from_all_rows_is_named(played, case):
    changes, users, named = NAMED[case]
    worst = 0.0
    for user in users:
        rest = [first for first in users if first != user]
        whole, booked, estimates = played(changes, [*rest, user])
        assert named in estimates, estimates
        worst = max(worst, measure_move(whole, played(changes, rest)[0]) / booked)
        if worst > 1 + 1e-9:
            return
    raise AssertionError(f"nothing moves further than is booked: {worst:g}")


def test_held_out_days_of_a_stated_extent_are_drawn_whoever_has_rows(played):
    """One in seven days, among them such as nobody has rows on: by the rows, a user's own day would
    move others'."""
    worst = 0.0
    for seed in range(4, 8):
        few = data(hold_out_by="day", hold_out=0.15) | {"seed": seed}
        whole, booked, estimates = played(few, ["once", "far", "many"])
        fewer, _, _ = played(few, ["once", "far"])
        assert estimates == ""
        assert measure_move(whole, fewer) <= booked * (1 + 1e-9)
        worst = max(worst, measure_move(whole, fewer) / booked)
    assert worst > 0.9


def test_one_user_decides_whether_0_is_a_cell_of_all_and_the_run_says_so(played):
    """A name above 255 makes the others numbers of a network, of which 0 is unknown."""
    changes = mobility(cell="all") | data(cell="strongest")
    whole, booked, estimates = played(changes, USERS, ["0", "7", "300"])
    fewer, _, also = played(changes, USERS[:-1], ["0", "7", "300"])
    assert measure_move(whole, fewer) > 1.5 * booked
    assert "whether 0 is a cell (world.ues.mobility.cell)" in estimates
    assert estimates == also
