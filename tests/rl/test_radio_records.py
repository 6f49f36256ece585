"""Rounds judged again at other powers: the same laws as live, array by array; rules, oracle, and the shared policy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fl.power.search import Limits
from netsim.errors import BadInput
from netsim.rng import Streams
from rl.look import Look
from rl.policy import SHAPES, SharedPolicy, first_weights
from rl.radio_records import Links, air_of, judged, received, strength
from rl.rules import LAWS, Known, tuned, within
from rl.settings import Online, ScoreFunctionAgent
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
    {"world.radio.uplink": {"kind": "noma", "group_size": 3, "sic_residual": 0.05, "deadline_s": 0.012}},
    {"world.radio.uplink": {"kind": "noma", "max_ser": 0.1, "deadline_s": 0.004}},
    {"world.radio.uplink": {"kind": "noma", "interference": "intra", "group_size": 2, "deadline_s": 0.1}},
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
    {"world.ues.max_power_dbm": 10, "train.task.limits.each_max_w": 2.0, "train.task.limits.total_max_w": 24.0},
]


@pytest.mark.parametrize("changes", UPLINKS, ids=range(len(UPLINKS)))
def test_a_recorded_round_costs_what_it_costs_live(changes):
    """At other powers than those that it was recorded with, also than a UE can send: noise, losses, leak, energy."""
    costs_what_it_costs_live(study(**changes))


def test_a_recorded_round_in_the_streets_costs_what_it_costs_live():
    """Three sectors of one mast, people in rooms and on the way, other towns in other worlds."""
    costs_what_it_costs_live(load("power/streets", STREETS))


def costs_what_it_costs_live(of):
    from rl.problem import log_power

    env, own = live(of), known(of)
    env.reset(options={"world": 7})
    for s in range(len(own)):
        action = DRAW.uniform(-1, 1, 12).astype(np.float32)
        # the noise that budgets ask for hangs on what has arrived; a round is compared with its own requirements
        _, reward, _, _, info = env.step(action)
        one = replace(own.rounds.select(np.array([s])), rows=env.cost.rows)
        asked_w = log_power(action.astype(np.float64), env.task.limits)
        power_w = np.minimum(asked_w, own.look.max_power_w)
        found = judged(one, own.air, power_w[None], np.zeros(1, dtype=np.int64)).figures
        assert replace(own, rounds=one).cost(asked_w[None])[0] == pytest.approx(-reward, rel=1e-9)
        for name in ("noise", "lost", "leak", "energy_j"):
            assert found[name][0] == pytest.approx(info[name], rel=1e-9, abs=1e-12), (s, name)
        assert env.task.reward.cost(found)[0] == pytest.approx(-reward, rel=1e-9)


def test_exchanging_ues_exchanges_features_and_powers(city):
    order = DRAW.permutation(12)
    links = city.look.links
    moved = replace(
        city.look,
        links=Links(links.h[:, order], links.heard[:, order], links.serving[:, order], links.downlink_bps[:, order]),
        required_std=city.look.required_std[:, order],
    )
    weights = {name: DRAW.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()}
    policy = SharedPolicy(weights, tuned(LAWS[-1], city, 1, Streams(0).at("t")))
    np.testing.assert_allclose(moved.features, city.look.features[:, order], atol=1e-12)
    np.testing.assert_allclose(moved.pairs, city.look.pairs[:, order][:, :, order], atol=1e-9)
    np.testing.assert_allclose(policy.power_w(moved), policy.power_w(city.look)[:, order], rtol=1e-9)
    assert np.ptp(policy.residual_db(city.look)) > 1.0


def test_what_would_come_of_powers_of_a_ue_that_is_alone(city):
    """Without others, SINR is SNR, at the base station and at the eavesdropper."""
    look, links, k = city.look, city.look.links, 3
    serving = np.where(np.arange(12) == k, links.serving, -1)
    alone = replace(look, links=replace(links, serving=serving))
    power_w = np.full(serving.shape, 1e-3)
    power, decoded, margin, exposed = np.moveaxis(alone.outlook(power_w), 2, 0)
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

    rounds, look = city.rounds, city.look
    look = replace(look, links=replace(look.links, serving=rounds.links.serving))
    power_w = 10 ** DRAW.uniform(-5, -1, look.snr_db.shape)
    sinr, _ = received(power_w, np.arange(len(rounds)), rounds.links, city.air)
    sends = look.there
    wanted = np.clip(10 * np.log10(sinr[sends]), -50, 50)
    np.testing.assert_allclose(20 * look.outlook(power_w)[..., 1][sends] + 10, wanted)
    assert np.ptp(wanted - 10 * np.log10(power_w[sends]) - look.snr_db[sends]) > 10  # interference counts


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
        city.cost(within(law.dbw(city.look, np.array([p])), city.look.limits)).mean() for p in np.arange(-20, 40, 0.5)
    ]
    assert found.cost <= min(grid) + 0.02
    assert found.evaluations <= 8_000
    assert found.cost == pytest.approx(city.cost(found.power_w(city.look)).mean())


def test_without_interference_a_rule_is_the_optimum():
    """Costs separate over UEs: at the required SNR of this very round the search finds nothing better."""
    from rl.rules import best_powers

    of = study(**{"world.radio.uplink": {"kind": "noma", "interference": "none"}, "learning.data.cell": "strongest",
                  "train.task.reward": {"noise": 1}, "learning.threat": {"n_targets": 4}})  # fmt: skip
    own = known(of)
    gamma = np.full(own.look.snr_db.shape, np.nan)
    for s in range(len(own)):
        some = own.rounds.rows.of[s] >= 0
        rows = own.rounds.rows
        gamma[s, rows.of[s, some]] = (rows.rho[s] / rows.required_std[s, some]) ** 2
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
    cost, power_w = found.cost, found.power_w
    assert found.judged > 2 * 90
    assert (cost <= one.cost(within(start, one.look.limits)) + 1e-12).all()
    np.testing.assert_allclose(one.cost(power_w), cost)
    tried = DRAW.uniform(-57, -7, (4000, 12))
    for s in range(2):
        assert cost[s] <= one.cost(within(tried, one.look.limits), np.full(4000, s)).min()


def _some(look, rounds):
    links = Links(*(getattr(look.links, name)[rounds] for name in ("h", "heard", "serving", "downlink_bps")))
    part = {name: getattr(look, name)[rounds] for name in ("required_std", "rho", "n_bits", "progress")}
    return replace(look, links=links, **part)


class TestTraining:
    AGENT = ScoreFunctionAgent(situations=6, actions=8)

    def training(self, city, steps=60, seed=1):
        from rl.agents import ScoreFunctionTraining

        return ScoreFunctionTraining(city, tuned(LAWS[1], city, 2000, Streams(0).at("t")), self.AGENT, steps, seed)

    def test_it_learns_these_rounds(self, city):
        from rl.policy import SharedPolicy

        training = self.training(city, 150)
        before = city.cost(SharedPolicy(training.weights(), training.rule).power_w(city.look)).mean()
        for _ in range(150):
            training.step()
        assert city.cost(SharedPolicy(training.weights(), training.rule).power_w(city.look)).mean() < before - 0.05
        assert training.evaluations == 150 * 6 * 8


@pytest.mark.parametrize(("level_db", "least", "most"), [(-25.0, 0, 2), (-12.0, 1, 6), (25.0, 6, 6)])
def test_t_th_is_the_last_round_in_which_thermal_noise_lacks_something(level_db, least, most):
    """T_th = max{t : some row has SNR(t) > Gamma(t)}, Gamma = rho^2 / sigma^2 of that row (top-up): power moves it."""
    from rl.problem import as_action

    env, lacking = live(study(**{"train.task.limits.each_min_w": 1e-12})), 0
    env.reset(options={"world": 3})
    while not env.over:
        now = env.now
        env.step(as_action(within(level_db - now_snr_db(env), env.task.limits)[0], env.task.limits).astype(np.float32))
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
    from scenarios.app.results.folder import read_table
    from scenarios.app.run.runner import run

    limits = {"each_min_w": 1e-7, "each_max_w": 0.2, "total_min_w": 0, "total_max_w": 2.4}
    power = {"kind": "rule", "rule": "equal SNR", "parameters": [10.0], "limits": limits}
    run(study(power=power, train=None), tmp_path / "run", lambda progress: None)
    links = read_table(tmp_path / "run", "links")
    env = live(study())
    env.reset(options={"world": 4})
    wanted = within(10.0 - now_snr_db(env), Limits(**limits))[0]
    first = links["round"] == 1
    np.testing.assert_allclose(links["power_w"][first], wanted[links["ue"][first].astype(int)], rtol=1e-6)


SMALL = {
    "train.agent": {"kind": "score-function", "worlds": 1}, "train.task.tune_worlds": 1,
    "train.task.tune_evaluations": 600,
    "train.task.held_out": 1, "train.task.eval_worlds": 1, "train.steps": 8, "train.eval_every": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train.task.reward.loss": 1}, "task.reward.loss: loss and leakage are unknown"),
        ({"train.task.reward.leakage": 1}, "task.reward.leakage: loss and leakage are unknown"),
        ({"train.task": {"kind": "allocation"}}, "score-function acts in every round"),
        ({"train.agent.actions": 3}, "multiple of 2"),
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
        (lambda d: _edit(d, '"rule": "fractional"', '"rule": "magic"'), "magic"),
        (lambda d: _weights(d, {"out.bias": np.zeros(2, np.float32)}), "its card asks for"),
        (lambda d: _weights(d, {"out.bias": np.full(1, np.nan, np.float32)}), "its card asks for finite"),
        (lambda d: _weights(d, {"other": np.zeros(1, np.float32)}), "'other' is unknown"),
    ],
)
def test_a_damaged_policy_is_one_line(change, said, tmp_path, city):
    from rl.policy import SharedCard, load_shared, save_shared

    rule = tuned(LAWS[1], city, 1, Streams(0).at("t"))
    card = SharedCard(program="1", limits=city.look.limits, rule=rule.law.name,
                      parameters=tuple(rule.parameters.tolist()))  # fmt: skip
    policy = SharedPolicy(first_weights(0), rule)
    save_shared(policy, card, tmp_path)
    back, _ = load_shared(tmp_path)
    np.testing.assert_array_equal(back.dbw(city.look), policy.dbw(city.look))
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


CLIP = {"kind": "clip", "norm": 2.0}
LAPA = {"kind": "lapa", "epsilon_system_total": 17280, "epsilon_cap": 300, "rounds": 24, "sensitivity": "mean-clip",
        "gain_last": 0, "gain_mean": 1, "window": 5}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learning.defenses": [CLIP, LAPA]}, "learning.defenses: recorded rounds need budgets"),
        (
            {"learning.defenses": [CLIP, {"kind": "noise-switch", "mode": "first-crossing", "noise": LAPA}]},
            "learning.defenses: recorded rounds need budgets",
        ),
        (
            {"learning.defenses": [CLIP], "world.radio.dynamic_uplink": {}},
            "world.radio.dynamic_uplink: recorded rounds need",
        ),
        (
            {"learning.server": {"kind": "synchronous", "merge_after_updates": 6}},
            "learning.server: recorded rounds need",
        ),
        ({"learning.availability": {"kind": "battery", "capacity_j": 50.0}}, "kind: battery does"),
    ],
)
def test_other_laws_than_those_of_the_records_are_refused_and_compared_live_only(changes, said, tmp_path):
    """Noise that is drawn by another rule costs otherwise than recorded rounds say: no rule is tuned on them."""
    from scenarios.app.training.environments import unrecorded
    from scenarios.app.training.train import train

    assert unrecorded(study()) is None
    with pytest.raises(BadInput, match=said):
        train(study(**SMALL, **changes), [0], tmp_path / "t", lambda now: None)
    assert not (tmp_path / "t").exists()


def test_the_law_of_costs_by_hand():
    """Three rows of two UEs, the last one lost: rho 2, thermal noise 4/SNR, decoder 4/SINR, kappa 10, A^left 0.5."""
    from rl.radio_records import Rows, Sent, costs_of

    sinr, snr, heard = np.array([[2.0, 2.0, 0.5]]), np.array([[4.0, 4.0, 1.0]]), np.array([[8.0, 8.0, 0.25]])
    required, weight = np.array([[3.0, 0.5, 2.0]]), np.array([[0.5, 0.5, 1.0]])
    given = (
        Sent(sinr, snr, np.array([[True, True, False]]), heard), np.array([[0.1, 0.2]]),
        Rows(np.array([[0, 0, 1]]), weight, required, np.array([2.0]), np.array([0.5]), np.array([10.0])),
    )  # fmt: skip
    found = costs_of(*given)
    drawn = [9.0 - 1.0, 0.0, 0.0]  # thermal noise is 1, 1 and 4
    suffered = 0.25 * (drawn[0] + 2.0) + 0.25 * (drawn[1] + 2.0) + 1.0 * (4.0 + 10.0 * 4.0)
    assert found.figures["noise"][0] == pytest.approx(0.5 * np.log(suffered / (0.25 * 9.0 + 0.25 * 0.25 + 4.0)))
    z = [1 / (8.0 / 4.0 + 1 / 8.0), 8.0, 0.25]
    assert found.figures["leak"][0] == pytest.approx(np.mean([x / (1 + x) for x in z]))
    half = costs_of(*given, half_at=0.03).figures
    assert half["leak"][0] == pytest.approx(np.mean([x / (0.03 + x) for x in z]))
    assert {name: half[name] for name in half if name != "leak"} == {
        k: v for k, v in found.figures.items() if k != "leak"
    }
    assert found.figures["lost"][0] == pytest.approx(1 / 3) and found.figures["energy_j"][0] == pytest.approx(0.3)
    assert found.drawn.tolist() == [[True, False, False]]


def test_random_search_is_the_best_of_its_draws_and_counts_them(city):
    from rl.rules import best_of_random

    law, rng = LAWS[-1], Streams(3).at("rules")
    one, many = (best_of_random(law, city, n * len(city), rng) for n in (1, 40))
    assert (one.evaluations, many.evaluations) == (len(city), 40 * len(city))
    drawn = np.array(law.start) + np.array(law.spread) * rng.normal("random.log-linear", np.arange(40), (6,))
    costs = [city.cost(within(law.dbw(city.look, p), city.look.limits)).mean() for p in drawn]
    assert many.cost == min(costs) and one.cost == costs[0] > many.cost


def test_links_without_phases_disturb_each_other_as_on_average(city):
    from rl.rules import phaseless

    links = phaseless(city.look.links)
    np.testing.assert_allclose(strength(links.h), strength(city.look.links.h), rtol=1e-12)
    inner = np.abs(np.einsum("skbm,sjbm->sbkj", links.h.conj(), links.h)) ** 2
    size = strength(city.look.links.h)
    mean = np.einsum("skb,sjb->sbkj", size, size) / 4
    off = ~np.eye(12, dtype=bool)
    np.testing.assert_allclose(inner[..., off], mean[..., off], rtol=1e-9)
    assert links.heard is city.look.links.heard  # of one antenna


def test_the_optimiser_plans_by_what_was_known_alone(city):
    """Its plan is the same whatever phases are, the start before a requirement is known, and no worse there."""
    from rl.rules import best_powers, expected, planned_w

    last = _some(city.look, slice(len(city) - 1, None))
    start = LAWS[1].dbw(last, np.array([3.0, 0.75]))
    kappa = city.rounds.rows.lost_noise[-1:]
    plan = [
        planned_w(look, 0.9, kappa, city.air, city.reward, np.zeros(0), start)
        for look in (last, replace(last, links=replace(last.links, h=np.abs(last.links.h) + 0j)))
    ]
    np.testing.assert_allclose(plan[0][0], plan[1][0])
    known = Known(expected(last, 0.9, kappa), last, city.air, city.reward)
    assert plan[0][1] > 100 and known.cost(plan[0][0]) < known.cost(within(start, last.limits)) - 0.01
    np.testing.assert_allclose(best_powers(known, [start]).power_w, plan[0][0])
    fresh = replace(last, required_std=np.zeros((1, 12)))
    power_w, judged = planned_w(fresh, 0.9, kappa, city.air, city.reward, np.zeros(0), start)
    assert judged == 0
    np.testing.assert_array_equal(power_w, within(start, last.limits))


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ('{"task": "online"}', "task: 'online' is not for this kind"),
        ('{"format": 2,', "Invalid JSON"),
        ("{}", "program: Field required; train the policy again"),
        ('{"format": 2, "program": 3}', "program: Input should be a valid string; train the policy again"),
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
    links, power_w = city.rounds.links, np.full((len(city.rounds), 12), 0.1)
    which = np.arange(len(power_w))
    without = replace(links, downlink_bps=np.where(np.arange(12) == 0, 0.0, links.downlink_bps))
    silent = np.where(np.arange(12) == 0, 0.0, power_w)
    sinr, wanted = received(power_w, which, without, city.air)[0], received(silent, which, links, city.air)[0]
    np.testing.assert_allclose(sinr[:, 1:], wanted[:, 1:], rtol=1e-12)
    assert (sinr[:, 0] == 0).all() and not np.allclose(wanted, received(power_w, which, links, city.air)[0])


def test_absent_ues_have_features_without_holes():
    """A UE without a signal, as in a replay: what it and the others look like are numbers, the others' as with them."""
    from netsim.radio.uplink import Cohort

    rng = np.random.default_rng(0)
    gain = 10 ** rng.uniform(-12, -9, (3, 2))
    gain[1] = np.nan
    nothing = np.zeros(3)
    uplink = study().world.radio.uplink
    cohort = Cohort(
        np.arange(3), np.array([0, -1, 1]), gain, None, nothing, np.ones(3, int), nothing + 9, nothing, nothing
    )
    links = Links.of(cohort, replace(cohort, gain=gain[:, :1]), uplink)
    one = np.ones(1)
    look = Look(links, np.zeros((1, 3)), one, one, one, air_of(uplink), Limits())
    for found in (look.features, look.pairs, look.outlook(np.full((1, 3), 1e-3))):
        assert np.isfinite(found).all()
