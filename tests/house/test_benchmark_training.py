"""Local training beside its peers and simulators: the same rounds, all processes counted, missing ones said."""

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from benchmarks import federated_peers, training
from benchmarks.training_peers import loop

COHORT = training.SMALL.cohorts[0]


def looped(work):
    """Rounds of the loop over devices, from its own last model."""
    model = work.start

    def rounds(n):
        nonlocal model
        for _ in range(n):
            model = model + loop(work.net, model, work.x, work.y, work.batch, torch.float32)().mean(axis=0)
        return model

    return rounds


@contextmanager
def stub(work):
    yield "stub 1.0", looped(work)


@contextmanager
def idle(work):
    yield "idle 1.0", lambda n: np.asarray(work.start) + 1.0


@pytest.mark.parametrize(
    ("peer", "name", "package"), [("flower", "Flower on Ray", "flwr"), ("pfl", "pfl-research", "pfl")]
)
def test_a_simulator_that_is_missing_is_said(monkeypatch, peer, name, package):
    for found in [one for one in sys.modules if one.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, found)
    monkeypatch.setitem(sys.modules, package, None)
    row = training.federated(COHORT, peer, 3.0, 1, 0.0)
    assert row["ours"] is row["ratio"] is row["met"] is None and row["bar"] == 3.0
    assert row["peer"] == name and "not installed" in row["reason"] and row["subject"] == "training"


def test_a_round_is_that_of_the_loop_and_the_ratio_decides(monkeypatch):
    monkeypatch.setitem(federated_peers.PEERS, "pfl", ("stub", stub))
    met, missed = (training.federated(COHORT, "pfl", bar, 2, 0.0) for bar in (1e-9, 1e9))
    assert met["met"] is True and missed["met"] is False
    assert met["difference"] < 1e-5 and met["peer"] == f"stub 1.0, PyTorch {torch.__version__}"
    assert met["spread"][0] <= met["ratio"] <= met["spread"][1] and met["elapsed"] > 0


def test_a_simulator_that_does_something_else_is_seen(monkeypatch):
    monkeypatch.setitem(federated_peers.PEERS, "pfl", ("idle", idle))
    assert training.federated(COHORT, "pfl", None, 1, 0.0)["difference"] > 0.1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_processes_that_were_started_counts():
    work = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    before = federated_peers.cpu_s()
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert 0.4 < federated_peers.cpu_s() - before < 2.0
        child.communicate(b"\n")
    assert federated_peers.cpu_s() - before < 0.4  # it has ended


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("peer", "packages"), [("flower", ("flwr", "ray")), ("pfl", ("pfl",))])
def test_simulators_play_the_round_of_the_loop(peer, packages):
    for package in packages:
        pytest.importorskip(package)
    work = training._samples(COHORT)[1]
    with federated_peers.PEERS[peer][1](work) as (_, rounds):
        found = [rounds(1), rounds(2)]
    same = looped(work)
    for model, right in zip(found, [same(1), same(2)], strict=True):
        np.testing.assert_allclose(model, right, rtol=0, atol=1e-6)


def absent(_):
    raise ImportError("no such package")


def test_rows_beside_loops_and_mapped_gradients(monkeypatch):
    for peer in federated_peers.PEERS:
        monkeypatch.setitem(federated_peers.PEERS, peer, (peer, absent))
    threads = torch.get_num_threads()
    found = list(training.rows(training.SMALL, 0))
    assert torch.get_num_threads() == threads and all(row["subject"] == "training" for row in found)
    assert [(row["bits"], row["met"]) for row in found] == [
        (32, True), (32, False), (64, None), (64, None), (32, None), (32, None), (32, None),
    ]  # fmt: skip
    assert ["reason" in row for row in found] == [False] * 5 + [True] * 2
    for row in found[:5]:
        assert row["difference"] < (1e-12 if row["bits"] == 64 else 1e-2)
        assert row["spread"][0] <= row["ratio"] <= row["spread"][1] and torch.__version__ in row["peer"]
        assert row["share"] > 0 and row["limit"] > 0
