"""The episode of a training: what is written is what was judged, and its page plays it round by round."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.report.report import report
from scenarios.app.results.folder import (
    CURVE,
    EPISODE,
    EPISODE_ROUND_COLUMNS,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EPISODE_UE_COLUMNS,
    EVALUATIONS,
    KIND,
    TRAINING,
)
from scenarios.app.results.trainings import TERMS, read_episode
from scenarios.app.training.evaluate import _of_ue

EVIL = "<img src=x onerror=alert(1)>"
POLICIES = ["agent", EVIL]
COSTS = {"agent": [0.5, 1.5, 2.5], EVIL: [0.75, 1.25, 3.0]}


def scene(**changes):
    weights = dict.fromkeys(TERMS, 0.0) | {"noise": 1.0, "leak": 5.0}
    return {
        "world": 5, "policies": POLICIES, "ues": 2, "rounds": 3, "area_m": [0, 0, 100, 50], "limits_w": [1e-6, 0.1],
        "stations": [{"name": EVIL, "at_m": [10, 10]}], "eavesdropper_m": [50, 25], "weights": weights,
        "buildings_m": [[[20, 20], [30, 20], [30, 30]]],
    } | changes  # fmt: skip


def made(folder, **changes):
    """The folder of a training, made up: UE 0 at full power, UE 1 lost in round 2 and silent in round 3."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / TRAINING, {"kind": KIND, "finished": True, "task": "online", "title": "t", "steps": 3,
                                   "seed": 0, "agent": "agent"})  # fmt: skip
    write_json(folder / "summary.json", {"steps.best": 2})
    (folder / CURVE).write_text("step,score,reward,best_reward\n1,2,,\n2,1,,\n")
    heads = "policy,case,cost,t_th,noise,loss,leakage,energy_j,lost,leak,named,epsilon,with_channel,evaluations"
    lines = [f"{name},5,{sum(costs)},3,,,,,,,,,," for name, costs in COSTS.items()]
    (folder / EVALUATIONS).write_text("\n".join([heads, *lines]) + "\n")
    write_json(folder / EPISODE_SCENE, scene(**changes))
    ues, rounds = [",".join(EPISODE_UE_COLUMNS)], [",".join(EPISODE_ROUND_COLUMNS)]
    for name, costs in COSTS.items():
        for n, cost in enumerate(costs, 1):
            ues.append(f"{name},{n},0,10,20,{EVIL},0.1,1,{cost / 2}")
            ues.append(f"{name},{n},1,60,40,{EVIL},{'' if n == 3 else 1e-6},{'' if n == 3 else int(n != 2)},0.1")
            sent, arrived = (1 if n == 3 else 2), (1 if n > 1 else 2)
            rounds.append(f"{name},{n},{cost},{cost - 0.25},,0,0,0.05,0,0.001,1,{sent},{arrived}")
    (folder / EPISODE).write_text("\n".join(ues) + "\n")
    (folder / EPISODE_ROUNDS).write_text("\n".join(rounds) + "\n")
    return folder


def test_it_costs_what_was_judged_and_says_who_sent_with_what(tmp_path):
    """In the live world: sums over rounds are the episode's row, also where UEs are lost, and two writings agree."""
    pytest.importorskip("gymnasium")
    from rl.env import OnlinePower
    from rl.settings import Online
    from scenarios.app.study.load import load
    from scenarios.app.training.environments import Stages, n_ues, task_of
    from scenarios.app.training.evaluate import episode, episode_of, write_episode

    study = load("power/city", {"world.duration_s": 180})
    env = OnlinePower(Stages(study), n_ues(study), task_of(study, Online))
    acts = {
        name: (lambda env, seen, level=level: np.full(12, level))
        for name, level in (("learnt", 0.0), ("weak", -1.0), ("strong", 0.5))
    }
    rows = [episode(env, name, act, 9) for name, act in acts.items()]
    rules = {name: acts[name] for name in ("weak", "strong")}
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_episode(tmp_path / folder, episode_of(env, study, ("learnt", acts["learnt"]), rules, rows))
    for name in (EPISODE, EPISODE_ROUNDS, EPISODE_SCENE):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    read = read_episode(tmp_path / "a")
    costs = {row.policy: row.cost for row in rows}
    assert read.policies == ["learnt", min(rules, key=costs.get)] and read.numbers == [1, 2, 3]
    for name in read.policies:
        assert sum(read.rounds[name, n]["cost"] for n in read.numbers) == pytest.approx(costs[name], rel=1e-7)
        for n in read.numbers:
            terms = [weight * read.rounds[name, n][key] for key, weight in read.scene["weights"].items()]
            assert sum(terms) == pytest.approx(read.rounds[name, n]["cost"], rel=1e-6)
            own = [row for row in read.ues[name, n] if row["power_w"] > 0]
            assert len(own) == read.rounds[name, n]["sent"]
            assert sum(row["arrived"] for row in own) == read.rounds[name, n]["arrived"]
    middle = np.sqrt(2e-6 * 0.2)
    np.testing.assert_allclose([row["power_w"] for row in read.ues["learnt", 2]], middle, rtol=1e-6)


def test_the_page_has_maps_and_escaped_names(tmp_path):
    text = report(made(tmp_path / "t", ues=900)).read_text()
    assert EVIL not in text and "&lt;img src=x" in text
    assert "Of 900 UEs 2 are shown" in text


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (EPISODE, lambda text: text.replace("power_w", "watts"), "has no column 'power_w'"),
        (EPISODE, lambda text: text + "agent,1\n", "as many cells"),
        (EPISODE, lambda text: text.replace("agent,1,0", "agent,7,0"), "other policies or rounds"),
        (EPISODE_ROUNDS, lambda text: text.replace("agent", "other"), "other policies or rounds"),
        (EPISODE_SCENE, lambda text: text.replace('"eavesdropper_m": [', '"eavesdropper_m": ["a", '), "eavesdropper_m"),
        (EPISODE_SCENE, lambda text: "{}", "area_m"),
        (EPISODE_SCENE, lambda text: json.dumps(scene(limits_w=[0, 1])), "limits_w"),
    ],
)
def test_damage_is_one_line(name, change, said, tmp_path):
    path = made(tmp_path / "t") / name
    path.write_text(change(path.read_text()))
    with pytest.raises(BadInput) as refused:
        report(tmp_path / "t")
    assert said in str(refused.value) and "episode" in str(refused.value) and "\n" not in str(refused.value)
    assert str(refused.value).endswith("; train again")


def test_a_browser_goes_through_the_rounds_by_keys(tmp_path, show):
    shown = show(report(made(tmp_path / "t")), width=400)
    shown.wait_for_selector("#episode-stage:not([hidden])")
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert shown.locator("#episode-now").inner_text() == f"Round 1: cost agent 0.5, {EVIL} 0.75"
    assert shown.locator("#episode-ues-0 circle").count() == 2
    small, large = (
        float(shown.locator("#episode-ues-0 circle").nth(k).get_attribute("r")) for k in (1, 0)
    )  # at the least power, and at the most
    assert large > 2 * small
    shown.locator("#episode-round").focus()
    shown.keyboard.press("ArrowRight")
    assert shown.locator("#episode-now").inner_text().startswith("Round 2: cost agent 1.5")
    assert shown.locator("#episode-ues-0 .lost").count() == 1
    assert "1 of 2 arrived" in shown.locator("#episode-terms-0").inner_text()
    shown.keyboard.press("End")
    assert shown.locator("#episode-ues-1 .silent").count() == 1
    shown.keyboard.press("Home")
    assert shown.locator("#episode-ues-0 .lost").count() == 0
    shown.locator("#episode-play").click()
    shown.wait_for_function("document.getElementById('episode-round').value === '2'")


def test_terms_are_those_of_the_reward_whatever_its_kind():
    from rl.reward import FIGURES, Weighted
    from scenarios.app.training.evaluate import _cost_of_one

    assert set(TERMS) == set(FIGURES)
    weighted = Weighted(noise=2, leak=5, energy_per_j=100)
    assert [_cost_of_one(weighted, name) for name in FIGURES] == [2, 0, 0, 0, 5, 0, 100]


@pytest.mark.parametrize(("serving", "station"), [(0, "a"), (1, "b"), (-1, None)])
def test_a_row_names_the_station_that_serves(serving, station):
    cost = SimpleNamespace(own=np.array([0.5]))
    step = SimpleNamespace(round=3, serving=[serving], sent=[True], arrived=[False], position_m=[(1.0, 2.0)],
                           power_w=[0.1], cost=cost)  # fmt: skip
    assert _of_ue("p", step, 0, ["a", "b"]) == ["p", 3, 0, 1.0, 2.0, station, 0.1, False, 0.5]
