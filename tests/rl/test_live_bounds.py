"""Bounds on means over rounds in the live world: least leakage subject to the map's error and joules."""

import numpy as np
import pytest
from power_problems import ONLINE, kept_course

from rl.reward import FIGURES, priced
from rl.settings import DdpgAgent

gymnasium = pytest.importorskip("gymnasium")
ATTACKS = [{"kind": "closed-form", "cloud": False}]
REWARD = {"kind": "constrained", "minimise": "leakage", "leakage_within_m": 300.0,
          "at_most": {"loss": 5.0, "energy_j": 1e-6}}  # fmt: skip
CHANGES = ONLINE | {
    "learning.attacks": ATTACKS, "train": {"task": {**ONLINE["train"]["task"], "reward": REWARD}}
}  # fmt: skip
QUICK = DdpgAgent(learning_starts=6, batch_size=4, hidden=(8,))


@pytest.fixture
def env(tiny):
    return live(tiny)


def live(tiny):
    from scenarios.app.training.environments import online

    return online(tiny(CHANGES))


class Stopped(Exception):
    """In the middle of a training."""


def learnt(env, folder, stop_at=None, steps=24):
    from rl.agents import DdpgTraining

    folder.mkdir(exist_ok=True)

    def tell(point, last):
        if stop_at is not None and point.step >= stop_at:
            raise Stopped

    training = DdpgTraining(env, QUICK, steps, 3)
    return training, kept_course(training, lambda w: float(w["0.weight"].sum()), 4, folder / "c.npz", tell)


def test_transitions_are_paid_at_the_present_prices(env, tmp_path):
    training, course = learnt(env, tmp_path)
    buffer, reward = training.buffer, env.task.reward
    figures = dict(zip(FIGURES, buffer.figures[: buffer.filled].T, strict=True))
    assert buffer.filled == 24 and np.isfinite(buffer.figures[:24]).all()
    np.testing.assert_allclose(buffer.rewards[:24, 0], -figures["leakage"], rtol=1e-6)
    cost = priced(reward, figures, buffer.prices.multipliers)
    assert not np.allclose(cost, figures["leakage"])
    drawn = buffer.sample(64)
    paid = {tuple(row): -c for row, c in zip(buffer.actions[:24, 0].tolist(), cost, strict=True)}
    wanted = [paid[tuple(row)] for row in drawn.actions.tolist()]
    np.testing.assert_allclose(drawn.rewards[:, 0], wanted, rtol=1e-6)
    assert course.curve[0].multipliers == () and len({p.multipliers for p in course.curve}) > 3
    assert course.curve[-1].multipliers == tuple(buffer.prices.multipliers)


def test_prices_follow_the_means_of_the_last_episode(env, tmp_path):
    buffer = learnt(env, tmp_path, steps=1)[0].buffer
    buffer.pos = 0
    for episode, loss in enumerate((9.0, 4.0)):
        for step in range(4):
            buffer.figures[buffer.pos] = [0.0, loss + step / 10, step / 4, 0.0, 0.0, 0.0, 2e-6]
            buffer.pos = 4 * episode + step + 1
        buffer.raise_prices(4)
    leakage, losses = np.tile(np.arange(4) / 4, 2), np.repeat([9.0, 4.0], 4) + np.tile(np.arange(4) / 10, 2)
    first = np.std(leakage[:4]) / np.std(losses[:4])
    below = (5.0 - losses[4:].mean()) / losses.std()  # in spreads of all so far
    multipliers = buffer.prices.multipliers
    assert multipliers[0] == pytest.approx(first - 0.1 * below * leakage.std() / losses.std())
    assert multipliers[1] > np.std(leakage[:4]) / 1e-8  # too many joules: above where it began


def test_it_goes_on_where_it_was_to_the_bit(tiny, tmp_path):
    whole, course = learnt(live(tiny), tmp_path / "whole")
    with pytest.raises(Stopped):
        learnt(live(tiny), tmp_path / "parts", stop_at=12)
    again, resumed = learnt(live(tiny), tmp_path / "parts")
    np.testing.assert_equal([vars(p) for p in resumed.curve], [vars(p) for p in course.curve])
    np.testing.assert_array_equal(again.buffer.rewards, whole.buffer.rewards)
    np.testing.assert_equal(again.weights(), whole.weights())


def test_a_training_reports_what_recorded_rounds_do_not_tell(tiny, tmp_path):
    """From a study to its summary: mean loss and joules of policies that nobody tuned, beside their bounds."""
    from scenarios.app.training.train import train

    section = {"agent": {"kind": "ddpg", "learning_starts": 4, "batch_size": 4, "hidden": [8]}, "steps": 12,
               "eval_every": 6, "task": {**CHANGES["train"]["task"], "eval_worlds": 1, "held_out": 2}}  # fmt: skip
    (summary,) = train(tiny(CHANGES | {"train": section}), [0], tmp_path / "t", lambda now: None)
    lines = (tmp_path / "t" / "curve.csv").read_text().splitlines()
    assert lines[0].endswith(",multiplier.loss,multiplier.energy_j") and float(lines[-1].split(",")[-1]) > 0
    for name in ("ddpg", "full"):
        rounds = summary[f"policy.{name}.rounds.mean"]
        assert summary[f"bound.{name}.energy_j.mean"] == pytest.approx(summary[f"policy.{name}.energy_j.mean"] / rounds)
        assert summary[f"bound.{name}.loss.mean"] == pytest.approx(summary[f"policy.{name}.loss_mean.mean"])
        assert summary[f"bound.{name}.loss.at_most"] == 5.0
        assert summary[f"policy.{name}.cost.mean"] == pytest.approx(rounds * summary[f"policy.{name}.leakage.mean"])


def test_an_episode_that_time_cuts_off_does_not_end_what_is_worth(env, tmp_path):
    """Its last state still has a value, unlike one after which nothing can come."""
    buffer = learnt(env, tmp_path)[0].buffer
    ends = np.flatnonzero(buffer.dones[: buffer.filled, 0])
    assert len(ends) > 1
    buffer.timeouts[:] = 0.0
    buffer.timeouts[ends[0]] = 1.0
    actions = buffer.actions[: buffer.filled, 0]
    drawn = buffer.sample(400)
    for row, over in zip(drawn.actions.numpy(), drawn.dones[:, 0].tolist(), strict=True):
        step = int((actions == row).all(axis=1).argmax())
        assert over == float(step in ends[1:])
