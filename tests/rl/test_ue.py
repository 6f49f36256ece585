"""One actor for every UE: what a UE sees and is paid, its environment, and trainings that go on and
do not saturate."""

import pickle
import warnings
from dataclasses import replace

from numpy import (
    allclose,
    arange,
    array,
    clip,
    float32,
    full,
    log10,
    maximum,
    mean,
    moveaxis,
    nan,
    ones,
    ptp,
    where,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import fixture, importorskip, mark, raises
from rows import read_yaml
from test_radio_records import record_known, study

from netsim.errors import BadInput
from netsim.rng import Streams
from rl.look import Look
from rl.policy import MOVES_DB, SEEN, count_ue_features, move_dbw, plan_dbw
from rl.radio_records import Rounds
from rl.rules import LAWS, KnownRounds, clip_dbw, limit_to_w, probe_moves, tune_rule
from rl.settings import DdpgAgent
from rl.ue import UePower, UeRounds

gymnasium = importorskip("gymnasium")
DRAW = default_rng(0)
QUICK = DdpgAgent(learning_starts=2, situations=4, batch_size=64, buffer_size=4000, hidden=(16,))


@fixture(scope="module")
def city():
    return record_known(study())


@fixture(scope="module")
def rule(city):
    return tune_rule(LAWS[1], city, 96 * len(city), Streams(0).derive_rng("t"))


def test_interference_by_features_is_the_sinr_after_cancellation(city):
    """SINR = x ||h||^2 / N / (1 + later + residual earlier + outside), for every UE that sends."""
    look = replace(city.look, links=replace(city.look.links, serving=city.rounds.links.serving))
    power_w = 10 ** DRAW.uniform(-5, -1, look.snr_db.shape)
    _, decoded, _, exposed, *sums, _, _, below, _ = moveaxis(look.predict_outcome(power_w), 2, 0)
    later, earlier, outside = (10 ** ((20 * item + 10) / 10) for item in sums[:3])
    own_db = 10 * log10(power_w) + look.snr_db
    wanted_db = own_db - 10 * log10(1 + later + city.air.residual * earlier + outside)
    is_present = look.is_served
    expected = clip(wanted_db, -50, 50)[is_present]
    assert_allclose((20 * decoded + 10)[is_present], expected, atol=1e-4)
    # nobody is weaker at the eavesdropper: it hears this one in noise, and a residual
    alone = below.argmin(axis=1)
    actual = (20 * exposed + 10)[arange(len(alone)), alone].max()
    assert actual <= (look.eavesdropper_snr_db + 10 * log10(power_w)).max()


def test_what_a_ue_disturbs_is_what_its_silence_would_spare_the_others(city):
    """Sum over others of its interference over their received power, taken from the features of
    those others."""
    look = replace(city.look, links=replace(city.look.links, serving=city.rounds.links.serving))
    power_w = 10 ** DRAW.uniform(-5, -1, look.snr_db.shape)
    values = power_w * 10 ** (look.snr_db / 10)

    def hear(x_w):
        later, _, outside = (
            10 ** ((20 * item + 10) / 10) for item in moveaxis(look.predict_outcome(x_w), 2, 0)[4:7]
        )
        return later + outside

    k = 3
    quiet = power_w.copy()
    quiet[:, k] = 1e-30
    spared = (hear(power_w) - hear(quiet)) / values
    rest = look.is_served & (arange(12) != k)
    expected = where(rest, maximum(spared, 0.0), 0.0).sum(axis=1)
    result = 10 ** ((20 * look.predict_outcome(power_w)[:, k, 7] + 10) / 10) / 10
    actual = result[look.is_served[:, k]]
    assert_allclose(actual, expected[look.is_served[:, k]], rtol=1e-3, atol=1e-6)


def test_a_ue_is_paid_what_its_own_move_saves(city, rule):
    """One vector at a time: the joint action, and the same without the move of one UE."""
    rounds = UeRounds(city, rule, passes=2)
    rounds.present[1] -= 3.0
    of_pass = array([0, 1, 1])
    place = array([0, 2, 2])
    action = DRAW.uniform(-1, 1, (3, 12))
    result = rounds.compute_joint_rewards(of_pass, place, action)
    limits = city.look.limits
    for i in range(3):
        present = rounds.present[of_pass[i], place[i]]
        joint = clip_dbw(present + 10 * action[i], limits)
        cost = city.compute_costs(limit_to_w(joint[None], limits), place[i : i + 1])[0]
        for k in range(12):
            second = joint.copy()
            second[k] = present[k]
            saved = city.compute_costs(limit_to_w(second[None], limits), place[i : i + 1])[0] - cost
            assert_allclose(result[i, k], clip(10 * saved, -5, 5), atol=1e-8)
    assert ptp(result) > 0.1
    assert not rounds.compute_joint_rewards(of_pass, place, zeros((3, 12))).any()


def test_probes_are_costs_of_the_expected_round_after_single_moves(city, rule):
    look = city.look
    dbw = clip_dbw(rule.dbw(look), look.limits)
    result = probe_moves(look, dbw, city.reward, MOVES_DB)
    assert result.shape == (*dbw.shape, len(MOVES_DB))
    s = 3
    k = 5
    for m, move_db in enumerate(MOVES_DB):
        moved = dbw.copy()
        moved[s, k] += move_db
        again = probe_moves(look, moved, city.reward, (0.0, -move_db))
        assert not again[..., 0].any()  # no move costs nothing
        expected = -result[s, k, m]
        assert_allclose(again[s, k, 1], expected, atol=1e-6)  # there and back


def test_passes_begin_at_the_rule_and_move_on(city, rule):
    look = city.look
    steady = plan_dbw(look, rule, lambda seen: zeros(len(seen)), 3)
    assert_array_equal(steady, clip_dbw(rule.dbw(look), look.limits))
    down = plan_dbw(look, rule, lambda seen: full((len(seen), 1), -0.1), 3)
    lowest = 10 * log10(look.limits.each_min_w)
    assert_allclose(down, where(look.is_served, maximum(steady - 3.0, lowest), steady))
    seen = []
    plan_dbw(look, rule, lambda x: seen.append(x) or -0.1 * ones(len(x)), 2)
    actual = seen[1].reshape(*down.shape, SEEN)[..., -1]
    assert_allclose(
        actual,
        (clip_dbw(steady - 1.0, look.limits) - steady) / 10,
        atol=1e-6,
    )
    with raises(ValueError, match="give one number from -1 to 1 for each UE"):
        plan_dbw(look, rule, lambda x: full(len(x), 1.5), 1)


def test_checkers_find_nothing_and_many_are_made(city, rule):
    from gymnasium.utils.env_checker import check_env
    from stable_baselines3.common.env_checker import check_env as check_sb3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    env = UePower(UeRounds(city, rule))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*not having a spec|.*symmetric and normalized")
        check_env(env, skip_render_check=True)
        check_sb3(env, warn=True)
    many = VecNormalize(make_vec_env(lambda: UePower(UeRounds(city, rule)), n_envs=3, seed=1))
    assert many.reset().shape == (3, count_ue_features())
    several = gymnasium.vector.SyncVectorEnv([lambda: UePower(UeRounds(city, rule))] * 2)
    assert several.reset(seed=0)[0].shape == (2, SEEN)


def test_an_episode_is_one_ue_in_one_round(city, rule):
    rounds = UeRounds(city, rule)
    env = UePower(rounds)
    chosen = {"round": 2, "ue": 4}
    seen, info = env.reset(seed=0, options=chosen)
    at_rule = rounds.seen[0, 2, 4]
    assert_array_equal(seen, at_rule)
    assert_allclose(info["power_w"], rule.power_w(city.look)[2, 4])
    action = zeros((1, 12))
    action[0, 4] = -0.5
    _, reward, terminated, truncated, info = env.step(array([-0.5], float32))
    assert (terminated, truncated) == (True, False)
    assert reward == rounds.compute_joint_rewards(zeros(1, int), array([2]), action)[0, 4]
    expected = move_dbw(rounds.present[0, 2], action[0], city.look.limits)[4]
    assert_allclose(10 * log10(info["power_w"]), expected)
    env.play(lambda x: full((len(x), 1), -0.2))  # all others are 2 dB lower from now on
    assert_allclose(rounds.present[0], clip_dbw(rounds.rule_dbw - 2.0, city.look.limits))
    assert_array_equal(env.reset(options=chosen)[0], rounds.seen[0, 2, 4])
    for wrong in (nan, 5.0):
        with raises(ValueError, match="give one number from -1 to 1 for each UE"):
            env.play(lambda x, wrong=wrong: full(len(x), wrong))
    with raises(ValueError, match="give one number"):
        env.play(lambda x: zeros(3))
    again = pickle.loads(pickle.dumps(env))
    assert_array_equal(again.reset(options=chosen)[0], rounds.seen[0, 2, 4])
    for wrong in ({"round": len(city)}, {"ue": 12}, {"world": 1}):
        with raises(ValueError, match="reset:"):
            env.reset(options=wrong)


def training(city, rule, steps=60, **kw):
    from rl.agents import UeTraining

    return UeTraining(UeRounds(city, rule, passes=2), QUICK, steps, 0, **kw)


def worlds(seen):
    def grow(weights, i):
        seen.append(i)
        return record_known(study(), world=100 + i)

    return {"grow": grow, "worlds": 4}


@mark.parametrize("live", [False, True])
def test_an_interrupted_training_ends_with_the_same_bits(city, rule, live):

    def new():
        return training(city, rule, **(worlds([]) if live else {}))

    whole = new()
    while whole.done < 60:
        whole.step()
    first = new()
    while first.done < 37:
        first.step()
    second = new()
    second.resume(first.memory())
    assert second.done == 37
    assert second.evaluations == first.evaluations
    while second.done < 60:
        second.step()
    for name, x in whole.weights().items():
        assert_array_equal(second.weights()[name], x)
    assert whole.weights()
    assert any(abs(x).max() > 0 for x in whole.weights().values())


@mark.parametrize("steps", [60, 63])
def test_worlds_are_played_on_the_way(city, rule, steps):
    played = []
    item = training(city, rule, steps, **worlds(played))
    while item.done < steps:
        item.step()
    assert played == [1, 2, 3]
    assert len(item.rounds.known) > 3 * len(city) / 2
    assert item.rounds.present.shape[1] == len(item.rounds.known)


def test_rates_are_a_fifth_and_fall(city, rule):
    item = training(city, rule)
    actor, critic = item._rates()
    assert critic == QUICK.learning_rate
    assert_allclose(actor, critic / 5)
    while item.done < 60:
        item.step()
    rates = [
        group["lr"]
        for net in (item.model.actor, item.model.critic)
        for group in net.optimizer.param_groups
    ]
    assert rates[1] < 0.05 * critic
    assert_allclose(rates[0], rates[1] / 5)
    assert_allclose(item._rates()[1], QUICK.final_rate * critic)


@mark.slow
def test_equal_rates_saturate_and_a_fifth_does_not():
    """Share of actions beyond 0.99 in the passes after a training on three worlds: an actor that
    learns as fast as its critic follows one that is not there yet, in one seed of two.
    """
    from rl.agents import UeTraining
    from rl.policy import compute_action, pair_layers, standardise_features

    entry = [record_known(study(**{"world.duration_s": 720}), world=world) for world in (7, 8, 9)]
    joined = (
        Rounds.stack([single.rounds for single in entry]),
        Look.join([single.look for single in entry]),
    )
    item = KnownRounds(*joined, entry[0].air, entry[0].reward)
    rule = tune_rule(LAWS[1], item, 96 * len(item), Streams(0).derive_rng("t"))
    shares = {}
    for rates in ({"actor_rate": 1.0, "final_rate": 1.0}, {}):
        for seed in (0, 1):
            agent = DdpgAgent(hidden=(64, 64), batch_size=256, **rates)
            training = UeTraining(UeRounds(item, rule, agent.passes), agent, 800, seed)
            while training.done < training.steps:
                training.step()
            rounds = training.rounds
            layers = pair_layers(training.weights())
            seen = standardise_features(rounds.seen.reshape(-1, SEEN), *rounds.scale)
            shares[bool(rates), seed] = mean(abs(compute_action(layers, seen.T)[0]) > 0.99)
    assert max(shares[True, 0], shares[True, 1]) > 0.05, shares
    assert max(shares[False, 0], shares[False, 1]) < 0.005, shares


def test_a_study_whose_rounds_cannot_be_recorded_is_refused():
    from scenarios import load
    from scenarios.app.training.judge import make_ue_power

    with raises(
        BadInput,
        match=r"reward.loss: recorded rounds do not tell it; .* take netsim/OnlinePower-v0",
    ):
        make_ue_power(load("power/city", {"train.task.reward.loss": 1.0}))
    with raises(TypeError, match="render_mode"):
        make_ue_power("power/city", render_mode="human")


# -- worlds that are played while it learns

LIVE = read_yaml(
    "world.duration_s: 240, train.task.train_worlds: 2, train.task.tune_worlds: 1, "
    "train.task.eval_worlds: 1, train.task.tune_evaluations: 200, "
    "train.task.held_out: 1, train.steps: 20, train.eval_every: 5, train.agent: "
    "{kind: ddpg, live: true, learning_starts: 2, batch_size: 64, hidden: [8], "
    "passes: 2}"
)
FILES = (
    "policy.json",
    "policy.safetensors",
    "curve.csv",
    "evaluations.csv",
    "summary.json",
    "study.yaml",
)


def test_a_live_training_goes_on_to_the_same_bytes_and_its_policy_plays(tmp_path, monkeypatch):
    """Interrupted while it plays its second world's lessons, and taken up again; then played in a
    run of the study."""
    from rl import train as loop
    from rl.policy import load_shared
    from rl.problem import convert_to_action
    from rl.recording import observe_next_round
    from scenarios import load
    from scenarios.app.result import run
    from scenarios.app.results.folder import read_record_table
    from scenarios.app.run.events import ignore_event
    from scenarios.app.run.job import do_job
    from scenarios.app.training.environments import make_online
    from scenarios.app.training.evaluate import RecordedGround
    from scenarios.app.training.train import build_training_jobs

    item = load("power/city", LIVE)
    ground = RecordedGround(item, ignore_event)
    played = []
    one_world = ground.record_world
    monkeypatch.setattr(
        ground, "record_world", lambda i, power_w: played.append(i) or one_world(i, power_w)
    )
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)

    def made(folder, watch=ignore_event):
        (job,) = build_training_jobs(item, [0], tmp_path / folder)
        do_job(job.with_options(ground=ground, watch=watch), watch)
        return {name: (tmp_path / folder / name).read_bytes() for name in FILES}

    def stop(event):
        if event.name == "step" and event.done == 15:
            raise KeyboardInterrupt

    whole = made("a")
    assert played == [0, 1]
    with raises(KeyboardInterrupt):
        made("b", stop)
    assert (tmp_path / "b" / "checkpoint.npz").exists()
    assert played == [0, 1] * 2
    assert made("b") == whole
    assert played == [0, 1] * 3

    policy, card = load_shared(tmp_path / "a")
    assert (card.task, card.passes, card.probes) == ("shared", 2, None)
    assert 0 < card.steps <= 20
    limits = item.train.task.limits
    power = {"kind": "shared", "policy": str(tmp_path / "a")}
    run(load("power/city", LIVE | {"power": power, "train": None}), tmp_path / "run")
    links = read_record_table(tmp_path / "run", "links")
    env = make_online(item)
    env.reset(options={"world": item.seed})
    for i in range(1, 5):
        power_w = policy.power_w(observe_next_round(env))[0]
        assert not allclose(power_w, policy.rule.power_w(observe_next_round(env)), rtol=1e-3)
        selected = links["round"] == i
        expected = power_w[links["ue"][selected].astype(int)]
        assert_allclose(links["power_w"][selected], expected, rtol=1e-6)
        env.step(convert_to_action(power_w, limits).astype(float32))
    assert env.over
