"""The live world as a PettingZoo environment: one agent a UE, absent ones masked, and the same rounds as for one."""

import numpy as np
import pytest
from power_problems import ONLINE

pytest.importorskip("pettingzoo")

REWARD = {"noise": 1.0, "loss": 0.5, "leakage": 2.0, "leakage_within_m": 300.0, "energy_per_j": 1000.0}
PAID = {"train": {"task": {**ONLINE["train"]["task"], "reward": REWARD}}}


def agents(tiny, changes=None, **kw):
    from scenarios.app.training.environments import parallel_env

    return parallel_env(tiny(ONLINE | (changes or {})), **kw)


def walk(env, seed=0):
    """All that a random walk to the end returns."""
    steps, g = [env.reset(seed=seed)], np.random.default_rng(seed)
    while env.agents:
        steps.append(env.step({a: g.uniform(-1, 1, 1).astype(np.float32) for a in env.agents}))
    return steps


def test_the_checkers_of_the_library_find_nothing(tiny):
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    parallel_api_test(agents(tiny), num_cycles=30)
    parallel_seed_test(lambda: agents(tiny), num_cycles=30)


def test_agents_together_are_the_one_agent(tiny):
    """The same actions in the same world: the same reward, figures and numbers seen, to the bit."""
    from scenarios.app.training.environments import online

    one, many = online(tiny(ONLINE | PAID)), agents(tiny, PAID)
    seen, _ = one.reset(seed=3)
    own, _ = many.reset(seed=3)
    g = np.random.default_rng(0)
    while many.agents:
        for k, agent in enumerate(many.possible_agents):
            np.testing.assert_array_equal(own[agent], [*seen[k:15:3], *seen[15:]])
        np.testing.assert_array_equal(many.state(), seen)
        action = g.uniform(-1, 1, 3).astype(np.float32)
        seen, reward, _, over, info = one.step(action)
        own, rewards, _, _, infos = many.step({a: action[k : k + 1] for k, a in enumerate(many.agents)})
        assert set(rewards.values()) == {reward}
        for k, agent in enumerate(many.possible_agents):
            assert infos[agent]["power_w"] == info["power_w"][k] and infos[agent]["noise"] == info["noise"]
    assert over


@pytest.mark.parametrize("options", [5, 0, "world"])
def test_options_that_are_no_dict_are_refused(options, tiny):
    with pytest.raises(ValueError, match=f"reset: options {options!r}; give a dict of world, or None"):
        agents(tiny).reset(options=options)


def test_a_ue_that_is_away_stays_an_agent_whose_action_is_ignored(tiny):
    """One is put out of reach by hand: whatever it says, or says not, the round is the same."""
    from dataclasses import replace

    def away(env):
        gone = env.env.now.snr_per_w.copy()
        gone[1] = 0.0
        env.env.now = replace(env.env.now, snr_per_w=gone)

    found = []
    for said in (None, np.ones(1), np.full(1, np.nan), "nothing"):
        env = agents(tiny)
        env.reset(seed=0)
        away(env)
        actions = {"ue_0": np.zeros(1), "ue_2": np.zeros(1)} | ({} if said is None else {"ue_1": said})
        seen, rewards, *_, infos = env.step(actions)
        assert env.agents == env.possible_agents
        found.append((rewards, infos["ue_1"]["power_w"], [s.tolist() for s in seen.values()]))
    assert found[0] == found[1] == found[2] == found[3]
    away(env)
    assert [i["away"] for i in env._infos(env.env._info()).values()] == [False, True, False]
    with pytest.raises(ValueError, match="none for ue_2"):
        env.step({"ue_0": np.zeros(1)})


def test_each_can_be_paid_by_its_own(tiny):
    """Own energy and leakage add up to those of all; the loss is everybody's."""
    for only in ("energy_per_j", "leakage", "loss", "noise"):
        weights = {"noise": 0.0, "leakage_within_m": 300.0, only: REWARD[only]}
        changes = {"train": {"task": {**ONLINE["train"]["task"], "reward": weights}}}
        shared, own = walk(agents(tiny, changes)), walk(agents(tiny, changes, reward="own"))
        for (_, all_of_it, *_), (_, each, *_) in zip(shared[1:], own[1:], strict=True):
            total, parts = all_of_it["ue_0"], np.array(list(each.values()))
            if only == "loss":
                np.testing.assert_allclose(parts, total, rtol=1e-12)
            elif only != "noise":
                np.testing.assert_allclose(parts.sum(), total, rtol=1e-12)
        assert only == "loss" or len(set(each.values())) > 1
