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


@pytest.mark.slow
def test_the_checkers_of_two_libraries_find_nothing(made):
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(**made).unwrapped, skip_render_check=True)
    theirs = pytest.importorskip("stable_baselines3.common.env_checker")
    theirs.check_env(gymnasium.make(**made).unwrapped, warn=True)


def thunk(made, seed):
    """An environment as CleanRL makes it."""

    def make():
        env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(**made))
        env = gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
        env = gymnasium.wrappers.ClipAction(env)
        env.action_space.seed(seed)
        return env

    return make


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode)[:2], ids=["next step", "same step"])
def test_a_loop_with_one_actor_and_one_critic(made, mode):
    """Deterministic actor, target networks, replay: the true last observation is the one that ended the episode."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    g = np.random.default_rng(0)
    envs = gymnasium.vector.SyncVectorEnv([thunk(made, 7)], autoreset_mode=mode)
    n, k = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    actor = nn.Sequential(nn.Linear(n, 16), nn.ReLU(), nn.Linear(16, k), nn.Tanh())
    critic = nn.Sequential(nn.Linear(n + k, 16), nn.ReLU(), nn.Linear(16, 1))
    steps = [torch.optim.Adam(net.parameters(), 1e-3) for net in (actor, critic)]
    memory, ended, fresh, first = [], [], False, actor[0].weight.detach().clone()
    seen, _ = envs.reset(seed=7)
    while len(ended) < 2:
        with torch.no_grad():
            action = actor(torch.as_tensor(seen)).numpy() + g.normal(0, 0.2, (1, k))  # ClipAction takes it back
        after, reward, terminated, truncated, infos = envs.step(action.astype(np.float32))
        over = bool((terminated | truncated)[0])
        last = after
        if over:
            own = infos["final_info"] if mode is gymnasium.vector.AutoresetMode.SAME_STEP else infos
            ended.append((float(own["episode"]["r"][0]), int(own["episode"]["l"][0])))
            last = np.stack(infos["final_obs"]) if "final_obs" in infos else after
        if not fresh:  # the step that only begins an episode is no transition
            memory.append((seen[0], action[0], last[0], float(reward[0]), bool(terminated[0])))
        fresh = over and mode is gymnasium.vector.AutoresetMode.NEXT_STEP
        seen = after
        batch = [memory[i] for i in g.integers(0, len(memory), 4)]
        o, a, _, r, _ = (torch.as_tensor(np.array(x), dtype=torch.float32) for x in zip(*batch, strict=True))
        losses = [-critic(torch.cat([o, actor(o)], 1)).mean(), (critic(torch.cat([o, a], 1))[:, 0] - r).pow(2).mean()]
        for step, loss in zip(steps, losses, strict=True):
            step.zero_grad()
            loss.backward(inputs=[p for group in step.param_groups for p in group["params"]])
            step.step()
    assert not torch.equal(first, actor[0].weight)
    assert sum(length for _, length in ended) == len(memory)
    paid = [r for *_, r, _ in memory]
    assert [ret for ret, _ in ended] == pytest.approx(
        [sum(paid[: ended[0][1]]), sum(paid[ended[0][1] :])], rel=1e-4, abs=1e-5
    )


@pytest.mark.slow
def test_wrappers_of_many_environments_work(made):
    """Statistics, normalised observations and rewards, scaled actions over the environments stepped as arrays."""
    many = gymnasium.make_vec(**made, num_envs=3, vectorization_mode="vector_entry_point")
    wrappers = gymnasium.wrappers.vector
    envs = wrappers.RecordEpisodeStatistics(many)
    envs = wrappers.NormalizeReward(wrappers.NormalizeObservation(wrappers.ClipAction(envs)))
    envs.reset(seed=0)
    lengths = []
    for _ in range(45):
        seen, reward, terminated, truncated, infos = envs.step(envs.action_space.sample() * 1.5)
        assert np.isfinite(seen).all() and np.isfinite(reward).all()
        if (terminated | truncated).any():
            lengths += infos["episode"]["l"].tolist()
    assert set(lengths) == {20 if made["id"] == rl.ALLOCATION else 3}
    envs.close()


@pytest.mark.slow
def test_many_are_made_again_from_their_spec(made):
    from gymnasium.envs.registration import EnvSpec

    envs = gymnasium.make_vec(**made, num_envs=2, vectorization_mode="vector_entry_point")
    spec = EnvSpec.from_json(envs.spec.to_json())
    again = gymnasium.make_vec(spec, num_envs=2, vectorization_mode="vector_entry_point")
    np.testing.assert_array_equal(again.reset(seed=5)[0], envs.reset(seed=5)[0])


@pytest.mark.slow
def test_agents_walk_at_random():
    pytest.importorskip("pettingzoo")
    from scenarios.app.training.environments import parallel_env

    env = parallel_env(load("power/pedestrians", SHORT))
    for seed in (0, 1):
        env.reset(seed=seed)
        steps = 0
        while env.agents:
            seen, *_ = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
            steps += 1
        assert steps == 3 and all(env.observation_space(a).contains(x) for a, x in seen.items())
