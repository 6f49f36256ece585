"""What devices hold back: pauses, limits by day, zones, coins; and runs in which they do."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import local_data
import numpy as np
import pandas as pd
from arrays import read_array
from interrupted import run_in_two
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark, raises
from rows import read_yaml
from tabled import cases

from fl.data.measured import Measured
from fl.privacy.gaussian import compute_gaussian_epsilon, compute_gaussian_multiplier
from fl.types import Public, RoundContext
from fl.withholding import (
    WITHHOLDINGS,
    Cooldown,
    DailyLimit,
    HomeZone,
    RandomSilence,
    RequestedData,
)
from netsim.clock import DAY_S, Clock
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run

RNG = Streams(5).derive_rng("withholding.x")
PUBLIC = Public(Area(0.0, 0.0, 1000.0, 1000.0), 1)


def facts(round_=1, time_s=0.0, day=0):
    return RoundContext(round_, time_s, PUBLIC, day=day)


def make_local(places, model=None):
    """One row a UE (or more, where models say so), from lists of places."""
    if model is None:
        model = [(ue, 0) for ue in range(len(places))]
    ue, models = np.transpose(model)
    x = np.concatenate(places).astype(float)
    return local_data.make_local([*map(len, places)], x, np.zeros(len(x)), ue, models)


def ask_ues(
    n=4, current=None, local=None, measured=None, home_m=None, position_m=None, serving=None
):
    """n UEs with one sample each at the origin, unless said otherwise."""
    local = local or make_local([[(0, 0)]] * n)
    if home_m is None:
        home_m = np.full((n, 2), np.nan)
    if position_m is None:
        position_m = np.zeros((len(home_m), 2))
    if serving is None:
        serving = np.full(len(home_m), -1)
    places_m = (np.array(values, dtype=float) for values in (home_m, position_m))
    return RequestedData(local, measured or local, current or facts(), *places_m, np.array(serving))


def play_rule(rule, times, n=4, rng=RNG):
    """Which UEs (rounds, n) speak when everybody is asked at each of these facts."""
    state = rule.start(n)
    spoke = []
    for current in times:
        speaks = rule.keep(ask_ues(n, current), state, rng)
        state = rule.note_sent(np.flatnonzero(speaks), current, state, rng)
        spoke.append(speaks)
    return np.array(spoke)


def list_rounds(n):
    """The facts of rounds a minute apart."""
    return [facts(t, 60.0 * t, int(np.ceil(60.0 * t / DAY_S)) - 1) for t in range(1, n + 1)]


@mark.parametrize("part", WITHHOLDINGS.parts.values(), ids=list(WITHHOLDINGS.parts))
def test_adding_a_ue_changes_nothing_for_the_others(part):
    few = play_rule(part(**part.example), list_rounds(12), 20)
    many = play_rule(part(**part.example), list_rounds(12), 41)
    assert few.dtype == np.bool_
    assert few.tolist() == many[:, :20].tolist()


@mark.parametrize(
    "rule", [Cooldown(rounds=2, jitter=3.0), RandomSilence(probability=0.5)], ids=["pause", "coin"]
)
def test_draws_hang_on_the_seed_alone(rule):
    first, again = (play_rule(rule, list_rounds(30), 50) for _ in range(2))
    second = play_rule(rule, list_rounds(30), 50, Streams(6).derive_rng("withholding.x"))
    assert (first == again).all()
    assert (first != second).sum() > 100


@mark.parametrize("k", [1, 2, 5])
def test_a_ue_speaks_in_every_round_after_k_of_silence(k):
    spoke = play_rule(Cooldown(rounds=k), list_rounds(24))
    assert (np.flatnonzero(spoke[:, 0]) == np.arange(0, 24, k + 1)).all()
    assert (spoke == spoke[:, :1]).all()


def test_a_pause_in_seconds_ends_at_its_end():
    times_s = [0.1, 60.0, 120.0, 179.9, 180.0, 239.9, 300.0]
    spoke = play_rule(Cooldown(time_s=120), [facts(i + 1, t) for i, t in enumerate(times_s)], 1)
    assert [t for t, s in zip(times_s, spoke[:, 0], strict=True) if s] == [0.1, 179.9, 300.0]


@mark.parametrize("n", [1, 3, 24])
def test_the_first_updates_of_each_local_day_are_sent(n):
    clock = Clock(date(2026, 1, 5))
    hours = [facts(h, 3600.0 * h, clock.find_ended_day(3600.0 * h)) for h in range(1, 73)]
    # a window that ends at midnight closes the day
    spoke = play_rule(DailyLimit(updates=n), hours)[:, 0].reshape(3, 24)
    assert (spoke == (np.arange(24) < n)).all()


def test_an_exact_zone_drops_what_was_measured_within_its_radius_of_the_own_home():
    local = make_local([[(30, 40), (30.01, 40), (500, 0)], [(0, 0), (530, 0)], [(0, 0)]])
    home_m = [(0, 0), (500, 0), (np.nan, np.nan)]
    zone = HomeZone(radius_m=50, centre="exact")
    kept = zone.keep(ask_ues(3, local=local, home_m=home_m), None, RNG)
    assert kept.tolist() == [False, True, True, True, False, True]


def test_a_shifted_zone_has_the_home_anywhere_within():
    n = 50_000
    rule = HomeZone(radius_m=100)
    home_m = np.arange(2 * n).reshape(n, 2) * 1.0
    centre_m = rule.draw_centre_m(home_m, RNG)
    away_m = centre_m - home_m
    r_m = np.hypot(*away_m.T)
    angle = np.arctan2(*away_m.T)
    assert r_m.max() <= 100
    expected = approx(0.5, abs=4.5 / np.sqrt(12 * n))
    assert (r_m**2).mean() / 100**2 == expected  # uniform on the circle
    assert np.abs(np.exp(1j * angle).mean()) < 4.5 / np.sqrt(n)
    again_m = rule.draw_centre_m(home_m[:10], RNG)
    assert (again_m == centre_m[:10]).all()
    at_home = make_local([[tuple(h)] for h in home_m[:500]])
    assert not rule.keep(ask_ues(500, local=at_home, home_m=home_m[:500]), None, RNG).any()


def test_an_update_is_held_back_for_any_measurement_in_a_zone_also_a_held_out_one():
    rule = HomeZone(radius_m=10, centre="exact", drops="update")
    models = [(0, 0), (0, 1), (1, 0), (2, 0)]
    local = make_local([[(50, 0)], [(50, 0)], [(60, 0)], [(0, 0), (70, 0)]], models)
    measured = make_local([[(50, 0)], [(50, 0), (0, 5)], [(60, 0)], [(70, 0)]], models)
    requested = ask_ues(3, local=local, measured=measured, home_m=np.zeros((3, 2)))
    kept = rule.keep(requested, None, RNG)
    # all models of UE 0 are silent; what UE 2 holds of an earlier round in its zone stays where it
    # is
    assert kept.tolist() == [False, False, True, False, True]


ALONE = {
    "cooldown": Cooldown(rounds=2),
    "daily-limit": DailyLimit(updates=2),
    "random-silence": RandomSilence(probability=0.5),
    "samples": HomeZone(radius_m=100, centre="exact"),
    "deferred": HomeZone(radius_m=100, centre="exact", defer_upload=True),
    "update": HomeZone(radius_m=100, centre="exact", drops="update"),
    "update, shifted": HomeZone(radius_m=100, drops="update"),
}


@mark.parametrize("name", ALONE)
def test_a_rule_says_whether_a_sample_is_held_back_because_of_its_place(name):
    """The second sample of each of 200 UEs moves into its zone: no fate hangs on that, or some
    do."""
    rule = ALONE[name]
    home_m = np.zeros((200, 2))
    state = rule.start(200)
    fates = []
    for second in ((900.0, 0.0), (0.0, 1.0)):
        local = make_local([[(900.0, 900.0), second]] * 200)
        current = ask_ues(local=local, home_m=home_m, position_m=home_m + 900)
        fates.append(rule.keep(current, state, RNG))
    assert rule.by_place == (fates[0] != fates[1]).any()
    assert fates[0].any()


# all but `deferred`, which sends earlier records, that have no bound
@mark.parametrize("name", sorted(ALONE.keys() - {"deferred"}))
def test_no_bound_on_records_holds_where_they_are_selected_by_each_other(name, tiny):
    """One clipped step bounds what a record adds; where it also decides about others, or about how
    many are learnt from, now or in later rounds, noise needs another bound.
    """
    alone = ALONE[name]
    changes = RESIDENTS | read_yaml("""
        learning.learner: {kind: rsrp-net, hidden: [4], sample_clip: 1.0, batch_size: all,
            local_epochs: 1, precision: 64, standardise_by: public},
        learning.data: {kind: measured, memory: round}, learning.attacks: [],
        learning.defenses: [{kind: lapa, epsilon_system_total: 10.0, rounds: 4,
            sensitivity: record-one-step}]
    """)
    changes["learning.withholding"] = [alone.model_dump(exclude_none=True)]
    if not (alone.by_place or alone.by_history):
        assert tiny(changes).learned.withholding == (alone,)
    else:
        with raises(BadInput, match=r"defenses\[0\]: .*bound"):
            tiny(changes)


def test_silence_by_a_coin_has_its_probability_and_rounds_are_independent():
    spoke = play_rule(RandomSilence(probability=0.3), list_rounds(50), 2000)
    expected = approx(0.7, abs=4.5 * np.sqrt(0.21 / spoke.size))
    assert spoke.mean() == expected
    assert abs(np.corrcoef(spoke[:-1].ravel(), spoke[1:].ravel())[0, 1]) < 0.015


# --- runs
# ----------------------------------------------------------------------------------------

RESIDENTS = read_yaml("""
    world.ues.mobility: {kind: commuter}, world.ues.measurement_period_s: null,
    world.ues.count: 6, world.duration_s: 86400.0, world.tick_s: 300, learning.round_s: 7200.0
""")
MODELS = {"learning.data": {"kind": "measured", "cell": "all"}}
SHORT = {"learning.round_s": 10}


def table(folder, name):
    return pd.read_csv(Path(folder) / f"{name}.csv")


@mark.parametrize(
    ("drops", "memory"),
    cases("""
    "update", "all"
    "samples", 5
"""),
)
def test_what_is_held_back_changes_nothing(tiny, tmp_path, monkeypatch, drops, memory):
    """Signals that were measured in a zone may be anything: no update, and no model, is moved by
    them."""
    zone = {"kind": "home-zone", "radius_m": 60, "centre": "exact", "drops": drops}
    study = tiny(
        RESIDENTS | MODELS | {"learning.data.memory": memory, "learning.withholding": [zone]}
    )
    plain_folder = tmp_path / "plain"
    run(study, plain_folder)
    home_m = table(plain_folder, "ues")[["home_x_m", "home_y_m"]].to_numpy()
    take = Measured.take
    moved = []

    def changed(self, observed, model_of_cell, state, rng):
        within = np.hypot(*(observed.position_m - home_m[observed.ue]).T) <= 60
        moved.append(within.sum())
        observed = replace(observed, rsrp_dbm=observed.rsrp_dbm + 30.0 * within)
        return take(self, observed, model_of_cell, state, rng)

    monkeypatch.setattr(Measured, "take", changed)
    run(study, tmp_path / "changed")
    assert sum(moved) > 10
    assert len(table(plain_folder, "updates")) > 10
    rows = table(plain_folder, "withholding")
    assert rows.before.sum() > rows.after.sum() > 0
    for name in ("updates", "estimates", "withholding"):
        expected = (tmp_path / "changed" / f"{name}.csv").read_bytes()
        assert (plain_folder / f"{name}.csv").read_bytes() == expected


def test_a_deferred_upload_leaves_only_outside_of_the_zone_and_through_another_cell():
    rule = HomeZone(radius_m=100, centre="exact", defer_upload=True)
    home_m = [(0, 0), (0, 0), (np.nan, np.nan)]
    away = (500, 0)
    local = make_local([[(500, 0)], [(500, 0), (50, 0)], [(0, 0)]])
    state = rule.start(3)
    spoke = []
    all_away = [away, away, away]
    for position_m, serving in [
        ([away, away, (0, 0)], [1, 1, 1]),  # nothing is known of any zone yet
        (
            [(60, 0), away, away],
            [2, 2, 2],
        ),  # the first is at home: cell 2 serves its zone, and that of no other
        (all_away, [2, 2, 2]),
        ([away, (0, 99), (np.nan, np.nan)], [3, 1, -1]),
        (all_away, [1, 1, 1]),
        (all_away, [-1, -1, -1]),  # without a cell nothing can be told by one
    ]:
        current = ask_ues(local=local, home_m=home_m, position_m=position_m, serving=serving)
        state = rule.note_places(current, state, RNG)
        spoke.append(rule.keep(current, state, RNG))
    # of the samples, that of the second at home never
    expected = read_array("1 1 0 1; 0 1 0 1; 0 1 0 1; 1 0 0 1; 1 0 0 1; 1 1 0 1")
    assert_array_equal(spoke, expected)


DEFERRED = read_yaml("kind: home-zone, radius_m: 100, centre: exact, defer_upload: true")


def test_no_upload_of_a_run_comes_from_the_zone_and_it_resumes(tiny, tmp_path, table_bytes):
    study = tiny(RESIDENTS | {"learning.data.memory": 50, "learning.withholding": [DEFERRED]})
    whole_folder = tmp_path / "whole"
    run(study, whole_folder)
    links = table(whole_folder, "links")
    ues = table(whole_folder, "ues")
    home_m = ues[["home_x_m", "home_y_m"]].to_numpy()[links.ue]
    away_m = links[["x_m", "y_m"]].to_numpy() - home_m
    assert len(links)
    assert np.hypot(*away_m.T).min() > 100
    rows = table(whole_folder, "withholding")
    assert 0 < rows.after.sum() < rows.before.sum()
    steps = iter(range(10**6))
    run_in_two(study, tmp_path / "cut", lambda progress: next(steps) == 5)
    assert table_bytes(tmp_path / "cut") == table_bytes(whole_folder)


# --- crossings
# ----------------------------------------------------------------------------------------

RULES = read_yaml("""
    cooldown: {kind: cooldown, rounds: 2, jitter: 0.5}, daily-limit: {kind: daily-limit,
    updates: 2}, home-zone: {kind: home-zone, radius_m: 100, drops: update},
    random-silence: {kind: random-silence, probability: 0.4}
""")
NOMA = read_yaml("kind: noma, bandwidth_hz: 400, decoding: error-free, sic_residual: 0.01")
AIR = {
    "world.radio.dynamic_uplink": {},
    "world.radio.uplink": NOMA,
    "world.ues.training_s_per_sample": 0.3,
}
SERVERS = {
    "rounds": {},
    "over-selection": AIR
    | read_yaml("""
        learning.server: {kind: synchronous, merge_after_updates: 2, deadline_s: 12}
    """),
    "fedbuff": AIR | {"learning.server": {"kind": "fedbuff", "buffer": 2}},
    "fedasync": AIR | {"learning.server": {"kind": "fedasync"}},
}


INTERRUPTED = [
    (("cooldown", "home-zone"), "rounds"),
    (("cooldown", "daily-limit"), "fedbuff"),
    (("home-zone", "random-silence"), "rounds"),
    (("daily-limit", "random-silence"), "fedasync"),
    (("daily-limit", "home-zone"), "over-selection"),
]


@mark.slow
@mark.parametrize(("rules", "server"), INTERRUPTED)
def test_an_interrupted_run_ends_in_the_same_bytes(tiny, tmp_path, table_bytes, rules, server):
    study = MODELS | SERVERS[server] | {"learning.withholding": [RULES[rule] for rule in rules]}
    study |= RESIDENTS if "home-zone" in rules else SHORT
    if "daily-limit" in rules:
        by_day = {"kind": "gaussian", "epsilon": 5.0, "updates_a_day": 2}
        study["learning.defenses"] = [{"kind": "clip"}, by_day]
    study = tiny(study)
    news = []
    run(study, tmp_path / "whole", lambda progress: news.append(progress.values["time_s"]))
    half_s = news[len(news) // 2]
    run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= half_s)
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")


# --- noise
# ----------------------------------------------------------------------------------------

CENTRAL = read_yaml("""
    learning.sampling: poisson, learning.participation: 0.5,
    learning.aggregation: {kind: uniform, clients: 4, participation: 0.5},
    learning.defenses: [{kind: clip, norm: 1.0, relation: add-remove},
    {kind: central-gaussian, noise_multiplier: 2.0}]
""")


SPEED = read_yaml("kind: custom, gamma: null, multiples: any, speed_m_s: 1.8")
BY_HISTORY = {
    "battery": read_yaml("""
        learning.availability: {kind: battery, capacity_j: 9, charging: null},
        world.ues.compute_j_per_sample: 1.0
    """),
    "custom": {
        "learning.learner": read_yaml("kind: density, bandwidth_m: 40, grid: [8, 6]"),
        "learning.attacks": [],
        "learning.request_policy": SPEED,
    },
}


@mark.parametrize(
    ("rule", "rate"),
    cases("""
    "cooldown", 1.0
    "daily-limit", 1.0
    "random-silence", 0.5
    "battery", 1.0
    "custom", 1.0
"""),
)
def test_noise_at_the_server_counts_on_no_coin_that_hangs_on_who_has_sent(
    tiny, tmp_path, rule, rate
):
    changes = BY_HISTORY.get(rule) or {"learning.withholding": [RULES[rule]]}
    run(tiny(SHORT | CENTRAL | changes), tmp_path)
    spends = table(tmp_path, "spends")
    manifest = (tmp_path / "manifest.json").read_text()
    assert (spends.sampling_rate == rate).all()
    assert ("epsilon counts on no sampling" in manifest) == (rate == 1.0)
    # rounds in which everybody is silent are played like any other
    assert spends["round"].nunique() == 12
    if rate == 1.0:
        expected = compute_gaussian_epsilon(1e-7, np.sqrt(12 * spends.model.nunique()) / 2.0)
        assert spends.epsilon.max() == approx(expected, rel=1e-6)


def by_day(n):
    return read_yaml(f"""
        world.duration_s: {3 * DAY_S}, world.tick_s: 600, world.ues.measurement_period_s: 1800,
        learning.round_s: {DAY_S / 6}, learning.data: {{kind: measured, cell: all}},
        learning.withholding: [{{kind: daily-limit, updates: {n}}}],
        learning.defenses: [{{kind: clip}}, {{kind: gaussian, epsilon: 1.5, updates_a_day: 4}}]
    """)


def test_the_updates_of_a_day_compose_to_its_epsilon_and_days_to_the_total(tiny, tmp_path):
    run(tiny(by_day(4)), tmp_path)
    spends = table(tmp_path, "spends")
    metrics = table(tmp_path, "metrics")
    rows = spends.groupby(["round", "ue"]).model.transform("count")
    m = compute_gaussian_multiplier(1.5, 1e-5)
    assert_allclose(spends["noise_multiplier"], np.sqrt(4 * rows) * m, rtol=1e-8)
    assert rows.max() == 2  # UEs that measured both cells
    spends["day"] = (spends["round"] - 1) // 6
    day = spends.groupby(["day", "ue"]).noise_multiplier.apply(
        lambda z: compute_gaussian_epsilon(1e-5, np.sqrt((1 / z**2).sum()))
    )
    assert_allclose(day, 1.5, rtol=1e-6)
    assert len(day) == 3 * 4
    estimates = metrics[metrics.name == "epsilon_a_day"].value.to_numpy().reshape(3, 6)
    first_day = [compute_gaussian_epsilon(1e-5, np.sqrt(k / 4) / m) for k in (1, 2, 3, 4, 4, 4)]
    assert_allclose(estimates, [first_day, [1.5] * 6, [1.5] * 6], rtol=1e-6)  # no day costs more
    total = compute_gaussian_epsilon(1e-5, np.sqrt(3) / m)
    assert_allclose(table(tmp_path, "privacy").epsilon, total, rtol=1e-6)
    assert total > 1.5


COOLDOWN = RULES["cooldown"]
ZONE = RULES["home-zone"]
NOISY_PLACES = [{"kind": "geo-indistinguishable", "epsilon_per_m": 0.1}]
IMAGES = read_yaml("""
    learning.data: {kind: images, partition: {kind: dirichlet, alpha: 1.0}},
    learning.learner: {kind: torch, module: cnn}, learning.attacks: []
""")


@mark.parametrize(
    ("changes", "rules", "says"),
    [
        ({}, [COOLDOWN] * 2, "withholding: 'cooldown' stands 2 times; give each a name"),
        ({"learning.curation": NOISY_PLACES}, [ZONE], "its epsilon does not cover that"),
        (IMAGES, [ZONE], "it holds back by place; these data have none"),
        (by_day(4), [], "gaussian counts on 4 updates of a UE a day"),
        (by_day(5), by_day(5)["learning.withholding"], "{kind: daily-limit, updates: 4}"),
    ],
)
def test_rules_that_do_not_fit_are_refused(tiny, changes, rules, says):
    with raises(BadInput) as caught:
        tiny(changes | {"learning.withholding": rules})
    assert says in "\n".join(caught.value.lines)
