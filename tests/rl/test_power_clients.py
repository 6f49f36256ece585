"""Clients that know Gymnasium alone: agents of stable-baselines3, a loop as CleanRL has it, wrappers, a random walk."""

import gymnasium
import numpy as np
import pytest

import rl
from scenarios import load

SHORT = {"world.duration_s": 180, "learning.attacks": []}


@pytest.fixture(scope="module", params=[rl.ALLOCATION, rl.ONLINE], ids=["allocation", "online"])
def made(request, tmp_path_factory):
    """Keywords of `gymnasium.make`."""
    cache = tmp_path_factory.mktemp("cache")
    if request.param == rl.ONLINE:
        return {"id": rl.ONLINE, "scenario": load("power/pedestrians", SHORT), "cache": cache}
    study = load("power/paper", {"world.duration_s": 240, "learning.data.samples": 20})
    return {"id": rl.ALLOCATION, "scenario": study, "cache": cache}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SAC", "TD3", "PPO"])
def test_agents_of_stable_baselines_learn_on_both(made, name):
    library = pytest.importorskip("stable_baselines3")
    env = gymnasium.make(**made)
    own = {"n_steps": 8, "batch_size": 8} if name == "PPO" else {"learning_starts": 8, "batch_size": 8}
    agent = getattr(library, name)("MlpPolicy", env, seed=0, **own)
    before = [p.detach().clone() for p in agent.policy.parameters()]
    agent.learn(24)
    after = list(agent.policy.parameters())
    assert any((a != b).any() for a, b in zip(after, before, strict=True))
    assert all(np.isfinite(p.detach().numpy()).all() for p in after)
    seen, _ = env.reset(seed=1)
    action, _ = agent.predict(seen, deterministic=True)
    assert env.action_space.contains(action)
