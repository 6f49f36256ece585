"""Local training beside its peers and simulators: the same rounds, all processes counted, missing ones said."""

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
