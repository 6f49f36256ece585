"""Runs from values of Python: the same bytes as from YAML, and a line that names the argument."""

import gc
import json
from typing import Literal

import numpy as np
import pandas
import torch
from conftest import TINY
from pytest import approx, mark
from refused import catch_line

from fl.attacks.closed_form import ClosedForm
from fl.defenses import Defense
from fl.defenses.clip import Clip
from fl.optimisers import Momentum
from scenarios import load, run, simulate
from scenarios.app.run.runner import build_run_job


class Sign(Defense):
    """Send step times the sign of every number."""

    kind: Literal["sign"] = "sign"
    step: float = 1e-3

    reference = "netsim: signs"

    def protect(self, updates, local, facts, state, rng):
        rows = updates.rows(slice(None))
        return updates.plus(self.step * np.sign(rows) - rows), state, []


class Cut(Clip):
    """A bundled kind that is something else."""


def test_objects_mappings_and_kinds_give_the_bytes_of_yaml(tiny, tmp_path, table_bytes):
    whole = {
        "learning.defenses": [{"kind": "clip", "norm": 0.5}],
        "learning.attacks": [{"kind": "closed-form"}],
        "learning.rounds": 1,
        "world.ues.count": 3,
        "learning.learner.optimiser": {"kind": "momentum"},
    }
    run(tiny(whole), tmp_path / "yaml")
    forms = (
        {"defenses": [Clip(norm=0.5)], "attacks": [ClosedForm()], "learner.optimiser": Momentum()},
        {"defenses": ({"kind": "clip", "norm": np.float64(0.5)},), "attacks": ["closed-form"]}
        | {"learning.learner.optimiser": "momentum"},
    )
    for i, form in enumerate(forms):
        result = simulate(TINY, rounds=1, out=tmp_path / str(i), **{"ues.count": 3}, **form)
        assert table_bytes(result.folder) == table_bytes(tmp_path / "yaml")
        assert load(result.folder / "study.yaml") == load(tmp_path / "yaml/study.yaml")


def test_a_world_is_a_name_a_file_keys_a_section_or_a_setting(tiny, tmp_path):
    setting = tiny().world
    learning = {"round_s": 60, "learner": "rsrp-net", "attacks": [], "rounds": 1}
    worlds = (TINY["world"], setting, {"title": "simulated", "world": setting})
    figures = [simulate(world, learning=learning, seed=3).summary for world in worlds]
    assert figures[0] == figures[1] == figures[2]
    (tmp_path / "mine.yaml").write_text(json.dumps(TINY))
    assert simulate(tmp_path / "mine.yaml", rounds=1)["rounds.played"] == 1
    assert load(load("campus")) == load("campus")
    assert load({**TINY, "title": "x"}).title == "x"


def test_a_result_without_a_folder_goes_with_its_tables():
    result = simulate(TINY, rounds=1)
    folder = result.folder
    tables = result.tables
    del result
    gc.collect()
    assert len(tables["rounds"]) == 1
    del tables
    gc.collect()
    assert not folder.exists()
    assert not folder.parent.exists()


def test_a_class_without_an_entry_point_is_played_and_found_again(out):
    result = simulate(TINY, defenses=[Sign(step=0.25)], out=out)
    norms = result.tables["updates"]["sent_norm"]
    assert norms.to_numpy() == approx(0.25 * np.sqrt(51))
    before = (out / "summary.json").read_bytes()
    again = simulate(TINY, defenses=[Sign(step=0.25)], out=out)
    assert again == result
    assert (out / "summary.json").read_bytes() == before
    line = catch_line(simulate, TINY, defenses=[Sign(step=0.5)], out=out)
    assert "of another study" in line


def test_a_run_with_a_class_of_python_is_resumed(check_resumed):
    check_resumed(load(TINY, {"learning.defenses": [Sign()]}), 1)


@mark.parametrize(
    "arguments, words",
    [
        ({"defenses": [Clip(norm=1.0), "clipp"]}, "simulate(defenses[1].kind): unknown kind"),
        ({"defenses": [{"kind": "clip", "norm": -1}]}, "simulate(defenses[0].norm)=-1: must be"),
        ({"attacks": [Sign()]}, "simulate(attacks[0]): Sign must derive from fl.attacks.base"),
        ({"defenses": [Cut(norm=1.0)]}, "simulate(defenses[0]): Cut must derive"),
        ({"defenses": [Sign]}, "simulate(defenses[0]): no scenario has <class"),
        ({"learner": object()}, "simulate(learner): no scenario has <object"),
        ({"rounds": 0}, "simulate(rounds)=0: must be at least 1"),
        ({"roundz": 3}, "simulate(roundz): no argument, section or key; did you mean 'rounds'?"),
        ({"ues.mobility": Sign()}, "simulate(world.ues.mobility): Sign must derive from netsim"),
        ({"leakage": {"target": "ue9"}}, "simulate(leakage.target): no UE is called 'ue9'"),
        ({"learner.hidden": {4}}, "simulate(learner.hidden): no scenario has {4}"),
    ],
)
def test_a_refusal_names_its_argument(arguments, words):
    assert catch_line(simulate, TINY, **arguments).startswith(words)


def test_a_scenario_in_python_has_what_is_missing_named():
    assert catch_line(load, {"title": "x"}).startswith("load(top level): missing key 'world'")
    assert "simulate(learning): missing key 'round_s'" in catch_line(
        simulate, TINY["world"], learner="rsrp-net"
    )
    line = catch_line(load, TINY, {"learning.defenses": [Clip(norm=1.0), {"kind": "cclip"}]})
    assert line.startswith("load(learning.defenses[1].kind): unknown kind 'cclip'")


def test_a_study_is_saved_where_yaml_can_say_it(tmp_path):
    path = tmp_path / "mine.yaml"
    result = simulate(TINY, defenses=[Clip(norm=0.5)], rounds=1)
    result.save(path)
    assert simulate(path) == result
    held = simulate(TINY, defenses=[Sign()], rounds=1)
    kept = path.read_bytes()
    assert catch_line(held.save, path).startswith(f"{path}: sign lives in Python alone")
    assert path.read_bytes() == kept
    study = held.folder / "study.yaml"
    assert catch_line(load, study).startswith(f"{study}: sign lives in Python alone")


def test_the_digest_of_a_part_is_that_of_its_class_and_of_what_it_holds(monkeypatch, tmp_path):
    study = load(TINY, {"learning.defenses": [Sign()]})

    def find_digest():
        return build_run_job(study, tmp_path).inputs["sign (in Python)"]

    first = find_digest()
    assert find_digest() == first
    monkeypatch.setattr(Sign, "digest", "held")
    assert find_digest() != first
    monkeypatch.undo()
    monkeypatch.setattr("inspect.getsource", lambda _: "another source")
    assert find_digest() != first
    assert build_run_job(load(TINY), tmp_path).inputs == {}


class Net(torch.nn.Module):
    """A linear law of positions."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 1)

    def forward(self, x):
        return self.inner(x).squeeze(-1)


class Classifier(torch.nn.Module):
    """A logistic regression."""

    def __init__(self, shape, classes):
        super().__init__()
        self.inner = torch.nn.Linear(shape[0], classes)

    def forward(self, x):
        return self.inner(x)


def test_a_module_learns_and_is_resumed_by_the_same_weights_alone(out):
    net = Net()
    given = {"attacks": ["closed-form"], "rounds": 1, "out": out}
    result = simulate(TINY, learner=net, **given)
    assert simulate(TINY, learner=net, **given) == result
    other = Net()
    other.load_state_dict(net.state_dict())
    assert simulate(TINY, learner=other, **given) == result
    with torch.no_grad():
        other.inner.bias += 1.0
    line = catch_line(simulate, TINY, learner=other, **given)
    assert "that read torch (in Python) with other content" in line
    assert catch_line(result.save, out / "mine.yaml").startswith(f"{out}/mine.yaml: torch lives in")


def test_weights_of_a_class_are_drawn_from_the_run_and_of_an_object_are_its(tmp_path):
    given = {"attacks": [], "rounds": 1}
    first, second = (simulate(TINY, learner=Net, **given) for _ in range(2))
    assert first == second
    assert simulate(TINY, learner=Net(), **given) != first
    slow = simulate(TINY, learner={"module": Net, "learning_rate": 1e-6}, **given)
    assert slow != first


def test_arrays_a_data_set_and_a_table_are_the_same_samples():
    x = np.random.default_rng(0).normal(size=(80, 3)).astype("f4")
    y = (x.sum(axis=1) > 0).astype(int)
    table = pandas.DataFrame({"x": list(x), "y": y})
    data_set = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    learner = {"module": Classifier, "learning_rate": 0.5}
    results = [
        simulate(TINY, learner=learner, data=data, attacks=[])
        for data in ((x, y), {"x": x, "y": y}, data_set, table)
    ]
    assert results[0]["utility.accuracy_percent"] > 50
    assert all(result == results[0] for result in results)
    for data, words in (
        ((x, y[:-1]), "simulate(data): samples: x is of shape (80, 3)"),
        ({"x": x, "z": y}, "simulate(data.z): Extra inputs"),
        ([1, 2], "simulate(data): "),
        (x, "simulate(data): expected a mapping with kind"),
    ):
        assert catch_line(simulate, TINY, learner=Classifier, data=data).startswith(words)


def test_keys_beside_a_module_are_checked():
    line = catch_line(simulate, TINY, learner={"module": Net, "learning_rate": -1})
    assert line.startswith("simulate(learner.learning_rate): Input should be greater than 0")
    line = catch_line(simulate, TINY, learner=torch.nn.Tanh)
    assert line.startswith("simulate(learner.module): Tanh has no parameters")
