"""Settings that have new names: every old one is refused with the new one, and files are found from the scenario."""

from typing import get_args

import pytest

from netsim.part import Part
from scenarios.app.cli.commands import main
from scenarios.app.study.describe import unwrap
from scenarios.app.study.load import Scenario
from scenarios.app.study.slots import SLOTS
from scenarios.app.study.study import Study


def everybody():
    """All classes of parts that a scenario may hold."""
    assert Study and SLOTS  # which import them
    waiting, every = [Part], []
    while waiting:
        every.append(waiting.pop())
        waiting += every[-1].__subclasses__()
    return [part for part in every if "renamed" in vars(part) and part.renamed]


def test_there_are_renamed_settings():
    assert len(everybody()) > 5  # of the modules that are imported by now


@pytest.mark.parametrize("part", everybody(), ids=lambda p: p.__name__)
def test_a_new_name_is_a_setting_and_an_old_one_is_none(part):
    for old, new in part.renamed.items():
        key, _, value = old.partition(": ")
        if value:
            words = get_args(unwrap(part.model_fields[key].annotation)[0])
            assert new in words and value not in words
        else:
            assert new.partition(":")[0] in part.model_fields and old not in part.model_fields  # or a key in that one


@pytest.mark.parametrize(
    ("scenario", "old", "new"),
    [
        ("campus", "learning.every_s=60", "round_s"),
        ("campus", "learning.stop_at={epsilon: 1}", "privacy_budget"),
        ("campus", "learning.data.keeps=all", "memory"),
        ("campus", "learning.learner.features=public", "standardise_by"),
        ("campus", "learning.learner.step_size=1", "learning_rate"),
        ("campus", "learning.leakage.guess_draws=20", "random_baseline_draws"),
        ("density/nine", "learning.learner.features=1", "n_features"),
        ("radio-maps/train", "learning.learner.highest_m=30", "max_height_m"),
        ("lapa/membership", "learning.defenses=[{kind: lapa, error_most: 1}]", "error_max"),
        ("lapa/noise-control", "plan.criterion=device", "per-device"),
        ("power/paper", "train.task.criterion=device", "per-device"),
        ("power/paper", "train.agent.step_size=0.1", "learning_rate"),
        ("power/paper", "train.agent.random_steps=10", "learning_starts"),
        ("power/paper", "train.agent.noise_std=0.1", "exploration_noise_std"),
        ("power/paper", "train.judge_every=10", "eval_every"),
        ("power/paper", "train.task.judged_on=10", "eval_worlds"),
    ],
)
def test_an_old_name_is_refused_with_the_new_one(scenario, old, new, capsys):
    assert main(["validate", scenario, "--set", old]) == 2
    assert f"is renamed to {new}; write {new}" in capsys.readouterr().err


def test_a_new_key_is_not_called_renamed(capsys):
    assert main(["validate", "campus", "--set", "learning.learner.learning_rat=1"]) == 2
    said = capsys.readouterr().err
    assert "unknown key" in said and "renamed" not in said


def test_names_of_files_count_from_the_scenario_wherever_a_part_takes_one(tmp_path, monkeypatch):
    monkeypatch.setenv("SOMEWHERE", "/data")
    text = """
        title: files
        world:
          city: {kind: footprints, file: houses.geojson}
          base_stations: {kind: cell-file, file: cells.csv}
          ues: {mobility: {kind: replay, trace: sub/trace.csv}}
        power: {kind: ddpg, policy: ../policy}
        learning: {round_s: 60, learner: {kind: image-net}, data: {kind: images, folder: "${SOMEWHERE}/images"}}
    """
    (tmp_path / "s.yaml").write_text(text)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    data = Scenario(tmp_path / "s.yaml").document().data
    assert data["world"]["city"]["file"] == str(tmp_path / "houses.geojson")
    assert data["world"]["base_stations"]["file"] == str(tmp_path / "cells.csv")
    assert data["world"]["ues"]["mobility"]["trace"] == str(tmp_path / "sub" / "trace.csv")
    assert data["power"]["policy"] == str(tmp_path.parent / "policy")
    assert data["learning"]["data"]["folder"] == "/data/images"
    typed = Scenario(tmp_path / "s.yaml").document({"world.city.file": "other.geojson"}).data
    assert typed["world"]["city"]["file"] == str(elsewhere / "other.geojson")  # from the command line
