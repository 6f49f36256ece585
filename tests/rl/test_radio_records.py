"""Rounds judged again at other powers: the same laws as live, array by array; rules, oracle, and
the shared policy."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fl.defenses.lapa import drawn_var
from fl.power.search import Limits
from netsim.errors import BadInput
from netsim.rng import Streams
from rl.look import Look
from rl.policy import SharedPolicy, features_of, planned_dbw, seen_of_ue_size, shapes_of
from rl.radio_records import Links, Rounds, Rows, air_of, judged, lost_noise, received
from rl.rules import LAWS, Known, best_response, kept_dbw, tuned, within
from rl.settings import BEST_RESPONSES, Online
from scenarios.app.study.load import load
from scenarios.app.training.environments import Stages, n_ues, task_of

gymnasium = pytest.importorskip("gymnasium")
DRAW = np.random.default_rng(0)
SHORT = {"world.duration_s": 360}
STREETS = {"world.duration_s": 6 * 3600}


def study(**changes):
    return load("power/city", SHORT | changes)


def live(of):
    from rl.env import OnlinePower

    return OnlinePower(Stages(of, watched=False), n_ues(of), task_of(of, Online))


def known(of, world=7):
    from rl.recording import recorded

    env = live(of)
    rounds, look = recorded(env, lambda seen: within(3.0 - 0.75 * seen.snr_db, seen.limits), world)
    return Known(rounds, look, air_of(of.world.radio.uplink, of.round_s), env.task.reward)


@pytest.fixture(scope="module")
def city():
    return known(study())


UPLINKS = [
    {},
    {"world.radio.uplink": {"kind": "noma", "interference": "intra", "sic_residual": 0.3}},
    {"world.radio.uplink": {"kind": "noma", "interference": "none"}},
    {
        "world.radio.uplink": {
            "kind": "noma",
            "group_size": 3,
            "sic_residual": 0.05,
            "deadline_s": 0.012,
        }
    },
    {"world.radio.uplink": {"kind": "noma", "max_ser": 0.1, "deadline_s": 0.004}},
    {
        "world.radio.uplink": {
            "kind": "noma",
            "interference": "intra",
            "group_size": 2,
            "deadline_s": 0.1,
        }
    },
    {
        "world.radio.uplink": {
            "kind": "noma",
            "deadline_s": 0.05,
            "interference_over_thermal_db": 6,
            "uplink_share": 0.3,
        }
    },
    {"world.radio.fading": {"kind": "none"}},
    {"world.radio.fading.antennas": 1},
    {"learning.threat": {"n_targets": 4}},
    {
        "world.ues.max_power_dbm": 10,
        "train.task.limits.each_max_w": 2.0,
        "train.task.limits.total_max_w": 24.0,
    },
]


@pytest.mark.parametrize("changes", UPLINKS, ids=range(len(UPLINKS)))
def test_a_recorded_round_costs_what_it_costs_live(changes):
    """At other powers than those that it was recorded with, also than a UE can send: noise, losses,
    leak, energy."""
    costs_what_it_costs_live(study(**changes))


def test_a_recorded_round_in_the_streets_costs_what_it_costs_live():
    """Three sectors of one mast, people in rooms and on the way, other towns in other worlds."""
    costs_what_it_costs_live(load("power/streets", STREETS))


CLIP = {"kind": "clip", "norm": 2.0}
LAPA = {
    "kind": "lapa",
    "epsilon_system_total": 17280,
    "epsilon_cap": 300,
    "rounds": 24,
    "sensitivity": "mean-clip",
    "gain_last": 0,
    "gain_mean": 1,
    "window": 5,
}
SWITCHES = [
    {"mode": "first-crossing", "criterion": "aggregate"},
    {"mode": "first-crossing", "criterion": "per-device"},
    {"mode": "planned", "until_round": 3},
    None,
]


@pytest.mark.parametrize("switch", SWITCHES, ids=["aggregate", "per-device", "planned", "always"])
def test_a_recorded_round_draws_noise_as_live(switch):
    """All that is required until a criterion holds, at the powers of this round, or until a planned
    one; then none."""
    own = LAPA if switch is None else {"kind": "noise-switch", "noise": LAPA, **switch}
    noise_w = 1e-14 if switch == SWITCHES[0] else 1e-11
    change = {
        "learning.defenses": [CLIP, own],
        "world.radio.uplink.noise_w": noise_w,
        "world.duration_s": 720,
    }
    drawn = costs_what_it_costs_live(study(**change), np.random.default_rng(0))
    if switch:
        last = {"planned": 3, "first-crossing": drawn.index(False)}[switch["mode"]]
    else:
        last = len(drawn)
    assert drawn == [s < last for s in range(len(drawn))]
    assert switch is None or 0 < last < len(drawn)


def test_rounds_are_recorded_with_what_was_drawn_there():
    """Judged at the powers that they were played with, all rounds of a world cost what they cost
    then."""
    from rl.problem import as_action
    from rl.recording import costs_of, recorded

    own = {"kind": "noise-switch", "noise": LAPA, **SWITCHES[0]}
    of = study(
        **{
            "learning.defenses": [CLIP, own],
            "world.radio.uplink.noise_w": 1e-13,
            "world.duration_s": 720,
        }
    )
    rule = lambda look: within(3.0 - 0.75 * look.snr_db, look.limits)  # noqa: E731
    env = live(of)
    rounds, _ = recorded(env, rule, 7)
    act = lambda env, seen: as_action(rule(Look.of(env.now, env.task.limits))[0], env.task.limits)  # noqa: E731
    costs = []
    power_w = np.full((len(rounds.count), env.n_ue), np.nan)
    for cost, _ in costs_of(env, act, 7):
        sent = env.outcome.merges[-1].uploads
        power_w[len(costs), sent.ue] = sent.channel.power_w
        costs.append(cost)
    found = judged(
        rounds, air_of(of.world.radio.uplink, of.round_s), power_w, np.arange(len(costs))
    )
    for name in ("noise", "lost", "leak", "energy_j"):
        np.testing.assert_allclose(
            found.figures[name], [cost.figures[name] for cost in costs], rtol=1e-9
        )
    assert found.drawn.any(axis=1).tolist() == [cost.artificial for cost in costs]


def test_how_noise_is_drawn_by_hand():
    """Two rows that require 2 and 3, beside a channel of 1 and 3.5, 4 and 1, or 2 and 3."""
    required = np.array([2.0, 3.0]) ** 2
    channel = np.array([[1.0, 3.5], [4.0, 1.0], [2.0, 3.0]]) ** 2
    whole = {"all": [1, 1, 1], "none": [0, 0, 0], "aggregate": [1, 0, 0], "per-device": [1, 1, 0]}
    for drawing, rounds in whole.items():
        np.testing.assert_array_equal(
            drawn_var(drawing, required, channel), np.outer(rounds, required)
        )
    np.testing.assert_array_equal(drawn_var("top-up", required, channel), [[3, 0], [0, 8], [0, 0]])


def costs_what_it_costs_live(of, draw=DRAW):
    """Whether noise was drawn, round by round."""
    from rl.problem import log_power

    env = live(of)
    own = known(of)
    drawn = []
    env.reset(options={"world": 7})
    for s in range(len(own)):
        action = draw.uniform(-1, 1, 12).astype(np.float32)
        # the noise that budgets ask for hangs on what has arrived; a round is compared with its own
        # requirements
        _, reward, _, _, info = env.step(action)
        one = replace(own.rounds.select(np.array([s])), rows=env.cost.rows)
        asked_w = log_power(action.astype(np.float64), env.task.limits)
        power_w = np.minimum(asked_w, own.look.max_power_w)
        costs = judged(one, own.air, power_w[None], np.zeros(1, dtype=np.int64))
        found = costs.figures
        drawn.append(bool(costs.drawn.any()))
        assert drawn[-1] == env.cost.artificial
        assert replace(own, rounds=one).cost(asked_w[None])[0] == pytest.approx(-reward, rel=1e-9)
        for name in ("noise", "lost", "leak", "energy_j"):
            assert found[name][0] == pytest.approx(info[name], rel=1e-9, abs=1e-12), (s, name)
        assert env.task.reward.cost(found)[0] == pytest.approx(-reward, rel=1e-9)
    return drawn


def dbw_of(policy, look):
    """Powers in dBW before they are made to fit the limits of the total."""
    return planned_dbw(look, policy.rule, policy.act, policy.passes, policy.probes)


def shared(city, last=0.0, **kw):
    """A policy of random layers; last: the spread of those of its last one."""
    n = seen_of_ue_size("probes" in kw)
    layers = tuple(
        (
            DRAW.normal(0, 0.3 if k else last, shape).astype(np.float32),
            np.zeros(shape[0], np.float32),
        )
        for k, shape in zip((1, 0), shapes_of(n, (8,), 1), strict=True)
    )
    scale = DRAW.normal(0, 1, n), DRAW.uniform(0.5, 2, n)
    return SharedPolicy(layers, tuned(LAWS[-1], city, 1, Streams(0).at("t")), *scale, **kw)


PASSES = [{}, {"passes": 3}, {"passes": 2, "probes": load("power/city").train.task.reward}]


@pytest.mark.parametrize("kw", PASSES, ids=["one", "three", "probes"])
def test_an_actor_whose_last_layer_is_zero_is_the_rule(city, kw):
    policy = shared(city, **kw)
    np.testing.assert_allclose(
        policy.power_w(city.look), policy.rule.power_w(city.look), rtol=1e-12
    )


@pytest.mark.parametrize("kw", PASSES, ids=["one", "three", "probes"])
def test_the_shared_actor_by_hand(city, kw):
    """UE after UE, pass after pass: ten times tanh of two layers of its standardised features,
    which are cut; 0 dB for one that is away.
    """
    policy = shared(city, 1.0, cut=1.5, **kw)
    links = replace(
        city.look.links, serving=np.where(np.arange(12) == 5, -1, city.look.links.serving)
    )
    look = replace(city.look, links=links)
    (w, b), (v, c) = policy.layers
    low, high = (10 * np.log10(x) for x in (look.limits.each_min_w, look.limits.each_max_w))
    rule = np.clip(policy.rule.dbw(look), low, high)
    dbw = rule.copy()
    for _ in range(policy.passes):
        features = features_of(look, dbw, rule, policy.probes)
        for s, k in np.argwhere(look.there):
            seen = np.clip((features[s, k] - policy.mean) / policy.std, -1.5, 1.5)
            moved = dbw[s, k] + 10 * np.tanh(v[0] @ np.maximum(w @ seen + b, 0) + c[0])
            dbw[s, k] = min(max(moved, low), high)
    np.testing.assert_allclose(dbw_of(policy, look), dbw, atol=1e-3)
    np.testing.assert_array_equal(dbw[:, 5], rule[:, 5])
    assert np.ptp(dbw_of(policy, look) - rule) > 5.0


NEIGHBOURS = {
    "world.duration_s": 4 * 86_400,
    "world.city": {"kind": "town", "width_m": 600, "height_m": 600},
    "world.ues.count": 12,
    "world.ues.compute_j_per_sample": 1e-3,
    "world.ues.training_s_per_sample": 1e-2,
    "learning.learner.hidden": [8],
}
GAUSSIAN = {
    "learning.defenses": [
        {"kind": "clip", "norm": 0.3},
        {"kind": "gaussian", "noise_multiplier": 0.5},
    ]
}
BY_LABELS = {"learning.aggregation": {"kind": "wasserstein", "distance": "label-range"}}


def leaves(value):
    """All arrays and numbers of a value, as bytes."""
    if is_dataclass(value):
        return [leaf for f in fields(value) for leaf in leaves(getattr(value, f.name))]
    if isinstance(value, np.ndarray | float):
        return [(np.shape(value), np.asarray(value).tobytes())]
    return []


@pytest.mark.parametrize("changes", [{}, GAUSSIAN, BY_LABELS], ids=range(3))
def test_rounds_without_training_are_those_with_it(changes):
    """Links, rows, weights, sizes, the work of UEs and the knowledge before each round, to the last
    bit."""
    from rl.recording import recorded

    env = live(load("power/next-door", NEIGHBOURS | changes))
    assert not env.stage.learns
    of = []
    for learns in (False, True):
        env.stage.learns = learns
        of.append(recorded(env, lambda seen: within(-14.0 - seen.snr_db, seen.limits), 7))
        moved = np.abs(env.state.model.parameters - env.stage(7).state.model.parameters).max()
        assert (moved > 0) == learns
    assert of[0][0].count.any()
    assert of[0][0].compute_j.any()
    for once, trained in zip(*of, strict=True):
        assert leaves(once) == leaves(trained)


@pytest.mark.parametrize(
    "changes",
    [
        {"learning.defenses": [{"kind": "adaptive-clip"}]},
        {"learning.aggregation": {"kind": "beda"}},
        GAUSSIAN | {"learning.privacy_budget": {"epsilon": 1e4, "delta": 1e-5}},
        {"train.task.reward.loss": 1},
        {"world.radio.uplink.decoding": "error-free"},
        {"learning.defenses": load("power/switch").learned.model_dump()["defenses"]},
    ],
    ids=range(6),
)
def test_ues_train_where_a_cost_hangs_on_it(changes):
    assert live(load("power/next-door", changes)).stage.learns


@pytest.mark.parametrize("kw", PASSES, ids=["one", "three", "probes"])
def test_exchanging_ues_exchanges_features_and_powers(city, kw):
    order = DRAW.permutation(12)
    links = city.look.links
    moved = replace(
        city.look,
        links=Links(
            links.h[:, order],
            links.heard[:, order],
            links.serving[:, order],
            links.downlink_bps[:, order],
        ),
        required_std=city.look.required_std[:, order],
    )
    policy = shared(city, 0.3, **kw)
    np.testing.assert_allclose(moved.features, city.look.features[:, order], atol=1e-12)
    power_w = np.full((len(city), 12), 1e-3) * 10 ** DRAW.uniform(-1, 1, 12)
    np.testing.assert_allclose(
        moved.outlook(power_w[:, order]), city.look.outlook(power_w)[:, order], atol=1e-9
    )
    np.testing.assert_allclose(moved._crossing, city.look._crossing[:, order][:, :, order])
    np.testing.assert_allclose(
        dbw_of(policy, moved), dbw_of(policy, city.look)[:, order], atol=1e-4
    )
    assert (
        np.ptp(dbw_of(policy, city.look) - kept_dbw(policy.rule.dbw(city.look), city.look.limits))
        > 1.0
    )


def test_what_would_come_of_powers_of_a_ue_that_is_alone(city):
    """Without others, SINR is SNR, at the base station and at the eavesdropper; and there is no
    interference."""
    look = city.look
    links = city.look.links
    k = 3
    serving = np.where(np.arange(12) == k, links.serving, -1)
    alone = replace(look, links=replace(links, serving=serving))
    power_w = np.full(serving.shape, 1e-3)
    power, decoded, margin, exposed, *sums, _, below, _ = np.moveaxis(alone.outlook(power_w), 2, 0)
    for of in (*sums, below):
        np.testing.assert_allclose(of[:, k], (-60 - 10) / 20)  # the least: nothing
    np.testing.assert_array_equal(np.delete(alone.outlook(power_w), k, axis=1), 0.0)
    np.testing.assert_allclose(power[:, k], -1.0)  # -30 dBW, 0 at -20, a unit 10 dB
    h = links.h[np.arange(len(serving)), k, serving[:, k]]
    snr_db = 10 * np.log10(1e-3 * (abs(h) ** 2).sum(axis=1) / city.air.noise_w)
    assert (abs(snr_db) < 50).all()
    np.testing.assert_allclose(20 * decoded[:, k] + 10, snr_db)
    np.testing.assert_allclose(20 * margin[:, k], np.clip(snr_db - look.required_db[:, k], -50, 50))
    heard_db = 10 * np.log10(1e-3 * abs(links.heard[:, k, 0, 0]) ** 2 / city.air.noise_w)
    np.testing.assert_allclose(20 * exposed[:, k] + 10, np.clip(heard_db, -50, 50))


def test_what_would_come_of_powers_is_what_rounds_are_judged_by(city):
    """Those that send alone count, as in a round: SINR after cancellation in both cells."""
    from rl.radio_records import received

    rounds = city.rounds
    look = city.look
    look = replace(look, links=replace(look.links, serving=rounds.links.serving))
    power_w = 10 ** DRAW.uniform(-5, -1, look.snr_db.shape)
    sinr, _ = received(power_w, np.arange(len(rounds)), rounds.links, city.air)
    sends = look.there
    wanted = np.clip(10 * np.log10(sinr[sends]), -50, 50)
    np.testing.assert_allclose(20 * look.outlook(power_w)[..., 1][sends] + 10, wanted)
    assert (
        np.ptp(wanted - 10 * np.log10(power_w[sends]) - look.snr_db[sends]) > 10
    )  # interference counts


@pytest.mark.parametrize("kind", ["oma", "noma"])
def test_a_policy_plays_over_either_band(kind, tmp_path):
    """Over orthogonal bands what would come of powers has no interference."""
    air = air_of(load("power/city", {"world.radio.uplink": {"kind": kind}}).world.radio.uplink)
    look = replace(known(study()).look, air=air)
    power_w = np.full(look.snr_db.shape, 1e-4)
    decoded_db = 20 * look.outlook(power_w)[..., 1] + 10
    assert np.allclose(decoded_db, look.snr_db - 40) == (kind == "oma")


def test_tuning_finds_the_best_of_a_grid(city):
    law = LAWS[2]
    found = tuned(law, city, 8_000, Streams(1).at("t"))
    grid = [
        city.cost(within(law.dbw(city.look, np.array([p])), city.look.limits)).mean()
        for p in np.arange(-20, 40, 0.5)
    ]
    assert found.cost <= min(grid) + 0.02
    assert found.evaluations <= 8_000
    assert found.cost == pytest.approx(city.cost(found.power_w(city.look)).mean())


def test_without_interference_a_rule_is_the_optimum():
    """Costs separate over UEs: at the required SNR of this very round the search finds nothing
    better."""
    from rl.rules import best_powers

    of = study(
        **{
            "world.radio.uplink": {"kind": "noma", "interference": "none"},
            "learning.data.cell": "strongest",
            "train.task.reward": {"noise": 1},
            "learning.threat": {"n_targets": 4},
        }
    )
    own = known(of)
    gamma = np.full(own.look.snr_db.shape, np.nan)
    decoded = own.air.floor_sinr * (
        1 + 1e-9
    )  # below, nothing arrives, and more than is required costs nothing
    for s in range(len(own)):
        some = own.rounds.rows.of[s] >= 0
        rows = own.rounds.rows
        gamma[s, rows.of[s, some]] = np.maximum(
            (rows.rho[s] / rows.required_std[s, some]) ** 2, decoded
        )
    dbw = np.where(np.isfinite(gamma), 10 * np.log10(gamma) - own.look.snr_db, -60.0)
    limits = Limits(each_min_w=1e-12, each_max_w=1e6, total_max_w=1e9)
    wide = replace(own, look=replace(own.look, limits=limits, max_power_w=np.inf))
    rule = wide.cost(within(dbw, wide.look.limits))
    np.testing.assert_allclose(rule, 0.0, atol=1e-9)
    found = best_powers(wide, [dbw, dbw + 5.0]).cost
    assert (found >= rule - 1e-9).all()


def test_the_oracle_is_no_worse_than_where_it_begins_and_knows_small_worlds(city):
    from rl.rules import best_powers

    one = Known(city.rounds.select(np.arange(2)), _some(city.look, slice(2)), city.air, city.reward)
    start = LAWS[1].dbw(one.look, np.array([3.0, 0.75]))
    found = best_powers(one, [start])
    cost = found.cost
    power_w = found.power_w
    assert found.judged > 2 * 90
    assert (cost <= one.cost(within(start, one.look.limits)) + 1e-12).all()
    np.testing.assert_allclose(one.cost(power_w), cost)
    tried = DRAW.uniform(-57, -7, (4000, 12))
    for s in range(2):
        assert cost[s] <= one.cost(within(tried, one.look.limits), np.full(4000, s)).min()


def _some(look, rounds):
    links = Links(
        *(getattr(look.links, name)[rounds] for name in ("h", "heard", "serving", "downlink_bps"))
    )
    part = {
        name: getattr(look, name)[rounds] for name in ("required_std", "rho", "n_bits", "progress")
    }
    return replace(look, links=links, **part)


@pytest.mark.parametrize(
    ("level_db", "least", "most"), [(-25.0, 0, 2), (-12.0, 1, 6), (25.0, 6, 6)]
)
def test_t_th_is_the_last_round_in_which_thermal_noise_lacks_something(level_db, least, most):
    """T_th = max{t : some row has SNR(t) > Gamma(t)}, Gamma = rho^2 / sigma^2 of that row (top-up):
    power moves it."""
    from rl.problem import as_action

    env = live(study(**{"train.task.limits.each_min_w": 1e-12}))
    lacking = 0
    env.reset(options={"world": 3})
    while not env.over:
        now = env.now
        env.step(
            as_action(
                within(level_db - now_snr_db(env), env.task.limits)[0], env.task.limits
            ).astype(np.float32)
        )
        rows = env.cost.rows
        snr = (now.snr_per_w * env.last_w)[rows.of[0]]
        if (snr > (now.scale / rows.required_std[0]) ** 2 * (1 + 1e-9)).any():
            lacking = env.state.played
        assert env.t_th == lacking
    assert least <= lacking <= most


def now_snr_db(env):
    from rl.recording import look_now

    return look_now(env).snr_db


def test_a_rule_is_played_as_it_was_tuned(tmp_path):
    """Equal SNR of 10 dB: every UE arrives 10 dB over thermal noise, as far as its limits allow."""
    from scenarios.app.result import run
    from scenarios.app.results.folder import read_table

    limits = {"each_min_w": 1e-7, "each_max_w": 0.2, "total_min_w": 0, "total_max_w": 2.4}
    power = {"kind": "rule", "rule": "equal SNR", "parameters": [10.0], "limits": limits}
    run(study(power=power, train=None), tmp_path / "run", lambda progress: None)
    links = read_table(tmp_path / "run", "links")
    env = live(study())
    env.reset(options={"world": 4})
    wanted = within(10.0 - now_snr_db(env), Limits(**limits))[0]
    first = links["round"] == 1
    np.testing.assert_allclose(
        links["power_w"][first], wanted[links["ue"][first].astype(int)], rtol=1e-6
    )


SMALL = {
    "train.task.train_worlds": 1,
    "train.task.tune_worlds": 1,
    "train.task.tune_evaluations": 600,
    "train.task.held_out": 1,
    "train.task.eval_worlds": 1,
    "train.steps": 8,
    "train.eval_every": 4,
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train.agent": {"kind": "score-function"}}, "score-function"),
        ({"power": {"kind": "shared", "policy": "/nowhere"}}, "No such file"),
        (
            {"power": {"kind": "rule", "rule": "fractional", "parameters": [1.0]}},
            "'fractional' has 2, in this order: p",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, said):
    with pytest.raises(BadInput, match=said):
        load("power/city", SMALL | changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: _edit(d, '"rule": "log-linear"', '"rule": "magic"'), "magic"),
        (
            lambda d: _edit(d, '"passes": 2', '"passes": 0'),
            "passes: Input should be greater than or equal to 1",
        ),
        (lambda d: _edit(d, '"cut": 3.0', '"cut": 0.0'), "cut: Input should be greater than 0"),
        (
            lambda d: _edit(d, '"format": 3', '"format": 2'),
            "format: Input should be 3; train the policy again",
        ),
        (lambda d: _weights(d, {"layers.1.bias": np.zeros(2, np.float32)}), "its card asks for"),
        (
            lambda d: _weights(d, {"layers.1.bias": np.full(1, np.nan, np.float32)}),
            "its card asks for finite",
        ),
        (lambda d: _weights(d, {"other": np.zeros(1, np.float32)}), "'other' is unknown"),
        (
            lambda d: _weights(d, {"std": np.zeros(seen_of_ue_size(probes=True))}),
            "std has 0, not above 0",
        ),
    ],
)
def test_a_damaged_policy_is_one_line(change, said, tmp_path, city):
    from rl.policy import SharedCard, load_shared, save_shared

    policy = shared(city, 0.3, passes=2, probes=city.reward, cut=3.0)
    card = SharedCard(
        program="1",
        limits=city.look.limits,
        rule=policy.rule.law.name,
        hidden=(8,),
        passes=2,
        cut=3.0,
        parameters=tuple(policy.rule.parameters.tolist()),
        probes=city.reward,
    )
    save_shared(policy, card, tmp_path)
    back, _ = load_shared(tmp_path)
    assert (back.passes, back.cut, back.probes) == (2, 3.0, city.reward)
    np.testing.assert_array_equal(back.power_w(city.look), policy.power_w(city.look))
    change(tmp_path)
    with pytest.raises(BadInput, match=said) as error:
        load_shared(tmp_path)
    assert len(error.value.lines) == 1


def _edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "policy.json").read_text()
    assert old in text
    (folder / "policy.json").write_text(text.replace(old, new))


def _weights(folder: Path, changes: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import load_file, save_file

    save_file(load_file(folder / "policy.safetensors") | changes, folder / "policy.safetensors")


def test_the_law_of_costs_by_hand():
    """Three rows of two UEs, the last one lost: rho 2, thermal noise 4/SNR, decoder 4/SINR, kappa
    10, A^left 0.5."""
    from rl.radio_records import Rows, Sent, costs_of

    sinr = np.array([[2.0, 2.0, 0.5]])
    snr = np.array([[4.0, 4.0, 1.0]])
    heard = np.array([[8.0, 8.0, 0.25]])
    required = np.array([[3.0, 0.5, 2.0]])
    weight = np.array([[0.5, 0.5, 1.0]])
    given = (
        Sent(sinr, snr, np.array([[True, True, False]]), heard),
        np.array([[0.1, 0.2]]),
        Rows(
            np.array([[0, 0, 1]]),
            weight,
            required,
            np.array([2.0]),
            np.array([0.5]),
            np.array([10.0]),
            np.zeros(1, int),
        ),
    )
    found = costs_of(*given)
    drawn = [9.0 - 1.0, 0.0, 0.0]  # thermal noise is 1, 1 and 4
    suffered = 0.25 * (drawn[0] + 2.0) + 0.25 * (drawn[1] + 2.0) + 1.0 * (4.0 + 10.0 * 4.0)
    assert found.figures["noise"][0] == pytest.approx(
        0.5 * np.log(suffered / (0.25 * 9.0 + 0.25 * 0.25 + 4.0))
    )
    z = [1 / (8.0 / 4.0 + 1 / 8.0), 8.0, 0.25]
    assert found.figures["leak"][0] == pytest.approx(np.mean([x / (1 + x) for x in z]))
    half = costs_of(*given, half_at=0.03).figures
    assert half["leak"][0] == pytest.approx(np.mean([x / (0.03 + x) for x in z]))
    assert {name: half[name] for name in half if name != "leak"} == {
        k: v for k, v in found.figures.items() if k != "leak"
    }
    assert found.figures["lost"][0] == pytest.approx(1 / 3)
    assert found.figures["energy_j"][0] == pytest.approx(0.3)
    assert found.drawn.tolist() == [[True, False, False]]


def test_random_search_is_the_best_of_its_draws_and_counts_them(city):
    from rl.rules import best_of_random

    law = LAWS[-1]
    rng = Streams(3).at("rules")
    one, many = (best_of_random(law, city, n * len(city), rng) for n in (1, 40))
    assert (one.evaluations, many.evaluations) == (len(city), 40 * len(city))
    drawn = np.array(law.start) + np.array(law.spread) * rng.normal(
        "random.log-linear", np.arange(40), (6,)
    )
    costs = [city.cost(within(law.dbw(city.look, p), city.look.limits)).mean() for p in drawn]
    assert many.cost == min(costs)
    assert one.cost == costs[0] > many.cost


def slow_best_response(one, look, start_dbw, steps_db):
    """One round, one vector after the other; the same law of costs with 45 % of the deadline and 1
    dB more noise."""
    std = look.required_std[0] * 10 ** (1 / 20)
    std = np.where(std > 0, std, np.sqrt(np.mean(std[std > 0] ** 2)))
    air = one.air._replace(deadline_s=0.45 * one.air.deadline_s)
    rows = Rows(
        np.arange(12)[None],
        np.full((1, 12), 1 / 12),
        std[None],
        look.rho,
        np.array([0.9]),
        lost_noise(one.air, look.n_bits),
        np.zeros(1, int),
    )
    nothing = np.zeros((1, 12))
    rounds = Rounds(look.links, rows, np.ones((1, 12), int), look.n_bits, nothing, nothing)
    known = Known(rounds, look, air, one.reward)
    low, high = (10 * np.log10(x) for x in (look.limits.each_min_w, look.limits.each_max_w))
    dbw = np.clip(start_dbw[0], low, high)
    for steps in steps_db:
        for k in sorted(range(12), key=lambda k: -(dbw[k] + look.snr_db[0, k])):
            best = None
            for step in steps:
                tried = dbw.copy()
                tried[k] = min(max(dbw[k] + step, low), high)
                cost = known.cost(within(tried[None], look.limits))[0]
                if best is None or cost < best[0]:
                    best = cost, tried
            dbw = best[1]
    return within(dbw[None], look.limits), known


@pytest.mark.parametrize(("name", "vectors"), [("9 a UE", 108), ("20 a UE", 240)])
def test_best_responses_are_those_of_one_vector_after_the_other(city, name, vectors):
    """For rounds at once and for a single one; what is planned costs no more than the start."""
    steps_db = BEST_RESPONSES[f"best response, {name}"]
    assert (city.look.required_std[1:] > 0).all()
    assert not city.look.required_std[0].any()
    start = LAWS[1].dbw(city.look, np.array([3.0, 0.75]))
    factor = np.full(len(city), 0.9)
    plan = best_response(city.look, start, steps_db, city.reward, factor)
    assert sum(map(len, steps_db)) * 12 == vectors
    assert len(city) > 2
    np.testing.assert_array_equal(
        plan[0], within(start, city.look.limits)[0]
    )  # no requirement is known there
    for s in range(1, 3):
        at = slice(s, s + 1)
        one = replace(city, rounds=city.rounds.select(np.array([s])))
        look = _some(city.look, at)
        slow, known = slow_best_response(one, look, start[at], steps_db)
        alone = best_response(look, start[at], steps_db, city.reward, factor[at])
        np.testing.assert_allclose(plan[at], slow, rtol=1e-12)
        np.testing.assert_allclose(alone, slow, rtol=1e-12)
        assert known.cost(slow)[0] < known.cost(within(start[at], look.limits))[0] - 0.01


def test_a_ue_that_is_away_keeps_its_power(city):
    links = replace(
        city.look.links, serving=np.where(np.arange(12) == 4, -1, city.look.links.serving)
    )
    look = replace(city.look, links=links)
    start = np.full((len(city), 12), -30.0)
    ones = np.ones(len(city))
    steps_db = BEST_RESPONSES["best response, 9 a UE"]
    plan = best_response(look, start, steps_db, city.reward, ones)
    np.testing.assert_allclose(plan[:, 4], 1e-3)


def test_the_sweeps_are_those_of_the_manual():
    nine, twenty = (
        [sorted(s) for s in BEST_RESPONSES[name]]
        for name in ("best response, 9 a UE", "best response, 20 a UE")
    )
    assert nine == [[-8, 0, 8], [-4, 0, 4], [-2, 0, 2]]
    assert twenty == [[-12, -6, 0, 6, 12], [-6, -3, 0, 3, 6], [-4, -2, 0, 2, 4], [-2, -1, 0, 1, 2]]


def test_the_comparison_has_best_responses_and_their_time_beside_its_figures():
    """Every policy that decides in play has a time, and no table of results has it."""
    from scenarios.app.run.events import ignore
    from scenarios.app.training.evaluate import COLUMNS, RecordedGround, decisions_ms

    ground = RecordedGround(study(**SMALL), ignore)
    rows = {row.policy: row for row in ground.held_out}
    assert [rows[name].evaluations for name in BEST_RESPONSES] == [108, 240]
    best = min(rows[rule.law.name].cost for rule in ground.rules)
    assert all(rows[name].cost < best for name in BEST_RESPONSES)
    spent_ms = decisions_ms(ground.held_out)
    assert set(rows) - set(spent_ms) == {"oracle"}
    assert min(spent_ms.values()) > 0
    assert (
        spent_ms["constant"]
        < spent_ms["best response, 9 a UE"]
        < spent_ms["best response, 20 a UE"]
    )
    assert "decision_ms" not in COLUMNS
    assert COLUMNS[:3] == ("policy", "case", "cost")


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ('{"task": "online"}', "task: 'online' is not for this kind"),
        ('{"format": 3,', "Invalid JSON"),
        ("{}", "program: Field required; train the policy again"),
        (
            '{"format": 3, "program": 3}',
            "program: Input should be a valid string; train the policy again",
        ),
    ],
)
def test_a_folder_of_another_kind_is_refused_in_our_words_where_it_was_set(card, said, tmp_path):
    (tmp_path / "policy.json").write_text(card)
    with pytest.raises(BadInput) as refused:
        load("power/city", {"power": {"kind": "shared", "policy": str(tmp_path)}})
    assert f"--set power.policy: {tmp_path / 'policy.json'}: " in str(refused.value)
    assert said in str(refused.value)


def test_a_ue_without_the_model_disturbs_nobody(city):
    """As if it sent with no power at all; the others are heard as they were."""
    links = city.rounds.links
    power_w = np.full((len(city.rounds), 12), 0.1)
    which = np.arange(len(power_w))
    without = replace(links, downlink_bps=np.where(np.arange(12) == 0, 0.0, links.downlink_bps))
    silent = np.where(np.arange(12) == 0, 0.0, power_w)
    sinr = received(power_w, which, without, city.air)[0]
    wanted = received(silent, which, links, city.air)[0]
    np.testing.assert_allclose(sinr[:, 1:], wanted[:, 1:], rtol=1e-12)
    assert (sinr[:, 0] == 0).all()
    assert not np.allclose(wanted, received(power_w, which, links, city.air)[0])


def test_absent_ues_have_features_without_holes():
    """A UE without a signal, as in a replay: what it and the others look like are numbers, the
    others' as with them."""
    from netsim.radio.uplink import Cohort

    rng = np.random.default_rng(0)
    gain = 10 ** rng.uniform(-12, -9, (3, 2))
    gain[1] = np.nan
    nothing = np.zeros(3)
    uplink = study().world.radio.uplink
    cohort = Cohort(
        np.arange(3),
        np.array([0, -1, 1]),
        gain,
        None,
        nothing,
        np.ones(3, int),
        nothing + 9,
        nothing,
        nothing,
    )
    links = Links.of(cohort, replace(cohort, gain=gain[:, :1]), uplink)
    one = np.ones(1)
    look = Look(links, np.zeros((1, 3)), one, one, one, air_of(uplink), Limits())
    for found in (look.features, look._crossing, look.outlook(np.full((1, 3), 1e-3))):
        assert np.isfinite(found).all()
