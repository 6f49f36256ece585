"""Recorded updates: a run's own are replayed byte by byte, attacks see the learner that made them,
and a folder from elsewhere is refused before the first round where it does not fit."""

import json

import numpy as np
from pytest import fixture, mark
from refused import catch_line

from scenarios.app.result import run
from scenarios.app.run.events import ignore_event
from scenarios.app.study.load import parse_value
from scenarios.app.updates import export_updates

TRACKER = "{kind: tracker, shadow_ues: 6, cell_m: 100.0, own_places: true}"
DENSITY = {
    "learning.data": {"kind": "positions"},
    "learning.learner": {"kind": "density", "bandwidth_m": [60.0], "grid": [20, 16]},
}
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
    "two phases": (
        "[{kind: weighted-centroid}]",
        {
            "learning.learner": {"kind": "radio-map", "cell_m": 20},
            "learning.data": {"kind": "links", "hold_out_ues": 1},
            "world.ues.measure": "all",
        },
    ),
    "density": ("[{kind: density-peak}]", DENSITY),
}


def read_tables(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def record(tiny, folder, attacks="[{kind: closed-form}]", changes=None):
    """A study, its run, and the folder of its updates."""
    study = tiny({"learning.attacks": parse_value(attacks), **(changes or {})})
    run(study, folder / "run")
    export_updates(folder / "run", folder / "updates", ignore_event)
    return study


def replay(tiny, study, folder, changes=None, **keys):
    """A study with the updates of a folder in place of training."""
    learner = study.learned.learner
    data = study.model_dump(mode="json", include={"learning"}, exclude_defaults=True)["learning"]
    del data["learner"]
    of = {"kind": learner.kind_name(), **learner.model_dump(mode="json", exclude_unset=True)}
    part = {"kind": "recorded", "folder": str(folder), "of": of, **keys}
    world = {
        f"world.{k}": v for k, v in study.world.model_dump(mode="json", exclude_unset=True).items()
    }
    return tiny(
        {
            **world,
            **{f"learning.{k}": v for k, v in data.items()},
            "learning.learner": part,
            **(changes or {}),
        }
    )


@mark.parametrize("attacks, changes", STUDIES.values(), ids=STUDIES)
def test_a_run_and_its_updates_give_the_same_bytes(attacks, changes, tiny, tmp_path):
    study = record(tiny, tmp_path, attacks, changes)
    part = {"kind": "recorded", "folder": str(tmp_path / "updates")}
    learner = study.learned.learner.model_dump(mode="json", exclude_unset=True)
    part["of"] = {"kind": study.learned.learner.kind_name(), **learner}
    again = tiny({"learning.attacks": parse_value(attacks), **changes, "learning.learner": part})
    run(again, tmp_path / "again")
    expected = read_tables(tmp_path / "run")
    assert "estimates.csv" in expected
    assert read_tables(tmp_path / "again") == expected
