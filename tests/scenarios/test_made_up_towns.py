"""Attacks that learn on made-up towns: what towns teach, that seeds share it, how it is kept, refusals, and sweeps
with adapted attackers."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.testing import assert_array_equal
from pydantic import Field, PrivateAttr
from pytest import fixture, mark, raises

from fl.attacks.base import Attack
from netsim.checkpoint import load_tree
from netsim.errors import BadInput
from scenarios.app.result import run
from scenarios.app.results.folder import read_csv_rows, read_json, read_record_table
from scenarios.app.run import towns
from scenarios.app.run.events import ignore_event
from scenarios.app.run.towns import FIRST_SEED, make_up_town, teach_attacks
from scenarios.app.study.load import load

COMMUTERS = {
    "world.duration_s": 3 * 86_400,
    "world.tick_s": 1200,
    "world.ues.measurement_period_s": None,
    "world.ues.count": 3,
    "world.ues.mobility": {"kind": "commuter"},
    "world.city.width_m": 1200,
    "world.city.height_m": 900,
    "learning.round_s": 86_400,
}


class Recorder(Attack):
    """Answers the mean home of the UEs of its towns; a lesson is all truth of a town."""

    kind: Literal["recorder"] = "recorder"
    n: int = Field(2, ge=0)

    _home_m: tuple[float, ...] | None = PrivateAttr(None)

    @property
    def n_towns(self) -> int:
        return self.n

    def start(self):
        return np.zeros((0, 2), dtype=int)

    def take_lesson(self, state, town, rng):
        seen = {"round_ue": state, "ue": town.ue, "home_m": town.home_m, "work_m": town.work_m}
        return {**seen, "round": town.facts.round, "drawn": rng.uniform("any", town.ue)}

    def learn(self, lessons):
        learnt = self.model_copy()
        mean_m = np.mean([lesson["home_m"].mean(axis=0) for lesson in lessons], axis=0)
        learnt._home_m = tuple(mean_m.tolist())
        return learnt

    def tabulate_learnt(self):
        if self._home_m is None:
            return []
        return [
            {"kind": "home", "column": axis, "weight": weight}
            for axis, weight in zip("xy", self._home_m, strict=True)
        ]

    def run(self, view, facts, state, rng):
        named = np.column_stack([np.full(len(view.ue), facts.round), view.ue])
        place_m = np.tile(self._home_m or (np.nan, np.nan), (len(view.update), 1))
        answers = view.build_estimates("answer", np.arange(len(view.update)), place_m)
        return answers, np.concatenate([state, named])


@fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/netsim"


@fixture
def build_study(tiny):
    """Builds the study of three commuters and an attack, by default the recorder, with changes."""

    def build(changes=None, attack=None, seed=3):
        study = tiny(COMMUTERS | {"learning.attacks": []} | (changes or {}))
        learning = study.learned.model_copy(update={"attacks": (attack or Recorder(),)})
        return study.model_copy(update={"learning": learning, "seed": seed})

    return build


def read_lessons(cache):
    paths = sorted(cache.glob("*/lesson.npz"), key=lambda path: path.parent.name)
    return [load_tree(path) for path in paths]


def test_towns_teach_their_own_truth_and_none_of_the_real_run(build_study, cache, out):
    run(build_study(), out)
    lessons = read_lessons(cache)
    assert len(lessons) == 2
    real = read_record_table(out, "ues")
    real_m = np.column_stack([real["home_x_m"], real["home_y_m"]])
    for lesson in lessons:
        assert lesson["round"] == 3
        assert_array_equal(lesson["ue"], np.arange(3))
        assert np.isfinite(lesson["home_m"]).all()
        assert set(lesson["round_ue"][:, 1]) <= {0, 1, 2}
        away_m = np.linalg.norm(lesson["home_m"][:, None] - real_m, axis=2)
        assert away_m.min() > 1.0
    assert np.abs(lessons[0]["home_m"] - lessons[1]["home_m"]).max() > 1.0
    # what was learnt is used, and written down
    mean_m = np.mean([lesson["home_m"].mean(axis=0) for lesson in lessons], axis=0)
    learnt = read_record_table(out, "learnt")
    assert learnt["column"].tolist() == ["x", "y"]
    assert set(learnt["attack"]) == {"recorder"}
    np.testing.assert_allclose(learnt["weight"], mean_m, rtol=1e-8)
    estimates = read_record_table(out, "estimates")
    np.testing.assert_allclose(estimates["x_m"], mean_m[0], rtol=1e-8)
    digests = read_json(out / "manifest.json")["towns"]["recorder"]
    assert sorted(digests) == sorted(path.parent.name for path in cache.glob("*/lesson.npz"))
