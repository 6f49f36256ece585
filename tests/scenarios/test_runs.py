"""A run is a pure function of its study: same bytes, other seed other bytes, and interruption
changes nothing."""

import os
import subprocess
import sys

import numpy as np
from conftest import ROOT
from numpy.testing import assert_allclose
from pytest import mark, raises

from netsim.errors import BadInput
from scenarios.app.result import run
from scenarios.app.results.folder import read_json
from scenarios.app.study.load import parse_value

NOISY = parse_value(
    "{learning.defenses: [{kind: clip, norm: 0.5}, {kind: gaussian, "
    "noise_multiplier: 0.1}], learning.curation: [{kind: random, num: 9}], "
    "learning.learner.batch_size: 4, learning.learner.local_epochs: 2, "
    "learning.learner.dropout: 0.1, learning.attacks: [{kind: closed-form}, "
    "{kind: dlg, starts: 2, iterations: 4}], world.duration_s: 300}"
)


def test_same_study_same_bytes_other_seed_other_bytes(play_tiny, tmp_path, table_bytes):
    play_tiny(NOISY, tmp_path / "a")
    play_tiny(NOISY, tmp_path / "b")
    play_tiny({**NOISY, "seed": 4}, tmp_path / "c")
    a, b, c = (table_bytes(tmp_path / x) for x in "abc")
    assert a == b
    different = {name for name in a if a[name] != c[name]}
    assert different >= {
        "rounds.csv",
        "updates.csv",
        "estimates.csv",
        "leakage.csv",
        "links.csv",
        "summary.json",
    }


def test_another_defense_leaves_movement_and_radio_alone(play_tiny, tmp_path, out, table_bytes):
    play_tiny(NOISY)
    play_tiny({**NOISY, "learning.defenses": []}, tmp_path / "bare")
    noisy = table_bytes(out)
    bare = table_bytes(tmp_path / "bare")
    assert noisy["links.csv"] == bare["links.csv"]
    assert noisy["estimates.csv"] != bare["estimates.csv"]


def test_adding_a_ue_leaves_the_others_where_they_were(play_tiny, tmp_path, out):
    play_tiny({"world.ues.count": 3})
    play_tiny({"world.ues.count": 4}, tmp_path / "four")

    def first_three(folder):
        rows = (folder / "links.csv").read_text().splitlines()[1:]
        return [r.split(",")[:7] for r in rows if r.split(",")[2] in "012"]

    assert first_three(out) == first_three(tmp_path / "four")


@mark.parametrize("mobility, stop_after", [("random-waypoint", 1), ("commuter", 3), ("replay", 1)])
def test_an_interrupted_run_ends_in_the_same_bytes(
    stop_after, mobility, tiny, tmp_path, cut, whole, table_bytes
):
    study = tiny({**NOISY, **_moving(mobility, tmp_path)})
    run(study, whole)
    seen = []

    def stop(progress):
        seen.append(progress.done)
        if progress.done == stop_after + 1:
            raise KeyboardInterrupt

    with raises(KeyboardInterrupt):
        run(study, cut, stop)
    assert (cut / "checkpoint.npz").exists()
    assert not (cut / "summary.json").exists()
    again = []
    run(study, cut, lambda p: again.append(p.done))
    assert again[0] > stop_after
    assert again[0] <= seen[-1] + 1
    assert table_bytes(cut) == table_bytes(whole)
    assert not (cut / "checkpoint.npz").exists()


def _moving(mobility, folder):
    hours = {"world.duration_s": 5 * 7200, "learning.round_s": 7200, "world.tick_s": 900}
    if mobility == "random-waypoint":
        return {}
    if mobility == "commuter":
        late = {"world.duration_s": 14 * 3600.0, "learning.round_s": 2.8 * 3600}
        return {
            **hours,
            **late,
            "world.ues.mobility": {"kind": "commuter"},
            "world.ues.measurement_period_s": None,
        }
    from scenarios.app.study.load import list_bundled

    trace = list_bundled()["replay"].parent / "examples/commuter.csv.gz"
    return {
        "world.ues": {"mobility": {"kind": "replay", "trace": str(trace)}},
        "world.city": {"kind": "open-field"},
        "world.base_stations": [],
        "world.duration_s": 3 * 86400,
        "learning.round_s": 86400,
    }


@mark.slow
def test_threads_do_not_change_a_byte(tmp_path, table_bytes):
    code = "import sys; from scenarios.app.cli.commands import main; sys.exit(main(sys.argv[1:]))"
    short = ["--set", "world.duration_s=345600", "--set", "learning.round_s=86400", "--quiet"]
    for threads in ("1", "2"):
        env = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
        }
        command = [
            sys.executable,
            "-c",
            code,
            "run",
            "campus",
            "--out",
            str(tmp_path / threads),
            *short,
        ]
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "2")


def test_the_resolved_study_repeats_the_run(tiny, out):
    from scenarios.app.study.load import load

    study = tiny(NOISY)
    run(study, out)
    assert load(out / "study.yaml") == study


def test_resting_ues_cost_no_events(tiny):
    from netsim.rng import Streams
    from netsim.world.build import build_world

    still = tiny(
        parse_value(
            "{world.ues.mobility: {kind: static}, world.ues.count: 50, world.duration_s: 86400}"
        )
    )
    world = build_world(still.world, Streams(0), 60.0)
    world.env.run(until=86_400)
    assert len(world.drain_observations()) == 50 * 86_400 / 5
    assert world.moves <= 2
    busy = tiny({"world.ues.count": 50})
    moving = build_world(busy.world, Streams(0), 60.0)
    moving.env.run(until=120)
    moving.drain_observations()
    assert moving.moves >= 120 / 5 - 1  # one event moves all 50, each time they measure


def test_observations_do_not_depend_on_the_tick(tiny):
    from netsim.rng import Streams
    from netsim.world.build import build_world

    result = []
    for tick in (5, 10, 60):
        world = build_world(tiny({"world.tick_s": tick}).world, Streams(0), 60.0)
        world.env.run(until=120)
        seen = world.drain_observations()
        order = np.lexsort((seen.time_s, seen.ue))
        result.append((seen.position_m[order], seen.rsrp_dbm[order]))
    for position, rsrp in result[1:]:
        assert_allclose(position, result[0][0], atol=1e-9)
        assert_allclose(rsrp, result[0][1], atol=1e-7)


def test_manifest_says_what_made_the_run(tiny, out):
    run(tiny(), out, command="netsim run tiny")
    manifest = read_json(out / "manifest.json")
    assert manifest["finished"]
    assert manifest["command"] == "netsim run tiny"
    assert {"python", "netsim", "numpy", "torch", "simpy"} <= set(manifest["versions"])
    assert manifest["models"] == ["a", "b"]
    assert manifest["timing"]["wall_s"] > 0


def test_a_finished_run_of_another_study_stays_unless_asked(tiny, play_tiny, out, table_bytes):
    folder = out
    play_tiny(None, folder)
    before = table_bytes(folder)
    steps = []
    run(tiny(), folder, steps.append)
    assert steps == []  # it is read back
    run(tiny(), folder, steps.append, replace=True)
    assert len(steps) == 2
    with raises(BadInput, match=r"another study.*--replace"):
        play_tiny({"seed": 9}, folder)
    assert table_bytes(folder) == before
    run(tiny({"seed": 9}), folder, replace=True)
    assert table_bytes(folder) != before


@mark.parametrize(
    "changes, words",
    [
        (
            {"world.ues.measurement_period_s": 1e-3, "world.ues.count": 100_000},
            "measurements of a round",
        ),
        ({"world.tick_s": 1e-3, "world.duration_s": 1e6}, "ticks"),
    ],
)
def test_what_would_never_end_is_refused_before_anything_is_written(changes, words, play_tiny, out):
    with raises(BadInput, match=words):
        play_tiny(changes)
    assert not out.exists()


def test_a_run_that_lost_a_table_does_not_go_on(tiny, play_tiny, out, whole, table_bytes):
    def stop(progress):
        raise KeyboardInterrupt

    folder = out
    for spoil in (lambda p: p.unlink(), lambda p: p.write_text("round\n")):
        with raises(KeyboardInterrupt):
            run(tiny(), folder, stop, replace=True)
        spoil(folder / "rounds.csv")
        with raises(BadInput, match=r"rounds.csv: is missing or shorter.*--replace") as error:
            play_tiny(None, folder)
        assert len(error.value.lines) == 1
    run(tiny(), folder, replace=True)
    play_tiny(None, whole)
    assert table_bytes(folder) == table_bytes(whole)
