"""Servers that wait for nobody, with phones of unequal speed: a buffer learns faster than rounds
do."""

import pytest

from scenarios.app.result import run
from scenarios.app.run.sweep import plan_points
from scenarios.app.study.load import load

STUDY = "uploads/stragglers"


@pytest.mark.slow
def test_a_buffer_is_sooner_there_with_fewer_uploads(tmp_path):
    runs = {p.label: p.overrides for p in plan_points(load(STUDY), {}) if p.seed == 1}
    summary = {
        label: run(
            load(STUDY, {**runs[label], "vary": None, "world.duration_s": 1200}),
            tmp_path / label[:5],
        )
        for label in ("FedBuff, 78", "first 60 of 78")
    }
    buffer = summary["FedBuff, 78"]
    rounds = summary["first 60 of 78"]
    assert buffer["reached.70.time_s"] < 0.8 * rounds["reached.70.time_s"]
    assert buffer["reached.70.uploads"] < rounds["reached.70.uploads"]
    assert buffer["uploads.staleness.mean"] > 2
    assert rounds["uploads.staleness.mean"] == 0
    assert rounds["uploads.arrived"] < 0.9 * rounds["uploads.count"]
