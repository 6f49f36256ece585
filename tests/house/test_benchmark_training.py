"""The benchmark of local training: its rows say everything, peers do the same work, bars decide."""

import json

import torch

from benchmarks import __main__ as command
from benchmarks import federated_peers, training


def absent(_):
    raise ImportError("no such package")


def test_every_row_is_there_and_the_ratio_decides(monkeypatch, capsys):
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    for peer in federated_peers.PEERS:  # simulators, whose rows have a test of their own
        monkeypatch.setitem(federated_peers.PEERS, peer, (peer, absent))
    threads = torch.get_num_threads()
    command.main(["training", "--seconds", "0", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert torch.get_num_threads() == threads and all(row["subject"] == "training" for row in found)
    assert [(row["bits"], row["met"]) for row in found] == [
        (32, True), (32, False), (64, None), (64, None), (32, None), (32, None), (32, None),
    ]  # fmt: skip
    assert ["reason" in row for row in found] == [False] * 5 + [True] * 2
    for row in found[:5]:
        assert row["difference"] < (1e-12 if row["bits"] == 64 else 1e-2)
        assert row["spread"][0] <= row["ratio"] <= row["spread"][1] and torch.__version__ in row["peer"]
        assert row["share"] > 0 and row["limit"] > 0


def test_the_full_sizes_are_those_that_are_required():
    standard, _, small = training.FULL.cohorts
    assert (standard.devices, standard.samples, standard.batch, standard.net.sizes) == (38, 100, 20, (2, 256, 128, 1))
    assert standard.bars == {("loop", 32): 1.7, ("mapped", 32): 1.2} and small.bars == {("loop", 32): 15.0}
    assert (training.FULL.devices, training.FULL.images, training.FULL.cnn) == (15, 4000, 1.5)
