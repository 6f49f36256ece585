"""Many environments of the study's problem in one process, and what a reset may be asked for."""

import copy
import pickle
import re

import gymnasium
from numpy import (
    clip,
    concatenate,
    exp,
    full,
    int64,
    log,
    sqrt,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from power_problems import allocation, problem
from pytest import mark, raises

from fl.power.search import Limits
from rl.env import PowerAllocation


def channels(n, **kw):
    values = problem(**kw)
    g = default_rng(0)
    return [values.with_gain(exp(g.normal(0, 0.7, 6))) for _ in range(n)]


def test_many_are_made_by_name(tmp_path):
    from scenarios import load

    short = {"world.duration_s": 240, "learning.data.samples": 20}
    name = "rl:netsim/PowerAllocation-v0"
    kw = {"scenario": load("power/paper", short), "cache": tmp_path}
    envs = gymnasium.make_vec(name, num_envs=3, vectorization_mode="sync", **kw)
    assert len(list(tmp_path.iterdir())) == 1  # a cache for all
    assert envs.num_envs == 3
    assert all(isinstance(env.unwrapped, PowerAllocation) for env in envs.envs)
    single = gymnasium.make(name, **kw)
    assert (envs.single_action_space, envs.single_observation_space) == (
        single.action_space,
        single.observation_space,
    )
    assert str(pickle.loads(pickle.dumps(single)).reset(seed=3)) == str(single.reset(seed=3))
    seen, _ = envs.reset(seed=3)
    assert_array_equal(seen[2], single.reset(seed=5)[0])


@mark.parametrize(
    "options, message",
    [
        *(({"power": x}, f"reset: power {x!r}; give 'average'") for x in ("averge", None)),
        *(
            ({"draw": x}, f"reset: draw {x!r}; give an integer from 0 to 4")
            for x in (1.0, True, -1, 5, "1")
        ),
        ({"powr": 1}, "reset: no option 'powr'; there is draw and power"),
        *(
            (x, f"reset: options {x!r}; give a dict of draw and power, or None")
            for x in (5, 0, [], "draw")
        ),
    ],
)
def test_options_of_a_reset_are_looked_at_before_anything_changes(options, message):
    env = allocation(channels(5))
    second = allocation(channels(5))
    for entry in (env, second):
        entry.reset(seed=0, options={"draw": int64(3), "power": "average"})
    with raises(ValueError, match=re.escape(message)):
        env.reset(seed=1, options=options)
    assert_array_equal(env.reset(options={})[0], second.reset()[0])


def test_observations_stand_where_the_manual_says():
    p = problem(observe="channel")
    seen = p.observe_outcome(p.start)
    t = p.objective.trajectory
    limits = p.limits
    assert len(seen) == 3 * 6 + 7
    span = log(limits.each_max_w / limits.each_min_w)
    assert_allclose(seen[:6], 2 * log(p.start.power_w / limits.each_min_w) / span - 1, rtol=1e-5)
    assert_allclose(seen[6:8], [2 * p.start.switch / 30 - 1, 0.0], rtol=1e-5)
    brought = t.channel_std / sqrt(p.start.power_w)
    place = [2, 8, 14, 20, 26]  # 10, 30, 50, 70 and 90 % of 30 rounds
    expected = [
        log(t.gain.mean(axis=0) * limits.each_max_w),
        log(brought.mean(axis=0) / t.std.mean(axis=0)),
        log(brought.sum(axis=1) / t.std.sum(axis=1))[place],
    ]
    assert_allclose(seen[8:], clip(concatenate(expected) / 3, -1, 1), rtol=1e-5)


@mark.parametrize("a", [-1.0, 0.0, 0.5, 1.0])
def test_an_action_means_the_power_that_the_manual_says(a):
    free = Limits(each_min_w=1e-4, each_max_w=0.2, total_min_w=0.0, total_max_w=100.0)
    p = problem(limits=free)
    assert_allclose(p.act(full(6, a)).power_w, 1e-4 * 2000 ** ((a + 1) / 2))


def test_of_one_channel_only_that_one_can_be_asked_for():
    with raises(ValueError, match="reset: draw 1; give 0, the only one"):
        allocation().reset(options={"draw": 1})


@mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_as_the_environment_itself_and_infos_have_equal_keys(copied):
    env = allocation(channels(5, observe="channel"))
    keys = env.reset(seed=0)[1].keys()
    action = full(env.action_space.shape, 0.3)
    assert env.step(action)[4].keys() == keys
    second = copied(env)
    for _ in range(2):
        for single, two in zip(env.step(action), second.step(action), strict=True):
            assert_equal(single, two)
        assert_equal(env.reset(), second.reset())
