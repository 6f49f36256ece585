"""UEs of a trace without a home: who they are, why, and what attacks find of their place of most
time."""

import math
from math import inf, nan

import numpy as np
import pytest
from browser import ink, read_state, state, with_replay
from noticed import by_key, of_run
from pages import read_json
from rows import read_yaml

from fl.leakage.chance import compute_hit_probabilities
from netsim.errors import BadInput
from netsim.geometry import Area
from scenarios.app.report.report import write_report
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.read import load_finished_run

HOME = (0.0, 0.0)
DEPOT = (900.0, 600.0)
DAYS = 5


def rows(user, at_m, day, from_h, until_h):
    """A row in ten minutes around a place."""
    draw = np.random.default_rng([day, int(60 * from_h)])
    for k in range(int(6 * (until_h - from_h))):
        x, y = np.array(at_m) + draw.normal(0, 15, 2)
        yield f"{86_400 * day + 3600 * from_h + 600 * k:.0f},{user},{x:.2f},{y:.2f}"


def build_replay(path, more):
    """Build the changes of a study that replays a trace."""
    return read_yaml(f"""
        world.ues: {{mobility: {{kind: replay, trace: '{path}', users: id}}}},
        world.city: {{kind: open-field}}, world.duration_s: null, world.tick_s: 3600,
        learning.round_s: 21600, {more}
    """)


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """A resident, a driver who waits somewhere else each hour and parks by day, and a visitor of
    two nights."""
    out = tmp_path_factory.mktemp("densest")
    lines = []
    for day in range(DAYS):
        lines += [*rows("resident", HOME, day, 0, 6), *rows("resident", (400, 900), day, 9, 12)]
        for hour in range(6):
            lines += rows(
                "driver", (300.0 * hour - 500, 250.0 * ((day + hour) % 5)), day, hour, hour + 1
            )
        lines += rows("driver", DEPOT, day, 8, 16)
        lines += rows("visitor", (-600, 800), day, 1 if day < 2 else 13, 4 if day < 2 else 15)
    (out / "t.csv").write_text("\n".join(["time_s,user,x_m,y_m", *lines]) + "\n")
    run(tiny(build_replay(out / "t.csv", "learning.learner.activation: relu")), out / "r")
    return out / "r"


@pytest.fixture(scope="module")
def summary(folder):
    return read_json(folder / "summary.json")


def test_only_the_resident_has_a_home(folder, summary):
    ues = read_record_table(folder, "ues")
    names = ues["name"].tolist()
    assert np.isfinite(ues["home_x_m"]).tolist() == [name == "resident" for name in names]
    assert np.isfinite(ues["densest_x_m"]).tolist() == [name != "resident" for name in names]
    assert dict(zip(names, ues["nights"].tolist(), strict=True)) == {
        "resident": 5,
        "driver": 5,
        "visitor": 2,
    }
    values = names.index("driver")
    densest_m = ues["densest_x_m"][values], ues["densest_y_m"][values]
    assert math.dist(densest_m, DEPOT) < 20
    assert (summary["homes.none"], summary["homes.few_nights"]) == (2, 1)
    assert by_key(of_run(folder))["homes-missing"].startswith("2 of 3 UEs have no home")
    assert summary["attack.closed-form.homes.count"] == 1
    assert summary["attack.closed-form.densest.count"] == 2


def test_shares_and_chance_are_over_those_that_have_the_place(folder, summary):
    """Of `named.csv` and `ues.csv` alone, as nothing else does."""
    ues = read_record_table(folder, "ues")
    named = read_record_table(folder, "named")
    hit_radius_m = summary["leakage.hit_radius_m"]
    area = Area(*read_json(folder / "manifest.json")["area_m"])
    named_m = np.column_stack([named["x_m"], named["y_m"]])
    for place, count in (("home", 1), ("densest", 2)):
        at_m = np.column_stack([ues[f"{place}_{axis}_m"] for axis in "xy"])
        present = np.flatnonzero(np.isfinite(at_m).all(axis=1))
        away_m = np.linalg.norm(named_m - at_m[named["ue"].astype(int)], axis=1)
        hits = np.isin(present, named["ue"][away_m <= hit_radius_m])
        key = f"{place}_located"
        assert len(present) == count
        assert summary[f"attack.closed-form.{key}.percent"] == 100 * np.mean(hits)
        chance = compute_hit_probabilities(
            at_m[present], np.full((count, 2), nan), hit_radius_m, area, 2
        )[:, 0].mean()
        assert summary[f"baseline.uniform.{key}.percent"] == pytest.approx(100 * chance)
    leakage = read_record_table(folder, "leakage")
    days = []
    for ue in np.flatnonzero(np.isfinite(ues["densest_x_m"])):
        is_of_ue = leakage["ue"] == ue
        is_far = is_of_ue & ~(leakage["densest_named_m"] <= hit_radius_m)
        last_far = leakage["round"][is_far].max(initial=0)
        later = leakage["round"][is_of_ue & (leakage["round"] > last_far)]
        days.append(np.ceil(later.min(initial=inf) / 4))  # rounds of 6 h
    median = sum(days) / 2
    expected = median if np.isfinite(median) else None
    assert summary["attack.closed-form.densest_located.day.median"] == expected
    selected_rows = np.isin(leakage["ue"], np.flatnonzero(np.isfinite(ues["densest_x_m"])))
    assert np.isnan(leakage["home_named_m"][selected_rows]).all()
    assert np.isfinite(leakage["densest_named_m"][selected_rows]).any()
    assert np.isnan(leakage["densest_named_m"][~selected_rows]).all()


def test_parts_that_ask_for_homes_are_refused_where_nobody_of_a_trace_has_one(tiny, tmp_path):
    lines = [line for day in range(DAYS) for line in rows("driver", DEPOT, day, 8, 16)]
    (tmp_path / "t.csv").write_text("\n".join(["time_s,user,x_m,y_m", *lines]) + "\n")
    changes = build_replay(tmp_path / "t.csv", "learning.availability: {kind: at-home}")
    with pytest.raises(
        BadInput, match=r"at-home needs homes: .*, and no user of the trace has one"
    ):
        run(tiny(changes), tmp_path / "r")


@pytest.mark.slow
def test_the_map_marks_the_place_of_most_time(show, folder):
    """As a home: named where the tables say so, with a switch; the resident's home is a mark of its
    own."""
    page = with_replay(show(write_report(folder)))
    current = state(page)
    run = load_finished_run(folder)
    rows = run.get_rows("leakage", "attack", run.attacks[current["attack"]])
    near = rows["densest_named_m"] <= 100
    by_round = np.argsort(rows["round"], kind="stable")
    last = dict(zip(rows["ue"][by_round], near[by_round], strict=True))
    assert current["named"]["densest"] == sum(last.values())
    assert "of 2 places of most time named" in page.text_content("#replay-now")
    before = ink(page, "known")
    page.click("[data-layer=densest]")
    assert ink(page, "known") != before
    assert not read_state(page, "layers")["densest"]
