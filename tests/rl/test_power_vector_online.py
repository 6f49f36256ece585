"""The live world as an environment: what it shows, what it refuses, many in one process."""

from functools import partial

import gymnasium
from numpy import (
    clip,
    concatenate,
    errstate,
    float32,
    full,
    iinfo,
    int8,
    int64,
    isfinite,
    log10,
    where,
)
from numpy.testing import assert_allclose, assert_array_equal
from pytest import fixture, mark, raises

from netsim.errors import BadInput
from rl.problem import convert_to_action
from rl.recording import observe_next_round
from rl.rules import build_rule
from scenarios import load
from scenarios.app.training.environments import make_online

SHORT = {"world.duration_s": 240}


@fixture(
    scope="module",
    params=[
        ("power/city", {}),
        ("power/city", {"learning.participation": 0.5, "learning.sampling": "poisson"}),
        ("power/pedestrians", {}),
    ],
    ids=["city", "some take part", "pedestrians"],
)
def study(request):
    name, changes = request.param
    return load(name, SHORT | changes)


def by_the_rule(env):
    """The action that worlds are recorded with."""
    power_w = build_rule("fractional").power_w(observe_next_round(env))[0]
    return convert_to_action(power_w, env.task.limits).astype(float32)


def test_observations_stand_where_the_manual_says(study):
    env = make_online(study)
    env.reset(seed=0)
    seen, *_ = env.step(by_the_rule(env))
    k = env.n_ue
    context = env.context
    task = env.task
    is_present = context.snr_per_w > 0
    with errstate(divide="ignore", invalid="ignore"):
        ratios = [
            context.snr_per_w * task.limits.each_max_w,
            (context.scale / context.required_std) ** 2,
            context.snr_per_w * env.last_w,
        ]
        levels = clip(
            [where(is_present & isfinite(x), 10 * log10(x) / 40, 0.0) for x in ratios],
            -1,
            1,
        )
    drawn = is_present & (context.drawn_std > 0)
    of_all = [2 * context.budget_left - 1, 2 * context.progress - 1]
    assert len(seen) == 5 * k + 2
    assert_allclose(seen, concatenate([is_present, *levels, drawn, of_all]), atol=1e-6)


def test_the_least_integers_are_no_actions(study):
    env = make_online(study)
    env.reset(seed=0)
    for kind in (int8, int64):
        with raises(ValueError, match=r"action: -\S+ at 0 is outside; give \d+ finite numbers"):
            env.step(full(env.action_space.shape, iinfo(kind).min, kind))


@mark.parametrize("name", ["PowerAllocation", "OnlinePower"])
def test_a_scenario_without_a_task_says_so_and_no_render_mode_is_taken(name, study):
    built = partial(gymnasium.make, f"rl:netsim/{name}-v0")
    with raises(
        BadInput, match="has no `train:` section, so there is nothing to learn; see power/paper"
    ):
        built(scenario="city")
    if name == "OnlinePower":
        built(scenario=study, render_mode=None).close()
        envs = gymnasium.make_vec(
            "rl:netsim/OnlinePower-v0", 2, vectorization_mode="sync", scenario=study
        )
        seen, _ = envs.reset(seed=3)
        assert_array_equal(seen[1], make_online(study).reset(seed=4)[0])
    with raises(
        TypeError, match="render_mode: 'human'; the environment draws nothing, leave it out"
    ):
        built(scenario=study, render_mode="human")
