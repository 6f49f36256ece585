"""A plan: powers, switch and receiver noise from a reference run, written into the study that then
runs."""

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, fixture, mark, raises
from refused import catch_line, read_cases

from fl.power.bound import Convergence, PowerLoss, Trajectory
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.folder import read_json, read_record_table
from scenarios.app.run.runner import plan_study
from scenarios.app.study.load import load, parse_value

SHORT = {"learning.rounds": 8, "learning.data.samples": 24, "vary": None}
RNG = Streams(1).derive_rng("plan")


@fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# -- the receiver's noise


@mark.parametrize("criterion", ["per-device", "aggregate"])
def test_noise_is_calibrated_to_the_switch(criterion):
    """Requirements that fall: any switch can be had, and a hair less noise has a later one."""
    g = np.random.default_rng(0)
    std = np.linspace(1.0, 0.1, 20)[:, None] * np.linspace(0.8, 1.2, 5)
    result = Trajectory(std, np.full((20, 5), 0.2), np.tile(g.uniform(1, 3, 5), (20, 1)), 0.01)
    power_w = g.uniform(0.05, 0.2, 5)
    for switch in (1, 10, 19):
        factor = PowerLoss(result, Convergence(), criterion).find_noise_factor(power_w, switch)
        index = [
            PowerLoss(result.scale_noise(f), Convergence(), criterion).find_switch(power_w[None])[0]
            for f in (factor, 0.99 * factor)
        ]
        assert index[0] == switch < index[1]


def test_a_moving_channel_is_calibrated_round_by_round():
    g = np.random.default_rng(1)
    std = np.linspace(1, 0.1, 12)[:, None] * np.ones(3)
    gain = g.uniform(0.5, 2, (12, 3))
    result = Trajectory(std, np.full((12, 3), 1 / 3), gain, 0.01)
    objective = PowerLoss(result, Convergence(), "per-device")
    factor = objective.find_noise_factor(np.full(3, 0.1), 6)
    brought = result.scale_noise(factor).channel_std / np.sqrt(0.1)
    assert (brought[6:] >= std[6:]).all()
    assert (brought[6:] / std[6:]).min() == approx(1.0)


def test_what_cannot_be_calibrated_is_refused():
    silent = Trajectory(np.zeros((4, 2)), np.full((4, 2), 0.5), np.ones((4, 2)), 0.1)
    with raises(ValueError, match="nothing to switch"):
        PowerLoss(silent, Convergence()).find_noise_factor(np.ones(2), 2)


# -- in a study


def test_a_plan_is_written_into_the_study_and_played(tmp_path, out):
    study = load("lapa/noise-control", SHORT | {"plan.power": "plateaus"})
    summary = run(study, out)
    report = read_json(out / "plan.json")
    links = read_record_table(out, "links")
    figures = read_record_table(out, "metrics")
    for k, watts in enumerate(report["power_w"]):
        assert_allclose(links["power_w"][links["ue"] == k], watts)
    assert max(report["power_w"]) <= 10 ** (23 / 10 - 3)  # which is a little less than 0.2 W
    assert report["objective"] <= report["own_objective"]
    assert report["own_total_w"] == approx(0.825)
    assert summary["plan.switch_round"] == report["switch_round"]
    assert 0 < report["own_switch_round"] < 8
    share = figures["value"][figures["name"] == "artificial_percent"]
    assert_allclose(share, np.where(np.arange(1, 9) <= report["switch_round"], 100.0, 0.0))
    assert summary["metric.noise-switch.switch_round.last"] == report["switch_round"]
    noise = np.median(links["noise_std"] * np.sqrt(10 ** (links["sinr_db"] / 10)))
    assert noise == approx(0.5 / np.sqrt(2410), rel=1e-6)
    again = plan_study(study, tmp_path / "cache/netsim")  # from the cache: the same plan
    assert_allclose(again.study.power.each_w, report["power_w"], rtol=1e-8)
    assert again.report["reference"] == report["reference"]
    assert again.study.plan is None
    assert again.study.learning.defenses[1].until_round == report["switch_round"]


def test_ddpg_learns_powers_below_the_bound_of_the_average(tmp_path):
    study = load("lapa/noise-control", SHORT | {"plan.power": "ddpg", "plan.steps": 60})
    message = plan_study(study, tmp_path).report
    assert message["evaluations"] == 61
    assert message["objective"] < message["own_objective"]
    limits = study.plan.limits
    item = message["power_w"]
    assert limits.total_min_w <= message["total_w"] * (1 + 1e-9)
    assert message["total_w"] <= limits.total_max_w * (1 + 1e-9)
    assert min(item) >= limits.each_min_w * (1 - 1e-9)
    assert max(item) <= limits.each_max_w * (1 + 1e-9)
    assert "power plateaus learns nothing; leave steps out" in catch_line(
        load, "lapa/noise-control", SHORT | {"plan.power": "plateaus", "plan.steps": 60}
    )
    best = plan_study(
        load("lapa/noise-control", SHORT | {"plan.power": "plateaus"}), tmp_path
    ).report
    assert best["objective"] <= message["objective"]


UNPLANNED = """
plan: null
    has no round; give until_round, or a plan
plan.criterion: top-up
    take power: evolution
plan: {criterion: top-up, power: evolution}
    with top-up nothing switches
world.radio.uplink.interference: all
    interference: none
world.radio.uplink: {kind: ideal}
    set kind: noma
plan.switch_share: 1.5
    must be above 0 and below 1
"""


@mark.parametrize("changes, message", read_cases(UNPLANNED))
def test_what_cannot_be_planned_is_refused_at_load(changes, message):
    changes = SHORT | parse_value(f"{{{changes}}}")
    assert message in catch_line(load, "lapa/noise-control", changes)
