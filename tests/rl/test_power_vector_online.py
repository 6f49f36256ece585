"""Many live worlds in one process: recorded rounds, or worlds stepped in turn."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from netsim.errors import BadInput
from rl.env import RecordedPower
from rl.problem import as_action
from rl.recording import look_now
from rl.rules import untuned
from scenarios import load
from scenarios.app.training.environments import online, onlines

SHORT = {"world.duration_s": 240}
OBSERVED = ("noise", "lost", "leak", "energy_j", "t_th", "power_w", "world")


@pytest.fixture(
    scope="module",
    params=[("power/city", {}), ("power/city", {"learning.participation": 0.5, "learning.sampling": "poisson"}),
            ("power/pedestrians", {})],
    ids=["city", "some take part", "pedestrians"],
)  # fmt: skip
def study(request):
    name, changes = request.param
    return load(name, SHORT | changes)


def by_the_rule(env):
    """The action that worlds are recorded with."""
    power_w = untuned("fractional").power_w(look_now(env))[0]
    return as_action(power_w, env.task.limits).astype(np.float32)


def test_at_the_recorded_powers_everything_is_as_live(study):
    """Over two episodes, the reset between them included: the same worlds, observations, rewards and figures."""
    mine = onlines(2, study)
    assert all(isinstance(env, RecordedPower) for env in mine.envs)
    live = gymnasium.vector.SyncVectorEnv([lambda: online(study)] * 2)
    seen, info = mine.reset(seed=3)
    wanted, said = live.reset(seed=3)
    np.testing.assert_array_equal(seen, wanted)
    assert info["world"].tolist() == said["world"].tolist()
    for s in range(8):
        over = [env.unwrapped.over for env in live.envs]
        action = np.array([np.zeros(e.unwrapped.n_ue) if e.unwrapped.over else by_the_rule(e.unwrapped)
                           for e in live.envs], dtype=np.float32)  # fmt: skip
        seen, reward, terminated, truncated, info = mine.step(action)
        wanted, paid, ended, cut, said = live.step(action)
        np.testing.assert_allclose(seen, wanted, atol=1e-6)
        np.testing.assert_allclose(reward, paid, rtol=1e-9, atol=1e-12)
        assert (terminated.tolist(), truncated.tolist()) == (ended.tolist(), cut.tolist())
        assert over == [s == 4] * 2
        for name in OBSERVED:
            np.testing.assert_allclose(info[name], said[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_worlds_are_recorded_once_and_begin_again():
    mine = onlines(2, load("power/city", {"world.duration_s": 120}), worlds=4)
    _, info = mine.reset(seed=0)
    worlds = [info["world"].tolist()]
    for _ in range(2):
        for _ in range(3):
            *_, info = mine.step(np.zeros(mine.action_space.shape))
        worlds.append(info["world"].tolist())
    assert worlds[2] == worlds[0] and len(set(worlds[0] + worlds[1])) == 4


def test_observations_stand_where_the_manual_says(study):
    env = online(study)
    env.reset(seed=0)
    seen, *_ = env.step(by_the_rule(env))
    k, now, task = env.n_ue, env.now, env.task
    there = now.snr_per_w > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [
            now.snr_per_w * task.limits.each_max_w,
            (now.scale / now.required_std) ** 2,
            now.snr_per_w * env.last_w,
        ]
        levels = np.clip([np.where(there & np.isfinite(x), 10 * np.log10(x) / 40, 0.0) for x in ratios], -1, 1)
    drawn = there & (now.drawn_std > 0)
    of_all = [2 * now.budget_left - 1, 2 * now.progress - 1]
    assert len(seen) == 5 * k + 2
    np.testing.assert_allclose(seen, np.concatenate([there, *levels, drawn, of_all]), atol=1e-6)


def test_the_least_integers_are_no_actions_live_or_recorded(study):
    for make in (online, lambda study: onlines(1, study)):
        env = make(study)
        env.reset(seed=0)
        for kind in (np.int8, np.int64):
            with pytest.raises(ValueError, match=r"action: -\S+ at 0 is outside; give \d+ finite numbers"):
                env.step(np.full(env.action_space.shape, np.iinfo(kind).min, kind))
        env.close()


@pytest.mark.parametrize("name", ["PowerAllocation", "OnlinePower"])
def test_a_scenario_without_a_task_says_so_and_no_render_mode_is_taken(name, study):
    made = partial(gymnasium.make, f"rl:netsim/{name}-v0")
    with pytest.raises(BadInput, match="has no `train:` section, so there is nothing to learn; see power/paper"):
        made(scenario="city")
    for many in ({}, {"vectorization_mode": "vector_entry_point"}):
        if name == "OnlinePower":
            make = partial(gymnasium.make_vec, "rl:netsim/OnlinePower-v0", num_envs=1, **many) if many else made
            make(scenario=study, render_mode=None).close()
    with pytest.raises(TypeError, match="render_mode: 'human'; the environment draws nothing, leave it out"):
        made(scenario=study, render_mode="human")


def test_what_cannot_be_recorded_is_refused(tmp_path):
    leaking = load("power/city", SHORT | {"train.task.reward.leakage": 1, "train.agent": {"kind": "ddpg"}})
    with pytest.raises(BadInput, match=r"train.task.reward.leakage: .*take vectorization_mode='sync'"):
        onlines(2, leaking, tmp_path)
    for bad in ("2", True, 0, 10_001):
        with pytest.raises(BadInput, match=r"worlds: .*take 1 to 10,000"):
            onlines(2, load("power/city", SHORT), tmp_path, worlds=bad)
    with pytest.raises(BadInput, match="num_envs: 0"):
        onlines(0, load("power/city", SHORT), tmp_path)
    assert not list(tmp_path.iterdir())
