"""Recorded updates: a run's own are replayed byte by byte, and a folder from elsewhere is refused
before the first round where it does not fit."""

import hashlib
import json
import pickle

import numpy as np
from pytest import fixture, mark, param
from refused import catch_line
from safetensors.numpy import load_file, save_file

from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.run.events import ignore_event
from scenarios.app.run.setup import check_study
from scenarios.app.study.load import parse_value
from scenarios.app.updates import export_updates

TRACKER = "{kind: tracker, shadow_ues: 6, cell_m: 100.0, own_places: true}"
STUDIES = {
    "defenses, shadow UEs, losses": (
        f"[{{kind: closed-form}}, {{kind: span, rank: 2}}, {TRACKER}]",
        {
            "learning.defenses": [
                {"kind": "clip", "norm": 1.0},
                {"kind": "gaussian", "noise_multiplier": 0.1},
            ],
            "learning.participation": 0.75,
            "world.radio.uplink": {"kind": "noma", "norm_bound": 1.0, "deadline_s": 0.01},
        },
    ),
    "secure sums": (
        "[{kind: fused, towns: 0, cell_m: 100}]",
        {
            "learning.threat": {"observes": "aggregate"},
            "learning.server_optimiser": {"kind": "fedadam"},
            "learning.learner": {"kind": "rsrp-net", "profile": "useful", "hidden": [6]},
        },
    ),
    "without rounds": (
        "[{kind: span, rank: 2}, {kind: arrival-times}]",
        {
            "learning.server": {"kind": "fedbuff", "buffer": 2},
            "world.radio.uplink": {"kind": "oma", "bandwidth_hz": 1e6, "decoding": "error-free"},
            "world.radio.dynamic_uplink": {},
        },
    ),
    "torch": (
        "[{kind: span, rank: 2}, {kind: closed-form}]",
        {
            "learning.learner": {
                "kind": "torch",
                "module": "perceptron",
                "arguments": {"hidden": [6]},
                "labels": "standardised",
                "learning_rate": 0.1,
            }
        },
    ),
    "density": (
        "[{kind: density-peak}]",
        {
            "learning.data": {"kind": "positions"},
            "learning.learner": {"kind": "density", "bandwidth_m": [60.0], "grid": [20, 16]},
        },
    ),
}
OF = {"kind": "rsrp-net", "hidden": [6, 4], "activation": "tanh"}
"""The learner of the tiny study."""


def read_tables(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


@mark.parametrize("attacks, changes", STUDIES.values(), ids=STUDIES)
def test_a_run_and_its_updates_give_the_same_bytes(attacks, changes, tiny, tmp_path):
    changes = {"learning.attacks": parse_value(attacks), "world.duration_s": 180, **changes}
    run(tiny(changes), tmp_path / "run")
    export_updates(tmp_path / "run", tmp_path / "updates", ignore_event)
    part = {"kind": "recorded", "folder": str(tmp_path / "updates")}
    part["of"] = changes.get("learning.learner", OF)
    again = tiny({**changes, "learning.learner": part})
    run(again, tmp_path / "again")
    expected = read_tables(tmp_path / "run")
    assert "estimates.csv" in expected
    assert read_tables(tmp_path / "again") == expected
    assert not list(tmp_path.glob(".updates-*"))


@fixture(scope="module")
def updates(tiny, tmp_path_factory):
    """The folder of a run of two rounds, by the command line."""
    folder = tmp_path_factory.mktemp("recorded")
    run(tiny(), folder / "run")
    assert main(["export", str(folder / "run"), "--updates", "--out", str(folder / "updates")]) == 0
    return folder / "updates"


@fixture
def copy(updates, tmp_path):
    """Its files, which a test may change."""
    for path in updates.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def change_card(folder, change):
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


def change_file(folder, change, number=0, seal=True):
    """Change the arrays of a file; its digest follows."""
    card = json.loads((folder / "card.json").read_text())
    path = folder / card["files"][number]["file"]
    arrays = {name: array.copy() for name, array in load_file(path).items()}
    change(arrays)
    save_file(arrays, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if seal:
        change_card(folder, lambda card: card["files"][number].update(sha256=digest))


def build(tiny, folder, changes=None, of=OF):
    part = {"kind": "recorded", "folder": str(folder), "of": of}
    return tiny({"learning.learner": part, **(changes or {})})


def test_ues_without_an_update_take_no_part_and_models_are_published(tiny, copy, out, updates):
    """ue0 leaves round 2, whose file has another model: the update that is merged moves that."""

    def leave_out(arrays):
        for name in ("update", "count"):
            arrays[name] = arrays[name][1:]
        arrays["parameters"] += 1.0

    change_file(copy, leave_out, 1)
    change_card(copy, lambda card: card["files"][1]["rows"].pop(0))
    run(build(tiny, copy), out)
    rows = read_record_table(out, "updates")
    assert rows["ue"][rows["round"] == 1].tolist() == [0, 0, 1, 2, 3]
    assert rows["ue"][rows["round"] == 2].tolist() == [1, 2, 3]
    first, last = (
        read_record_table(f, "rounds")["rmse_db"] for f in (updates.with_name("run"), out)
    )
    assert first[0] == last[0]
    assert abs(first[1] - last[1]) > 0.1


def test_a_round_may_be_said_by_its_time(tiny, copy, out, updates):
    def say_times(card):
        for k, entry in enumerate(card["files"]):
            del entry["round"]
            entry["time_s"] = 60.0 * k + 59.0

    change_card(copy, say_times)
    run(build(tiny, copy), out)
    assert read_tables(out) == read_tables(updates.with_name("run"))


def set_entry(**keys):
    return lambda card: card["files"][0].update(keys)


def spoil(name, value):
    def change(arrays):
        arrays[name].flat[0] = value

    return change


HOSTILE = [
    ("card", set_entry(file="../card.json"), "should match pattern"),
    ("card", set_entry(file="/etc/passwd"), "should match pattern"),
    ("card", set_entry(file="none.safetensors"), "No such file"),
    ("card", set_entry(numbers=1), "[5, 51], 'count': [5], 'parameters': [2, 51]}, and the card"),
    (
        "card",
        lambda c: c["files"][0]["rows"][0].__setitem__(0, "ann"),
        "the world has no UE 'ann'",
    ),
    ("card", lambda c: c["files"][0]["rows"].pop(), "and the card says {'update': [4, 51]"),
    ("card", lambda c: c["files"][0]["rows"][0].__setitem__(1, -1), "greater than or equal to 0"),
    ("card", set_entry(round=2), "two files are of round 2"),
    ("card", lambda card: card.update(rounds=1), "it has 1 rounds, the study 2"),
    ("card", lambda card: card.update(format=2), "Input should be 1"),
    ("card", lambda card: card["same"].update(hidden=[6, 5]), "hidden was [6, 5], and is [6, 4]"),
    ("card", lambda card: card["same"].update(area_m=[0, 0, 1, 1]), "area_m was [0, 0, 1, 1]"),
    ("card", set_entry(models=[2, 3]), "'parameters': [2, 51]}, and the card"),
    ("card", lambda card: card.update(constants={"scale_m": [1]}), "constants.scale_m.1"),
    ("card", lambda card: card.update(constants={"other": [1, 1]}), "'centre_m' or 'scale_m'"),
    ("file", spoil("update", np.nan), "not finite"),
    ("file", spoil("count", np.inf), "not finite"),
    ("file", lambda arrays: arrays.pop("parameters"), "parameters"),
    ("file", lambda arrays: arrays.pop("count"), "count"),
    ("unsealed", spoil("update", 1.0), "another SHA-256"),
]


@mark.parametrize("where, change, reason", [param(*case, id=case[2][:40]) for case in HOSTILE])
def test_what_does_not_fit_is_refused_before_the_first_round(
    where, change, reason, tiny, copy, out
):
    if where == "card":
        change_card(copy, change)
    else:
        change_file(copy, change, seal=where == "file")
    line = catch_line(check_study, build(tiny, copy), thorough=True)
    assert reason in line
    assert str(copy) in line
    assert catch_line(run, build(tiny, copy), out) == line
    assert not out.exists()


@mark.parametrize("place", ["card.json", "000001.safetensors"])
def test_neither_pickles_nor_links_are_read(place, tiny, copy, tmp_path):
    path = copy / place
    content = path.read_bytes()
    path.write_bytes(pickle.dumps(print))
    assert str(path) in catch_line(check_study, build(tiny, copy))
    path.unlink()
    (copy / "elsewhere").write_bytes(content)
    path.symlink_to(copy / "elsewhere")
    if place != "card.json":
        assert "symbolic link" in catch_line(check_study, build(tiny, copy))


def test_an_attacker_that_trains_needs_the_learner_and_noise_a_clip(tiny, copy):
    noise = {"learning.defenses": [{"kind": "gaussian", "noise_multiplier": 1.0}]}
    of = {**OF, "sample_clip": 1.0}
    tiny({"learning.learner": of, **noise})
    assert "bound" in catch_line(build, tiny, copy, noise, of=of)


def test_several_uploads_a_round_are_refused(tiny, copy, out):
    learner = {"kind": "radio-map", "cell_m": 20}
    data = {"learning.data": {"kind": "links"}, "world.ues.measure": "all"}
    changes = {**data, "learning.attacks": []}
    assert "more than once" in catch_line(build, tiny, copy, changes, of=learner)
    run(tiny({"learning.learner": learner, **changes}), out)
    assert "more than once" in catch_line(export_updates, out, copy / "new", ignore_event)


def test_an_export_into_a_folder_that_is_there_is_refused(updates):
    assert "is there already" in catch_line(
        export_updates, updates.with_name("run"), updates, ignore_event
    )


@mark.parametrize("size", [1, 50])
def test_rows_of_another_length_than_the_learners_are_refused(tiny, copy, size):
    """Files and card agree, and every update has too few numbers."""
    for number in range(2):
        change_file(copy, lambda arrays: arrays.update(update=arrays["update"][:, :size]), number)
    change_card(copy, lambda card: [entry.update(numbers=size) for entry in card["files"]])
    line = catch_line(check_study, build(tiny, copy), True)
    assert f"rows have {size} numbers" in line
