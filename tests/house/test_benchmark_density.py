"""The maps' benchmark: its rows say everything, and peers compute the same sum."""

import json

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import density

FIELDS = {"subject", "work", "ours", "unit", "peer", "theirs", "ratio", "bar", "met"}


def test_every_row_is_there_and_the_bars_decide(monkeypatch, capsys):
    tiny = density.Bench(
        50, 60, parts=100, waves_s=1e9, peers={"scipy": 1e9, "scikit-learn": 1e9}, many_s=1e-9, many_mb=1e9
    )
    monkeypatch.setitem(command.PEOPLE, "small", tiny)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    command.main(["density", "--seconds", "0", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(row) >= FIELDS and row["subject"] == "density" for row in found)
    assert [row["met"] for row in found] == [True, None, False, False, False, True]
    assert [row["unit"] for row in found] == ["s", "s", "ms", "ms", "s", "MB"]
    assert [row["peer"].split()[0] for row in found if row["peer"]] == ["scipy", "scikit-learn"]
    assert all(row["error"] < 1e-7 for row in found if row["peer"])


def test_the_full_size_is_the_one_that_has_bars():
    full = command.PEOPLE["full"]
    assert (full.ues, full.many, full.waves_s, full.peers, full.many_s, full.many_mb) == (
        20_000, 1_000_000, 0.3, {"scipy": 60.0, "scikit-learn": 120.0}, 20.0, 500.0,
    )  # fmt: skip


@pytest.mark.parametrize("make", list(density.PEERS.values()))
def test_peers_agree_with_the_definition(make):
    x, at = density.places_m(30), density.grid_m()[::97]
    away = ((at[:, None] - x) ** 2).sum(axis=-1)
    want = np.exp(-away / (2 * density.BANDWIDTH_M**2)).mean(axis=1)
    assert make(x)(at) == pytest.approx(want, abs=1e-8)
    assert density.exact(x)[::97] == pytest.approx(want, abs=1e-13)
