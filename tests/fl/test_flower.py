"""Clients of a Flower app in this process: they train as learner torch does, remember what they are
to, and a run of theirs is recorded and scored."""

import re

import numpy as np
from conftest import ROOT
from pytest import fixture, importorskip
from refused import catch_line

importorskip("flwr", reason="needs the extra flower: pip install 'netsim-fl[flower]'")

from interrupted import run_in_two

from fl.learners.flower import Flower
from fl.learners.torch_net import TorchNet
from fl.types import Local, Public
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table

CLIENT = """
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    config = message.content["config"]
    x, y = map(torch.from_numpy, message.content["samples"].to_numpy_ndarrays())
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(net.parameters(), lr=config["lr"])
    for _ in range(config["local-epochs"]):
        optimiser.zero_grad()
        ((net(x)[:, 0] - y) ** 2).mean().backward()
        optimiser.step()
    before = context.state["seen"]["rounds"] if "seen" in context.state else 0
    context.state["seen"] = MetricRecord({"rounds": before + 1})
    metrics = MetricRecord({"num-examples": len(x) + 1000 * before})
    arrays = ArrayRecord(net.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
"""
NET = """
import torch


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, x):
        return super().forward(x)[:, 0]
"""


@fixture
def keys(tmp_path):
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "net.py").write_text(NET.replace("super().__init__(", "super().__init__(").strip())
    return {
        "module": f"{tmp_path}/net.py:Net",
        "labels": "standardised",
        "local_epochs": 3,
        "learning_rate": 0.1,
    }


@fixture
def app(tmp_path):
    return f"{tmp_path}/client.py:app"


def build_data(rng):
    count = np.array([5, 9, 1])
    ptr = np.concatenate([[0], np.cumsum(count)])
    x = 300.0 * rng.uniform("x", np.arange(15), (2,))
    y = -95.0 + 9.0 * rng.normal("y", np.arange(15))
    return Local(np.array([0, 1, 4]), np.array([0, 1, 0]), ptr, x, y, np.zeros(15))


def test_clients_train_as_the_torch_learner_does(keys, app):
    rng = Streams(1).derive_rng("learner", 1)
    data = build_data(rng)
    public = Public(Area(0, 0, 400, 300), 2)
    torch_net, flower = TorchNet(**keys), Flower(**keys, app=app)
    model = torch_net.init(public, rng)
    assert (flower.init(public, rng).parameters == model.parameters).all()
    expected = torch_net.train_locally(model, "all", data, rng).values
    updates, state = flower.train_with_state(model, "all", data, flower.start_ues(5), rng)
    error = np.linalg.norm(updates.values - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert error.max() < 1e-5
    assert updates.count.tolist() == [5, 9, 1]
    again, _ = flower.train_with_state(model, "all", data, state, rng)
    assert again.count.tolist() == [1005, 1009, 1001]


def test_a_run_goes_on_with_the_states_of_its_clients(keys, app, tiny, tmp_path):
    learner = {"kind": "flower", "app": app, **keys}
    study = tiny({"learning.learner": learner, "world.duration_s": 240})
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda event: event.done == 2)
    tables = [
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.csv")}
        for name in ("whole", "cut")
    ]
    assert tables[0] == tables[1]


def test_a_recorded_run_of_clients_is_scored_as_that_run(keys, app, tiny, tmp_path, monkeypatch):
    """By the mod and the script of the manual; their numbers have 32 bits."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/own.md").read_text()
    record, pack = re.findall(r"```python\n(# (?:record|pack)\.py\n.*?)```", text, re.DOTALL)
    attacks = [{"kind": "closed-form"}, {"kind": "span", "rank": 2}]
    changes = {
        "learning.attacks": attacks,
        "world.base_stations": [{"name": "a", "position_m": [100, 100]}],
    }
    learner = {"kind": "flower", "app": app, **keys}
    run(tiny({"learning.learner": learner, **changes}), tmp_path / "run")
    client = CLIENT.replace("ClientApp()", "ClientApp(mods=[record])")
    (tmp_path / "client.py").write_text(record + client)
    changes["learning.attacks"] = []  # which would train too
    run(tiny({"learning.learner": learner, **changes}), tmp_path / "kept")
    exec(pack, {})
    of = {"kind": "torch", **keys}
    recorded = {"kind": "recorded", "folder": str(tmp_path / "updates"), "of": of}
    changes |= {"learning.learner": recorded, "learning.attacks": attacks}
    run(tiny(changes), tmp_path / "again")
    first, again = (read_record_table(tmp_path / name, "leakage") for name in ("run", "again"))
    assert len(first["error_m"]) == len(again["error_m"]) > 8
    np.testing.assert_allclose(again["error_m"], first["error_m"], rtol=1e-2, atol=0.1)


def test_a_client_that_fails_is_blamed_on_its_line(keys, app, tiny, tmp_path, out):
    (tmp_path / "client.py").write_text(CLIENT.replace('config["lr"]', 'config["rate"]'))
    study = tiny({"learning.learner": {"kind": "flower", "app": app, **keys}})
    line = catch_line(run, study, out)
    assert "learning.learner.app" in line
    assert "training raised KeyError: 'rate'; mend app" in line
