"""Many environments of the study's problem in one process: the same numbers as each by itself."""

import copy
import pickle
import re
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from power_problems import allocation, problem

from rl.env_allocations import PowerAllocations
from rl.problem import STEPS


def channels(n, **kw):
    own = problem(**kw)
    g = np.random.default_rng(0)
    return [own.with_gain(np.exp(g.normal(0, 0.7, 6))) for _ in range(n)]


def aside(problems, n):
    """As many single environments, by Gymnasium's own loop."""
    return gymnasium.vector.SyncVectorEnv([lambda: allocation(problems) for _ in range(n)])


def equal(mine, theirs):
    for name, value in theirs.items():
        np.testing.assert_allclose(np.asarray(mine[name], dtype=float), value.astype(float), rtol=1e-9, err_msg=name)


CASES = [
    [problem()], [problem("per-device")], [problem("top-up", observe="channel")], [problem("aggregate", moving=True)],
    [problem("top-up", moving=True)], channels(5, observe="channel"),
    [replace(p, acts="residual") for p in channels(3)],
]  # fmt: skip


@pytest.mark.parametrize(
    "problems", CASES, ids=["sum", "each", "top-up", "moving", "moving top-up", "channels", "residual"]
)
def test_the_numbers_are_those_of_single_environments(problems):
    """Over three episodes and more, resets on the way included."""
    mine, theirs = PowerAllocations(problems, 4), aside(problems, 4)
    g = np.random.default_rng(0)
    for options in (None, {"power": "average"}):
        seen, info = mine.reset(seed=7, options=options)
        wanted, said = theirs.reset(seed=7, options=options)
        np.testing.assert_allclose(seen, wanted, atol=1e-6)
        equal(info, said)
        for _ in range(2 * STEPS + 7):
            action = g.uniform(-1.0, 1.0, (4, 6)).astype(np.float32)
            seen, reward, terminated, truncated, info = mine.step(action)
            wanted, paid, ended, cut, said = theirs.step(action)
            np.testing.assert_allclose(seen, wanted, atol=1e-6)
            np.testing.assert_allclose(reward, paid, rtol=1e-9, atol=1e-12)
            assert (terminated.tolist(), truncated.tolist()) == (ended.tolist(), cut.tolist())
            equal(info, said)
    again, _ = mine.reset()
    np.testing.assert_allclose(again, theirs.reset()[0], atol=1e-6)


def test_it_is_made_by_name_and_says_how_it_resets(tmp_path):
    from scenarios import load

    short = {"world.duration_s": 240, "learning.data.samples": 20}
    name, kw = "rl:netsim/PowerAllocation-v0", {"scenario": load("power/paper", short), "cache": tmp_path}
    envs = gymnasium.make_vec(name, num_envs=16, vectorization_mode="vector_entry_point", **kw)
    assert isinstance(envs, PowerAllocations) and envs.num_envs == 16
    assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    one = gymnasium.make(name, **kw)
    assert (envs.single_action_space, envs.single_observation_space) == (one.action_space, one.observation_space)
    assert str(pickle.loads(pickle.dumps(one)).reset(seed=3)) == str(one.reset(seed=3))
    envs.reset(seed=3)
    seen, *_ = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(seen) and seen.dtype == np.float32


def test_a_bad_action_is_refused_and_no_environment_steps():
    envs = PowerAllocations([problem()], 3)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros((3, 6)))
    envs.reset(seed=0)
    bad = np.zeros((3, 6))
    bad[1, 2] = np.nan
    with pytest.raises(ValueError, match="number 2 is nan"):
        envs.step(bad)
    with pytest.raises(ValueError, match=r"shape \(3, 6\)"):
        envs.step(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="not numbers"):
        envs.step([["a"] * 6] * 3)
    assert envs.steps.tolist() == [0, 0, 0]
    for _ in range(STEPS):
        envs.step(np.zeros((3, 6)))
    assert envs.step(bad)[1].tolist() == [0.0] * 3  # new episodes begin: actions are ignored


@pytest.mark.parametrize(
    ("seed", "said"), [("12", "'12' is no integer"), (1.5, "1.5 is no integer"), (-1, "-1; give integers"),
                       (True, "True is no integer"), ([0, True, 1], "True; give integers"), ([0, 1], "2 seeds")]
)  # fmt: skip
def test_a_bad_seed_is_refused(seed, said):
    with pytest.raises(ValueError, match=said):
        PowerAllocations([problem()], 3).reset(seed=seed)


@pytest.mark.parametrize("make", [allocation, lambda of: PowerAllocations(of, 2)], ids=["one", "two"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(({"power": x}, f"reset: power {x!r}; give 'average'") for x in ("averge", None, True, 0, ["average"])),
        *(({"draw": x}, f"reset: draw {x!r}; give an integer from 0 to 4") for x in (5.7, 1.0, True, -1, 5, None, "1")),
        ({"powr": 1}, "reset: no option 'powr'; there is draw and power"),
        ({"draw": 0, 1: 2}, "reset: no option 1; there is draw and power"),
        ([("draw", 1)], "reset: options [('draw', 1)]; give a mapping with draw and power, or None"),
        ("draw", "reset: options 'draw'; give a mapping"),
    ],
)  # fmt: skip
def test_options_of_a_reset_are_looked_at_before_anything_changes(make, options, said):
    env, other = make(channels(5)), make(channels(5))
    for each in (env, other):
        each.reset(seed=0, options={"draw": np.int64(3), "power": "average"})
    with pytest.raises(ValueError, match=re.escape(said)):
        env.reset(seed=1, options=options)
    np.testing.assert_array_equal(env.reset(options={})[0], other.reset()[0])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("make", [allocation, lambda of: PowerAllocations(of, 2)], ids=["one", "two"])
def test_a_copy_goes_on_as_the_environment_itself_and_infos_have_equal_keys(make, copied):
    env = make(channels(5, observe="channel"))
    keys, action = env.reset(seed=0)[1].keys(), np.full(env.action_space.shape, 0.3)
    assert env.step(action)[4].keys() == keys
    other = copied(env)
    for _ in range(2):
        for one, two in zip(env.step(action), other.step(action), strict=True):
            np.testing.assert_equal(one, two)
        np.testing.assert_equal(env.reset(), other.reset())


def test_what_was_returned_stays_as_it_was():
    envs = PowerAllocations([problem()], 3)
    first, info = envs.reset(seed=0)
    kept = first.copy(), info["objective"].copy(), info["draw"].copy()
    for _ in range(STEPS + 1):
        envs.step(np.zeros((3, 6)))
    assert all(np.array_equal(a, b) for a, b in zip(kept, (first, info["objective"], info["draw"]), strict=True))


def test_problems_differ_in_their_channels_only():
    with pytest.raises(ValueError, match="more than their channels"):
        PowerAllocations([problem(), problem("top-up")], 2)
    with pytest.raises(ValueError, match="more than their channels"):
        PowerAllocations([problem(), problem(seed=1)], 2)
    moves = problem(moving=True)
    with pytest.raises(ValueError, match="some not"):
        PowerAllocations([moves, moves.with_gain(np.ones(6))], 2)
    with pytest.raises(ValueError, match="num_envs: 0"):
        PowerAllocations([problem()], 0)
    envs = PowerAllocations(channels(2), 2)
    with pytest.raises(ValueError, match="draw 2"):
        envs.reset(options={"draw": 2})
    with pytest.raises(ValueError, match="3 seeds"):
        envs.reset(seed=[1, 2, 3])
