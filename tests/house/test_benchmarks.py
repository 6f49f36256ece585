"""The benchmarks: their rows say everything, with and without the simulators that they compare with."""

import json
import sys
from importlib import util

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import peers, world

FIELDS = {"subject", "work", "ours", "unit", "peer", "theirs", "ratio", "bar", "met"}
TINY = command.Plan(
    against={(2, 5): {"crrm": 1e-9, "aimm": 1e9, "mobile-env": None}}, ladder=((2, 10), (2, 20)), memory=(2, 20)
)
MODULES = ["CRRM", "AIMM_simulator", "mobile_env"]


@pytest.fixture
def in_process(monkeypatch):
    """Everything here and now: another process costs a second."""
    monkeypatch.setattr(world, "alone", lambda n_bs, n_ue, seconds: {"ms": 1.0, "build_s": 0.0, "peak_gb": 0.1})
    monkeypatch.setitem(command.PLANS, "small", TINY)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound


def rows(capsys):
    command.main(["world", "--seconds", "0.01", "--sizes", "small"])
    said = capsys.readouterr()
    assert "numpy" in said.err
    found = [json.loads(line) for line in said.out.splitlines()]
    assert all(set(row) >= FIELDS for row in found)
    assert all(row["ours"] is not None and row["subject"] == "world" for row in found)
    return found


def test_without_peers_every_row_is_there_with_a_reason(monkeypatch, capsys, in_process):
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, None)
    found = rows(capsys)
    missing = [row for row in found if row["peer"] is not None]
    assert [row["peer"] for row in missing] == ["CRRM", "AIMM-simulator", "mobile-env"]
    for row in missing:
        assert row["theirs"] is None and row["ratio"] is None and row["met"] is None
        assert "not installed" in row["reason"]
    assert [row["unit"] for row in found if row["peer"] is None] == ["ms", "ms", "exponent", "GB"]
    assert found[-1]["met"] is True and found[-1]["bar"] == world.MEMORY_BAR_GB


def test_with_peers_the_ratio_decides(monkeypatch, capsys, in_process):
    monkeypatch.setattr(peers, "version", lambda package: "1.0")
    monkeypatch.setattr(
        peers, "PEERS", {key: (name, lambda n_bs, n_ue: lambda: None) for key, (name, _) in peers.PEERS.items()}
    )
    crrm, aimm, mobile_env = (row for row in rows(capsys) if row["peer"] is not None)
    assert crrm["peer"] == "CRRM 1.0" and crrm["met"] is True and aimm["met"] is False and mobile_env["met"] is None
    assert crrm["theirs"] < crrm["ours"] and 0 < crrm["ratio"] < 1
    assert "reason" not in crrm


def test_a_peer_that_fails_costs_its_row_only(monkeypatch):
    def broken(n_bs, n_ue):
        print("noise")
        raise ValueError("no such cell")

    monkeypatch.setitem(peers.PEERS, "crrm", ("CRRM", broken))
    assert peers.start("crrm", 2, 5) == ("CRRM", None, "ValueError: no such cell")


@pytest.mark.parametrize("peer", [*peers.PEERS])
def test_the_peers_tick(peer, capsys):
    if util.find_spec(MODULES[[*peers.PEERS].index(peer)]) is None:
        pytest.skip(f"{peer} is not installed: pip install 'netsim-fl[bench]'")
    name, tick, reason = peers.start(peer, 2, 5)
    assert reason is None and name.split()[-1][0].isdigit()
    tick()
    tick()
    assert capsys.readouterr().out == ""  # standard output is for rows


def test_everybody_moves_measures_and_sends_every_tick():
    ours = world.Ours(3, 8)
    before = ours.world.position_m().copy()
    for _ in range(2):
        sinr, channel = ours.tick()
        after = ours.world.position_m().copy()
        assert (np.linalg.norm(after - before, axis=1) > 0.1).all()
        before = after
    assert sinr.shape == (3 + 5, 3) and (sinr > 0).all() and np.isfinite(sinr).all()
    assert (channel.sinr > 0).all() and channel.decoded.all()
    links = ours.world.links()
    assert links.los.any() and not links.los.all()  # by probability


def test_sites_lie_in_the_area():
    for n_bs in (1, 2, 5, 20, 50):
        sites = world.sites_m(n_bs)
        assert len(np.unique(sites, axis=0)) == n_bs
        assert (sites > 0).all() and (sites < world.area_m(n_bs)).all()


def test_growth_is_a_slope_of_logarithms():
    assert world.exponent([1, 2, 4], [3.0, 6.0, 12.0]) == pytest.approx(1.0)
    assert world.exponent([1, 10], [1.0, 100.0]) == pytest.approx(2.0)


def test_one_size_in_a_process_of_its_own():
    found = world.alone(2, 5, 0.01)
    assert found["ms"] > 0 and 0.02 < found["peak_gb"] < 2 and found["build_s"] > 0
