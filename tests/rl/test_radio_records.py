"""Rounds judged again at other powers: the same laws as live, array by array; rules, oracle, and
the shared policy."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
from numpy import (
    allclose,
    arange,
    argwhere,
    array,
    asarray,
    clip,
    delete,
    float32,
    float64,
    full,
    inf,
    int64,
    isfinite,
    log,
    log10,
    maximum,
    mean,
    minimum,
    moveaxis,
    nan,
    ndarray,
    outer,
    ptp,
    sqrt,
    tanh,
    where,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, fixture, importorskip, mark, raises
from rows import read_yaml
from tabled import cases

from fl.defenses.lapa import compute_artificial_var
from fl.power.search import Limits
from netsim.errors import BadInput
from netsim.rng import Streams
from rl.look import Look
from rl.policy import (
    SharedPolicy,
    compute_ue_features,
    count_ue_features,
    list_layer_shapes,
    plan_dbw,
)
from rl.radio_records import (
    Links,
    Rounds,
    Rows,
    build_air,
    compute_lost_noise,
    compute_received_sinrs,
    judge_vectors,
)
from rl.rules import LAWS, KnownRounds, clip_dbw, limit_to_w, plan_best_responses, tune_rule
from rl.settings import BEST_RESPONSES, Online
from scenarios.app.study.load import load
from scenarios.app.training.environments import Stages, count_ues, get_task

gymnasium = importorskip("gymnasium")
DRAW = default_rng(0)
SHORT = {"world.duration_s": 360}
STREETS = {"world.duration_s": 6 * 3600}


def study(**changes):
    return load("power/city", SHORT | changes)


def live(item):
    from rl.env import OnlinePower

    return OnlinePower(Stages(item, watched=False), count_ues(item), get_task(item, Online))


def record_known(item, world=7):
    from rl.recording import record_world

    env = live(item)
    rounds, look = record_world(
        env, lambda seen: limit_to_w(3.0 - 0.75 * seen.snr_db, seen.limits), world
    )
    return KnownRounds(
        rounds, look, build_air(item.world.radio.uplink, item.round_s), env.task.reward
    )


@fixture(scope="module")
def city():
    return record_known(study())


UPLINKS = [
    "",
    "world.radio.uplink: {kind: noma, interference: intra, sic_residual: 0.3}",
    "world.radio.uplink: {kind: noma, interference: none}",
    "world.radio.uplink: {kind: noma, group_size: 3, sic_residual: 0.05, deadline_s: 0.012}",
    "world.radio.uplink: {kind: noma, max_ser: 0.1, deadline_s: 0.004}",
    "world.radio.uplink: {kind: noma, interference: intra, group_size: 2, deadline_s: 0.1}",
    "world.radio.uplink: {kind: noma, deadline_s: 0.05, interference_over_thermal_db: 6, uplink_share: 0.3}",
    "world.radio.fading: {kind: none}",
    "world.radio.fading.antennas: 1",
    "learning.threat: {n_targets: 4}",
    "world.ues.max_power_dbm: 10, train.task.limits.each_max_w: 2.0, train.task.limits.total_max_w: 24.0",
    "",
][:-1]
"""Changes of the study, the first of which is none."""


@mark.parametrize("changes", [read_yaml(line) for line in UPLINKS], ids=range(len(UPLINKS)))
def test_a_recorded_round_costs_what_it_costs_live(changes):
    """At other powers than those that it was recorded with, also than a UE can send: noise, losses,
    leak, energy."""
    costs_what_it_costs_live(study(**changes))


def test_a_recorded_round_in_the_streets_costs_what_it_costs_live():
    """Three sectors of one mast, people in rooms and on the way, other towns in other worlds."""
    costs_what_it_costs_live(load("power/streets", STREETS))


CLIP = {"kind": "clip", "norm": 2.0}
LAPA = read_yaml(
    "kind: lapa, epsilon_system_total: 17280, epsilon_cap: 300, rounds: 24, "
    "sensitivity: mean-clip, gain_last: 0, gain_mean: 1, window: 5"
)
SWITCHES = read_yaml("""
    aggregate: {mode: first-crossing, criterion: aggregate},
    per-device: {mode: first-crossing, criterion: per-device},
    planned: {mode: planned, until_round: 3},
    always: null
""")


@mark.parametrize("name", SWITCHES)
def test_a_recorded_round_draws_noise_as_live(name):
    """All that is required until a criterion holds, at the powers of this round, or until a planned
    one; then none."""
    switch = SWITCHES[name]
    values = LAPA if switch is None else {"kind": "noise-switch", "noise": LAPA, **switch}
    noise_w = 1e-14 if name == "aggregate" else 1e-11
    change = {
        "learning.defenses": [CLIP, values],
        "world.radio.uplink.noise_w": noise_w,
        "world.duration_s": 720,
    }
    drawn = costs_what_it_costs_live(study(**change), default_rng(0))
    if switch:
        last = {"planned": 3, "first-crossing": drawn.index(False)}[switch["mode"]]
    else:
        last = len(drawn)
    assert drawn == [s < last for s in range(len(drawn))]
    assert switch is None or 0 < last < len(drawn)


def test_rounds_are_recorded_with_what_was_drawn_there():
    """Judged at the powers that they were played with, all rounds of a world cost what they cost
    then."""
    from rl.problem import convert_to_action
    from rl.recording import play_costs, record_world

    values = {"kind": "noise-switch", "noise": LAPA, **SWITCHES["aggregate"]}
    item = study(
        **{
            "learning.defenses": [CLIP, values],
            "world.radio.uplink.noise_w": 1e-13,
            "world.duration_s": 720,
        }
    )
    rule = lambda look: limit_to_w(3.0 - 0.75 * look.snr_db, look.limits)  # noqa: E731
    env = live(item)
    rounds, _ = record_world(env, rule, 7)

    def act(env, seen):
        power_w = rule(Look.from_context(env.context, env.task.limits))[0]
        return convert_to_action(power_w, env.task.limits)

    costs = []
    power_w = full((len(rounds.count), env.n_ue), nan)
    for cost, _ in play_costs(env, act, 7):
        sent = env.outcome.merges[-1].uploads
        power_w[len(costs), sent.ue] = sent.channel.power_w
        costs.append(cost)
    result = judge_vectors(
        rounds, build_air(item.world.radio.uplink, item.round_s), power_w, arange(len(costs))
    )
    for name in ("noise", "lost", "leak", "energy_j"):
        assert_allclose(result.figures[name], [cost.figures[name] for cost in costs], rtol=1e-9)
    assert result.drawn.any(axis=1).tolist() == [cost.artificial for cost in costs]


def test_how_noise_is_drawn_by_hand():
    """Two rows that require 2 and 3, beside a channel of 1 and 3.5, 4 and 1, or 2 and 3."""
    required = array([2.0, 3.0]) ** 2
    channel = array([[1.0, 3.5], [4.0, 1.0], [2.0, 3.0]]) ** 2
    whole = read_yaml(
        "all: [1, 1, 1], none: [0, 0, 0], aggregate: [1, 0, 0], per-device: [1, 1, 0]"
    )
    for drawing, rounds in whole.items():
        assert_array_equal(
            compute_artificial_var(drawing, required, channel), outer(rounds, required)
        )
    expected = [[3, 0], [0, 8], [0, 0]]
    assert_array_equal(compute_artificial_var("top-up", required, channel), expected)


def costs_what_it_costs_live(item, draw=DRAW):
    """Whether noise was drawn, round by round."""
    from rl.problem import convert_to_power_w

    env = live(item)
    values = record_known(item)
    drawn = []
    env.reset(options={"world": 7})
    for s in range(len(values)):
        action = draw.uniform(-1, 1, 12).astype(float32)
        # the noise that budgets ask for hangs on what has arrived; a round is compared with its own
        # requirements
        _, reward, _, _, info = env.step(action)
        single = replace(values.rounds.select(array([s])), rows=env.cost.rows)
        asked_w = convert_to_power_w(action.astype(float64), env.task.limits)
        power_w = minimum(asked_w, values.look.max_power_w)
        costs = judge_vectors(single, values.air, power_w[None], zeros(1, int64))
        result = costs.figures
        drawn.append(bool(costs.drawn.any()))
        assert drawn[-1] == env.cost.artificial
        actual = replace(values, rounds=single).compute_costs(asked_w[None])[0]
        assert_allclose(actual, -reward, rtol=1e-9)
        for name in ("noise", "lost", "leak", "energy_j"):
            assert result[name][0] == approx(info[name], rel=1e-9, abs=1e-12), (s, name)
        assert_allclose(env.task.reward.cost(result)[0], -reward, rtol=1e-9)
    return drawn


def get_dbw(policy, look):
    """Powers in dBW before they are made to fit the limits of the total."""
    return plan_dbw(look, policy.rule, policy.act, policy.passes, policy.probes)


def build_shared(city, last=0.0, **kw):
    """A policy of random layers; last: the spread of those of its last one."""
    n = count_ue_features("probes" in kw)
    layers = tuple(
        (
            DRAW.normal(0, 0.3 if k else last, shape).astype(float32),
            zeros(shape[0], float32),
        )
        for k, shape in zip((1, 0), list_layer_shapes(n, (8,), 1), strict=True)
    )
    scale = DRAW.normal(0, 1, n), DRAW.uniform(0.5, 2, n)
    return SharedPolicy(
        layers, tune_rule(LAWS[-1], city, 1, Streams(0).derive_rng("t")), *scale, **kw
    )


PASSES = [{}, {"passes": 3}, {"passes": 2, "probes": load("power/city").train.task.reward}]


@mark.parametrize("kw", PASSES, ids=["one", "three", "probes"])
def test_an_actor_whose_last_layer_is_zero_is_the_rule(city, kw):
    policy = build_shared(city, **kw)
    assert_allclose(policy.power_w(city.look), policy.rule.power_w(city.look), rtol=1e-12)


@mark.parametrize("kw", PASSES, ids=["one", "three", "probes"])
def test_the_shared_actor_by_hand(city, kw):
    """UE after UE, pass after pass: ten times tanh of two layers of its standardised features,
    which are cut; 0 dB for one that is away.
    """
    policy = build_shared(city, 1.0, cut=1.5, **kw)
    links = replace(city.look.links, serving=where(arange(12) == 5, -1, city.look.links.serving))
    look = replace(city.look, links=links)
    (w, b), (v, c) = policy.layers
    low, high = (10 * log10(x) for x in (look.limits.each_min_w, look.limits.each_max_w))
    rule = clip(policy.rule.dbw(look), low, high)
    dbw = rule.copy()
    for _ in range(policy.passes):
        features = compute_ue_features(look, dbw, rule, policy.probes)
        for s, k in argwhere(look.is_served):
            seen = clip((features[s, k] - policy.mean) / policy.std, -1.5, 1.5)
            moved = dbw[s, k] + 10 * tanh(v[0] @ maximum(w @ seen + b, 0) + c[0])
            dbw[s, k] = min(max(moved, low), high)
    assert_allclose(get_dbw(policy, look), dbw, atol=1e-3)
    assert_array_equal(dbw[:, 5], rule[:, 5])
    assert ptp(get_dbw(policy, look) - rule) > 5.0


NEIGHBOURS = {
    "world.duration_s": 4 * 86_400,
    "world.city": {"kind": "town", "width_m": 600, "height_m": 600},
    "world.ues.count": 12,
    "world.ues.compute_j_per_sample": 1e-3,
    "world.ues.training_s_per_sample": 1e-2,
    "learning.learner.hidden": [8],
}
GAUSSIAN = read_yaml(
    "learning.defenses: [{kind: clip, norm: 0.3}, {kind: gaussian, noise_multiplier: 0.5}]"
)
BY_LABELS = {"learning.aggregation": {"kind": "wasserstein", "distance": "label-range"}}


def leaves(value):
    """All arrays and numbers of a value, as bytes."""
    if is_dataclass(value):
        return [leaf for f in fields(value) for leaf in leaves(getattr(value, f.name))]
    if isinstance(value, ndarray | float):
        return [(np.shape(value), asarray(value).tobytes())]
    return []


@mark.parametrize("changes", [{}, GAUSSIAN, BY_LABELS], ids=range(3))
def test_rounds_without_training_are_those_with_it(changes):
    """Links, rows, weights, sizes, the work of UEs and the knowledge before each round, to the last
    bit."""
    from rl.recording import record_world

    env = live(load("power/next-door", NEIGHBOURS | changes))
    assert not env.stage.learns
    item = []
    for learns in (False, True):
        env.stage.learns = learns
        item.append(record_world(env, lambda seen: limit_to_w(-14.0 - seen.snr_db, seen.limits), 7))
        moved = abs(env.state.model.parameters - env.stage(7).state.model.parameters).max()
        assert (moved > 0) == learns
    assert item[0][0].count.any()
    assert item[0][0].compute_j.any()
    for once, trained in zip(*item, strict=True):
        assert leaves(once) == leaves(trained)


@mark.parametrize(
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


@mark.parametrize("kw", PASSES, ids=["one", "three", "probes"])
def test_exchanging_ues_exchanges_features_and_powers(city, kw):
    order = DRAW.permutation(12)
    look = city.look
    links = look.links
    moved = replace(
        look,
        links=Links(
            links.h[:, order],
            links.heard[:, order],
            links.serving[:, order],
            links.downlink_bps[:, order],
        ),
        required_std=look.required_std[:, order],
    )
    policy = build_shared(city, 0.3, **kw)
    assert_allclose(moved.features, look.features[:, order], atol=1e-12)
    power_w = full((len(city), 12), 1e-3) * 10 ** DRAW.uniform(-1, 1, 12)
    expected = look.predict_outcome(power_w)[:, order]
    assert_allclose(
        moved.predict_outcome(power_w[:, order]),
        expected,
        atol=1e-9,
    )
    assert_allclose(moved._crossing, look._crossing[:, order][:, :, order])
    assert_allclose(get_dbw(policy, moved), get_dbw(policy, look)[:, order], atol=1e-4)
    assert ptp(get_dbw(policy, look) - clip_dbw(policy.rule.dbw(look), look.limits)) > 1.0


def test_what_would_come_of_powers_of_a_ue_that_is_alone(city):
    """Without others, SINR is SNR, at the base station and at the eavesdropper; and there is no
    interference."""
    look = city.look
    links = city.look.links
    k = 3
    serving = where(arange(12) == k, links.serving, -1)
    alone = replace(look, links=replace(links, serving=serving))
    power_w = full(serving.shape, 1e-3)
    power, decoded, margin, exposed, *sums, _, below, _ = moveaxis(
        alone.predict_outcome(power_w), 2, 0
    )
    for item in (*sums, below):
        assert_allclose(item[:, k], (-60 - 10) / 20)  # the least: nothing
    assert_array_equal(delete(alone.predict_outcome(power_w), k, axis=1), 0.0)
    assert_allclose(power[:, k], -1.0)  # -30 dBW, 0 at -20, a unit 10 dB
    h = links.h[arange(len(serving)), k, serving[:, k]]
    snr_db = 10 * log10(1e-3 * (abs(h) ** 2).sum(axis=1) / city.air.noise_w)
    assert (abs(snr_db) < 50).all()
    assert_allclose(20 * decoded[:, k] + 10, snr_db)
    assert_allclose(20 * margin[:, k], clip(snr_db - look.required_db[:, k], -50, 50))
    heard_db = 10 * log10(1e-3 * abs(links.heard[:, k, 0, 0]) ** 2 / city.air.noise_w)
    assert_allclose(20 * exposed[:, k] + 10, clip(heard_db, -50, 50))


def test_what_would_come_of_powers_is_what_rounds_are_judged_by(city):
    """Those that send alone count, as in a round: SINR after cancellation in both cells."""
    from rl.radio_records import compute_received_sinrs

    rounds = city.rounds
    look = city.look
    look = replace(look, links=replace(look.links, serving=rounds.links.serving))
    power_w = 10 ** DRAW.uniform(-5, -1, look.snr_db.shape)
    sinr, _, _ = compute_received_sinrs(power_w, arange(len(rounds)), rounds.links, city.air)
    sends = look.is_served
    expected = clip(10 * log10(sinr[sends]), -50, 50)
    assert_allclose(20 * look.predict_outcome(power_w)[..., 1][sends] + 10, expected)
    # interference counts
    assert ptp(expected - 10 * log10(power_w[sends]) - look.snr_db[sends]) > 10


@mark.parametrize("kind", ["oma", "noma"])
def test_a_policy_plays_over_either_band(kind, tmp_path):
    """Over orthogonal bands what would come of powers has no interference."""
    air = build_air(load("power/city", {"world.radio.uplink": {"kind": kind}}).world.radio.uplink)
    look = replace(record_known(study()).look, air=air)
    power_w = full(look.snr_db.shape, 1e-4)
    decoded_db = 20 * look.predict_outcome(power_w)[..., 1] + 10
    assert allclose(decoded_db, look.snr_db - 40) == (kind == "oma")


def test_tuning_finds_the_best_of_a_grid(city):
    law = LAWS[2]
    result = tune_rule(law, city, 8_000, Streams(1).derive_rng("t"))
    grid = [
        city.compute_costs(limit_to_w(law.dbw(city.look, array([p])), city.look.limits)).mean()
        for p in arange(-20, 40, 0.5)
    ]
    assert result.cost <= min(grid) + 0.02
    assert result.evaluations <= 8_000
    assert_allclose(result.cost, city.compute_costs(result.power_w(city.look)).mean())


def test_without_interference_a_rule_is_the_optimum():
    """Costs separate over UEs: at the required SNR of this very round the search finds nothing
    better."""
    from rl.rules import search_best_powers

    item = study(
        **read_yaml(
            "world.radio.uplink: {kind: noma, interference: none}, "
            "learning.data.cell: strongest, train.task.reward: {noise: 1}, "
            "learning.threat: {n_targets: 4}"
        )
    )
    values = record_known(item)
    gamma = full(values.look.snr_db.shape, nan)
    # below, nothing arrives, and more than is required costs nothing
    decoded = values.air.floor_sinr * (1 + 1e-9)
    for s in range(len(values)):
        chosen = values.rounds.rows.ue[s] >= 0
        rows = values.rounds.rows
        gamma[s, rows.ue[s, chosen]] = maximum(
            (rows.rho[s] / rows.required_std[s, chosen]) ** 2, decoded
        )
    dbw = where(isfinite(gamma), 10 * log10(gamma) - values.look.snr_db, -60.0)
    limits = Limits(each_min_w=1e-12, each_max_w=1e6, total_max_w=1e9)
    wide = replace(values, look=replace(values.look, limits=limits, max_power_w=inf))
    rule = wide.compute_costs(limit_to_w(dbw, wide.look.limits))
    assert_allclose(rule, 0.0, atol=1e-9)
    result = search_best_powers(wide, [dbw, dbw + 5.0]).cost
    assert (result >= rule - 1e-9).all()


def test_the_oracle_is_no_worse_than_where_it_begins_and_knows_small_worlds(city):
    from rl.rules import search_best_powers

    single = KnownRounds(
        city.rounds.select(arange(2)), _select_rounds(city.look, slice(2)), city.air, city.reward
    )
    start = LAWS[1].dbw(single.look, array([3.0, 0.75]))
    result = search_best_powers(single, [start])
    cost = result.cost
    power_w = result.power_w
    assert result.judged > 2 * 90
    assert (cost <= single.compute_costs(limit_to_w(start, single.look.limits)) + 1e-12).all()
    assert_allclose(single.compute_costs(power_w), cost)
    tried = DRAW.uniform(-57, -7, (4000, 12))
    for s in range(2):
        expected = single.compute_costs(limit_to_w(tried, single.look.limits), full(4000, s)).min()
        assert cost[s] <= expected


def _select_rounds(look, rounds):
    links = Links(
        *(getattr(look.links, name)[rounds] for name in ("h", "heard", "serving", "downlink_bps"))
    )
    part = {
        name: getattr(look, name)[rounds] for name in ("required_std", "rho", "n_bits", "progress")
    }
    return replace(look, links=links, **part)


@mark.parametrize(
    "level_db, lower, upper",
    cases("""
    -25.0, 0, 2
    -12.0, 1, 6
    25.0, 6, 6
"""),
)
def test_t_th_is_the_last_round_in_which_thermal_noise_lacks_something(level_db, lower, upper):
    """T_th = max{t : some row has SNR(t) > Gamma(t)}, Gamma = rho^2 / sigma^2 of that row (top-up):
    power moves it."""
    from rl.problem import convert_to_action

    env = live(study(**{"train.task.limits.each_min_w": 1e-12}))
    lacking = 0
    env.reset(options={"world": 3})
    while not env.over:
        context = env.context
        env.step(
            convert_to_action(
                limit_to_w(level_db - measure_snr_db(env), env.task.limits)[0], env.task.limits
            ).astype(float32)
        )
        rows = env.cost.rows
        snr = (context.snr_per_w * env.last_w)[rows.ue[0]]
        if (snr > (context.scale / rows.required_std[0]) ** 2 * (1 + 1e-9)).any():
            lacking = env.state.played
        assert env.t_th == lacking
    assert lower <= lacking <= upper


def measure_snr_db(env):
    from rl.recording import observe_next_round

    return observe_next_round(env).snr_db


def test_a_rule_is_played_as_it_was_tuned(tmp_path):
    """Equal SNR of 10 dB: every UE arrives 10 dB over thermal noise, as far as its limits allow."""
    from scenarios.app.result import run
    from scenarios.app.results.folder import read_record_table

    limits = read_yaml("each_min_w: 1e-07, each_max_w: 0.2, total_min_w: 0, total_max_w: 2.4")
    power = {"kind": "rule", "rule": "equal SNR", "parameters": [10.0], "limits": limits}
    run(study(power=power, train=None), tmp_path / "run", lambda progress: None)
    links = read_record_table(tmp_path / "run", "links")
    env = live(study())
    env.reset(options={"world": 4})
    expected = limit_to_w(10.0 - measure_snr_db(env), Limits(**limits))[0]
    first = links["round"] == 1
    assert_allclose(links["power_w"][first], expected[links["ue"][first].astype(int)], rtol=1e-6)


SMALL = read_yaml(
    "train.task.train_worlds: 1, train.task.tune_worlds: 1, "
    "train.task.tune_evaluations: 600, train.task.held_out: 1, "
    "train.task.eval_worlds: 1, train.steps: 8, train.eval_every: 4"
)


@mark.parametrize(
    "changes, message",
    cases("""
    {"train.agent": {"kind": "score-function"}}, "score-function"
    {"power": {"kind": "shared", "policy": "/nowhere"}}, "No such file"
    {"power": {"kind": "rule", "rule": "fractional", "parameters": [1.0]}}, "'fractional'
        has 2, in this order: p"
"""),
)
def test_what_does_not_fit_is_refused(changes, message):
    with raises(BadInput, match=message):
        load("power/city", SMALL | changes)


@mark.parametrize(
    "name, change, message",
    cases("""
    "", ('"rule": "log-linear"', '"rule": "magic"'), "magic"
    "", ('"passes": 2', '"passes": 0'), "passes: Input should be greater than or equal to 1"
    "", ('"cut": 3.0', '"cut": 0.0'), "cut: Input should be greater than 0"
    "", ('"format": 3', '"format": 2'), "format: Input should be 3; train the policy again"
    "layers.1.bias", [0, 0], "its card asks for"
    "layers.1.bias", ["nan"], "its card asks for finite"
    "other", [0], "'other' is unknown"
    "std", None, "std has 0, not above 0"
"""),
)
def test_a_damaged_policy_is_one_line(name, change, message, tmp_path, city):
    from rl.policy import SharedCard, load_shared, save_shared

    policy = build_shared(city, 0.3, passes=2, probes=city.reward, cut=3.0)
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
    assert_array_equal(back.power_w(city.look), policy.power_w(city.look))
    if name:
        _change_weights(tmp_path, name, change)
    else:
        _edit(tmp_path, *change)
    with raises(BadInput, match=message) as error:
        load_shared(tmp_path)
    assert len(error.value.lines) == 1


def _edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "policy.json").read_text()
    assert old in text
    (folder / "policy.json").write_text(text.replace(old, new))


def _change_weights(folder: Path, name: str, values: list | None) -> None:
    """Overwrite an array of a policy, by default with zeros."""
    from safetensors.numpy import load_file, save_file

    stored = load_file(folder / "policy.safetensors")
    changed = stored[name] * 0 if values is None else array(values).astype(float32)
    save_file(stored | {name: changed}, folder / "policy.safetensors")


def test_the_law_of_costs_by_hand():
    """Three rows of two UEs, the last one lost: rho 2, thermal noise 4/SNR, decoder 4/SINR, kappa
    10, A^left 0.5."""
    from rl.radio_records import Rows, Sent, compute_radio_costs

    sinr, snr, heard, required, weight = array(
        cases("""
        2.0, 2.0, 0.5
        4.0, 4.0, 1.0
        8.0, 8.0, 0.25
        3.0, 0.5, 2.0
        0.5, 0.5, 1.0
    """)
    )[:, None]
    inputs = (
        Sent(sinr, snr, array([[True, True, False]]), heard),
        array([[0.1, 0.2]]),
        Rows(array([[0, 0, 1]]), weight, required, *array([[2.0], [0.5], [10.0]]), zeros(1, int)),
    )
    result = compute_radio_costs(*inputs)
    drawn = [9.0 - 1.0, 0.0, 0.0]  # thermal noise is 1, 1 and 4
    suffered = 0.25 * (drawn[0] + 2.0) + 0.25 * (drawn[1] + 2.0) + 1.0 * (4.0 + 10.0 * 4.0)
    expected = 0.5 * log(suffered / (0.25 * 9.0 + 0.25 * 0.25 + 4.0))
    assert_allclose(result.figures["noise"][0], expected)
    z = [1 / (8.0 / 4.0 + 1 / 8.0), 8.0, 0.25]
    assert_allclose(result.figures["leak"][0], mean([x / (1 + x) for x in z]))
    half = compute_radio_costs(*inputs, half_at=0.03).figures
    assert_allclose(half["leak"][0], mean([x / (0.03 + x) for x in z]))
    assert half | {"leak": result.figures["leak"]} == result.figures
    assert_allclose(result.figures["lost"][0], 1 / 3)
    assert_allclose(result.figures["energy_j"][0], 0.3)
    assert_array_equal(result.drawn, [[True, False, False]])


def test_random_search_is_the_best_of_its_draws_and_counts_them(city):
    from rl.rules import draw_best_random

    law = LAWS[-1]
    rng = Streams(3).derive_rng("rules")
    single, many = (draw_best_random(law, city, n * len(city), rng) for n in (1, 40))
    assert (single.evaluations, many.evaluations) == (len(city), 40 * len(city))
    drawn = array(law.start) + array(law.spread) * rng.normal("random.log-linear", arange(40), (6,))
    costs = [
        city.compute_costs(limit_to_w(law.dbw(city.look, p), city.look.limits)).mean()
        for p in drawn
    ]
    assert many.cost == min(costs)
    assert single.cost == costs[0] > many.cost


def slow_best_response(single, look, start_dbw, steps_db):
    """One round, one vector after the other; the same law of costs with 45 % of the deadline and 1
    dB more noise."""
    std = look.required_std[0] * 10 ** (1 / 20)
    std = where(std > 0, std, sqrt(mean(std[std > 0] ** 2)))
    air = single.air._replace(deadline_s=0.45 * single.air.deadline_s)
    rows = Rows(
        arange(12)[None],
        full((1, 12), 1 / 12),
        std[None],
        look.rho,
        array([0.9]),
        compute_lost_noise(single.air, look.n_bits),
        zeros(1, int),
    )
    nothing = zeros((1, 12))
    rounds = Rounds(look.links, rows, np.ones((1, 12), int), look.n_bits, nothing, nothing)
    recorded = KnownRounds(rounds, look, air, single.reward)
    low, high = (10 * log10(x) for x in (look.limits.each_min_w, look.limits.each_max_w))
    dbw = clip(start_dbw[0], low, high)
    for steps in steps_db:
        for k in sorted(range(12), key=lambda k: -(dbw[k] + look.snr_db[0, k])):
            best = None
            for step in steps:
                tried = dbw.copy()
                tried[k] = min(max(dbw[k] + step, low), high)
                cost = recorded.compute_costs(limit_to_w(tried[None], look.limits))[0]
                if best is None or cost < best[0]:
                    best = cost, tried
            dbw = best[1]
    return limit_to_w(dbw[None], look.limits), recorded


@mark.parametrize("name, vectors", [("9 a UE", 108), ("20 a UE", 240)])
def test_best_responses_are_those_of_one_vector_after_the_other(city, name, vectors):
    """For rounds at once and for a single one; what is planned costs no more than the start."""
    steps_db = BEST_RESPONSES[f"best response, {name}"]
    known_look = city.look
    assert (known_look.required_std[1:] > 0).all()
    assert not known_look.required_std[0].any()
    start = LAWS[1].dbw(known_look, array([3.0, 0.75]))
    factor = full(len(city), 0.9)
    plan = plan_best_responses(known_look, start, steps_db, city.reward, factor)
    assert sum(map(len, steps_db)) * 12 == vectors
    assert len(city) > 2
    # no requirement is known there
    assert_array_equal(plan[0], limit_to_w(start, known_look.limits)[0])
    for s in range(1, 3):
        place = slice(s, s + 1)
        single = replace(city, rounds=city.rounds.select(array([s])))
        look = _select_rounds(known_look, place)
        slow, recorded = slow_best_response(single, look, start[place], steps_db)
        alone = plan_best_responses(look, start[place], steps_db, city.reward, factor[place])
        assert_allclose(plan[place], slow, rtol=1e-12)
        assert_allclose(alone, slow, rtol=1e-12)
        expected = recorded.compute_costs(limit_to_w(start[place], look.limits))[0] - 0.01
        assert recorded.compute_costs(slow)[0] < expected


def test_a_ue_that_is_away_keeps_its_power(city):
    links = replace(city.look.links, serving=where(arange(12) == 4, -1, city.look.links.serving))
    look = replace(city.look, links=links)
    start = full((len(city), 12), -30.0)
    ones = np.ones(len(city))
    steps_db = BEST_RESPONSES["best response, 9 a UE"]
    plan = plan_best_responses(look, start, steps_db, city.reward, ones)
    assert_allclose(plan[:, 4], 1e-3)


def test_the_sweeps_are_those_of_the_manual():
    swept = {
        name: [sorted(steps_db) for steps_db in sweeps] for name, sweeps in BEST_RESPONSES.items()
    }
    assert swept == read_yaml("""
        "best response, 9 a UE": [[-8, 0, 8], [-4, 0, 4], [-2, 0, 2]],
        "best response, 20 a UE": [[-12, -6, 0, 6, 12], [-6, -3, 0, 3, 6], [-4, -2, 0, 2, 4],
                                   [-2, -1, 0, 1, 2]]
    """)


def test_the_comparison_has_best_responses_and_their_time_beside_its_figures():
    """Every policy that decides in play has a time, and no table of results has it."""
    from scenarios.app.run.events import ignore_event
    from scenarios.app.training.evaluate import COLUMNS, RecordedGround, average_decisions_ms

    ground = RecordedGround(study(**SMALL), ignore_event)
    rows = {row.policy: row for row in ground.held_out}
    assert [rows[name].evaluations for name in BEST_RESPONSES] == [108, 240]
    best = min(rows[rule.law.name].cost for rule in ground.rules)
    assert all(rows[name].cost < best for name in BEST_RESPONSES)
    spent_ms = average_decisions_ms(ground.held_out)
    assert set(rows) - set(spent_ms) == {"oracle"}
    assert min(spent_ms.values()) > 0
    assert (
        spent_ms["constant"]
        < spent_ms["best response, 9 a UE"]
        < spent_ms["best response, 20 a UE"]
    )
    assert "decision_ms" not in COLUMNS
    assert COLUMNS[:3] == ("policy", "case", "cost")


@mark.parametrize(
    "card, message",
    cases("""
    '{"task": "online"}', "task: 'online' is not for this kind"
    '{"format": 3,', "Invalid JSON"
    "{}", "program: Field required; train the policy again"
    '{"format": 3, "program": 3}', "program: Input should be a valid string; train the
        policy again"
"""),
)
def test_a_folder_of_another_kind_is_refused_in_our_words_where_it_was_set(card, message, tmp_path):
    (tmp_path / "policy.json").write_text(card)
    with raises(BadInput) as refused:
        load("power/city", {"power": {"kind": "shared", "policy": str(tmp_path)}})
    assert f"load(power.policy): {tmp_path / 'policy.json'}: " in str(refused.value)
    assert message in str(refused.value)


def test_a_ue_without_the_model_disturbs_nobody(city):
    """As if it sent with no power at all; the others are heard as they were."""
    links = city.rounds.links
    power_w = full((len(city.rounds), 12), 0.1)
    round_index = arange(len(power_w))
    without = replace(links, downlink_bps=where(arange(12) == 0, 0.0, links.downlink_bps))
    silent = where(arange(12) == 0, 0.0, power_w)
    sinr = compute_received_sinrs(power_w, round_index, without, city.air)[0]
    expected = compute_received_sinrs(silent, round_index, links, city.air)[0]
    assert_allclose(sinr[:, 1:], expected[:, 1:], rtol=1e-12)
    assert (sinr[:, 0] == 0).all()
    assert not allclose(expected, compute_received_sinrs(power_w, round_index, links, city.air)[0])


def test_absent_ues_have_features_without_holes():
    """A UE without a signal, as in a replay: what it and the others look like are numbers, the
    others' as with them."""
    from netsim.radio.uplink import Cohort

    rng = default_rng(0)
    gain = 10 ** rng.uniform(-12, -9, (3, 2))
    gain[1] = nan
    nothing = zeros(3)
    uplink = study().world.radio.uplink
    cohort = Cohort(
        arange(3),
        array([0, -1, 1]),
        gain,
        None,
        nothing,
        np.ones(3, int),
        nothing + 9,
        nothing,
        nothing,
    )
    links = Links.from_cohorts(cohort, replace(cohort, gain=gain[:, :1]), uplink)
    single = np.ones(1)
    look = Look(links, zeros((1, 3)), single, single, single, build_air(uplink), Limits())
    for result in (look.features, look._crossing, look.predict_outcome(full((1, 3), 1e-3))):
        assert isfinite(result).all()
