"""Lists of places in runs: tables, summary, words, and which runs have them."""

import numpy as np
from pytest import approx, fixture, mark

from scenarios.app.result import run
from scenarios.app.results.folder import read_csv_rows
from scenarios.app.results.table import build_lines
from scenarios.app.study.load import load, parse_value

SPAN = parse_value("{kind: span, layer: 1, rank: 16, add: scores, cell_m: 50}")
BRIEF = {
    "world.duration_s": 2 * 86_400,
    "world.ues.count": 6,
    "learning.data.hold_out": 0,
    "world.tick_s": 3600,
    "learning.data.hold_out_by": "sample",
    "world.ues.measurement_period_s": 3600,
    "learning.leakage.directions": 12,
    "world.radio.uplink": {"kind": "ideal"},
    "learning.attacks": [SPAN, {"kind": "closed-form", "cloud": False}],
    "learning.learner.hidden": [32, 16],
}


SUM = {
    "learning.attacks": [*BRIEF["learning.attacks"], {"kind": "fused", "towns": 0}],
}
"""changes where sums are seen: there this attack is always, and else learns on towns first"""


def play(folder, **threat):
    changes = BRIEF | (SUM if threat.get("observes") == "aggregate" else {})
    return run(load("city", changes | {"learning.threat": threat}), folder)


def rows(folder, table):
    return read_csv_rows(folder / f"{table}.csv")


@fixture(scope="module")
def sum_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sum") / "run"
    return folder, play(folder, observes="aggregate")


def test_the_list_of_a_sum_stands_beside_chance_and_residents_who_do_not_take_part(sum_run):
    folder, summary = sum_run
    assert [row["rank"] for row in rows(folder, "listed") if row["attack"] == "span"] == list(
        "12345678"
    )
    ues = rows(folder, "ues")
    true_m = np.array(
        [
            [row[f"{part}_{k}_m"] or np.nan for k in "xy"]
            for row in ues
            for part in ("home", "work")
        ],
        float,
    )
    listed_m = np.array(
        [[row["x_m"], row["y_m"]] for row in rows(folder, "listed") if row["attack"] == "span"],
        float,
    )
    away_m = np.linalg.norm(listed_m[:, None] - true_m, axis=2)
    near = (away_m <= 50)[:, np.isfinite(true_m).all(axis=1)]
    assert summary["attack.span.listed.precision.percent"] == approx(100 * near.any(axis=1).mean())
    assert summary["attack.span.listed.coverage.percent"] == approx(
        100 * near.any(axis=0).mean(), rel=1e-6
    )
    # at most 12 discs of 0.2 % of the area
    assert 1 < summary["baseline.uniform.listed.precision.percent"] < 3
    assert {
        "attack.span.listed.aside.precision.percent",
        "baseline.buildings.listed.precision.percent",
    } <= set(summary)
    assert {(r["source"], r["attack"], r["residents"]) for r in rows(folder, "list_scores")} == {
        *(
            ("attack", name, user)
            for name in ("span", "closed-form", "fused")
            for user in ("participants", "aside")
        ),
        *(
            (source, "", user)
            for source in ("uniform", "buildings")
            for user in ("participants", "aside")
        ),
    }


@mark.parametrize(
    "threat",
    parse_value(
        "[{observes: model}, {observes: aggregate, secagg_group_size: 3}, "
        "{pseudonyms: {kind: per-round}}]"
    ),
    ids=["model", "sums of 3", "changing names"],
)
def test_whatever_is_not_one_ues_has_lists(threat, out):
    assert "attack.span.listed.precision.percent" in play(out, **threat)


def test_lists_do_not_hang_on_the_rounds_that_leakage_compares(out):
    """In the first and the last round nobody sends, and the sum between them has a list."""
    quiet = {
        "world.duration_s": 3 * 86_400,
        "learning.leakage.every_rounds": 3,
        **SUM,
        "learning.threat": {"observes": "aggregate"},
        "learning.rounds": 3,
        "learning.data.hold_out": 0.5,
        "learning.data.hold_out_by": "day",
    }
    summary = run(load("city", BRIEF | quiet | {"seed": 2}), out)
    assert [row["ues"] for row in rows(out, "rounds")] == ["0", "6", "0"]
    assert "attack.span.listed.precision.percent" in summary


def test_residents_who_do_not_take_part_change_nothing_of_the_training(sum_run, out, monkeypatch):
    """A town that draws others, or none, plays the same rounds to the byte."""
    from netsim.mobility.base import Mobility
    from netsim.mobility.resident import Resident

    monkeypatch.setattr(Resident, "residents", Mobility.residents)
    summary = play(out, observes="aggregate")
    assert not [key for key in summary if "aside" in key]
    for table in ("ues", "rounds", "updates", "links", "estimates", "leakage", "named", "listed"):
        assert (out / f"{table}.csv").read_bytes() == (sum_run[0] / f"{table}.csv").read_bytes()


def build_summaries(expected, aside, uniform=10.0):
    return [
        {
            "attack.a.listed.precision.percent": float(a),
            "attack.a.listed.aside.precision.percent": float(b),
            "baseline.uniform.listed.precision.percent": uniform,
            "attack.a.centroid_error_m.median": 50.0,
            "baseline.area_centre.error_m.median": 40.0,
        }
        for a, b in zip(expected, aside, strict=True)
    ]


@mark.parametrize(
    "expected, aside, uniform, verdict",
    [
        ((100, 90, 95), (20, 30, 25), 10, "found"),
        ((30, 31, 29), (30, 30, 30), 10, "at chance"),
        ((30, 50, 10), (30, 30, 30), 10, "inconclusive"),
        ((100, 90, 95), (20, 30, 25), 60, "inconclusive"),
    ],
)
def test_the_verdict_of_three_seeds(expected, aside, uniform, verdict):
    shown = build_lines(build_summaries(expected, aside, uniform))
    assert [line.verdict for line in shown if line.name == "listed places that are right"] == [
        verdict
    ]
