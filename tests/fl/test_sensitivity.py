"""How far one user moves what noise at the server hides: tiny studies with and without one UE, by
brute force.

Nothing here knows how the ledger is booked: a study is played as it is, then again with the
measurements of one UE taken away, or exchanged, and the sums before noise are compared with the
sensitivity that the first run booked.
"""

from contextlib import nullcontext
from itertools import product
from string import Template

import numpy as np
import pytest
from fl_values import build_context, build_updates, read_changes
from noticed import of_run
from pytest import approx, raises
from scipy.stats import chi2
from tabled import cases

from fl.data import RECORDS_ALONE
from fl.defenses import DEFENSES
from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, Gaussian
from fl.notice import notice as of_learning
from fl.privacy.compose import RoundKinds, compute_pld_epsilon
from fl.privacy.gaussian import compute_gaussian_epsilon
from fl.round.learning import Learning
from netsim.errors import BadInput
from netsim.radio.uplink import compute_noise_std
from netsim.rng import Streams
from netsim.world.world import World
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.run.setup import prepare_run

parametrize = pytest.mark.parametrize

C = 2e-3
UES = 4
UPLINKS = read_changes("""
ideal: {}
slow:
  world.ues.training_s_per_sample: 3.0
  world.ues.compute_heterogeneity: {kind: log-normal}
oma:
  world.radio.uplink: {kind: oma, rate: {kind: shannon}, decoding: error-free, bandwidth_hz: 60}
noma:
  world.radio.uplink: {kind: noma, rate: {kind: shannon}, decoding: error-free, bandwidth_hz: 60}
dynamic_uplink: {world.radio.dynamic_uplink: {}}
""")
SERVERS = read_changes("""
rounds: {kind: synchronous}
deadline: {kind: synchronous, deadline_s: 15}
long: {kind: synchronous, deadline_s: 50}
first: {kind: synchronous, merge_after_updates: 2}
fedbuff: {kind: fedbuff, buffer: 2}
fedasync: {kind: fedasync}
""")
SAMPLING = read_changes("""
all: {share: 1.0, sampling: fixed}
fixed: {share: 0.5, sampling: fixed}
poisson: {share: 0.5, sampling: poisson}
cyclic: {share: 0.5, sampling: cyclic}
""")
DRAWS = ("all", "fixed", "poisson")
RELATIONS = ("add-remove", "replace")
CENTRAL = {"kind": "central-gaussian", "noise_multiplier": 1.0}
DEVICE_NOISE = {"kind": "gaussian", "noise_multiplier": 1.0}
BITS = {"kind": "adaptive-clip", "norm": C, "learning_rate": 1e-12}


def clip_by(relation, **facts):
    return {"kind": "clip", "norm": C, "relation": relation, **facts}


def sample_by(sampling):
    """Changes by which UEs are asked in this way, each in half of the rounds or in all."""
    return read_changes(
        Template("""
        learning.round_s: 20
        learning.attacks: []
        learning.references: {central: false, kriging_samples: 0}
        learning.data: {kind: measured, cell: strongest, memory: all}
        learning.participation: $share
        learning.sampling: $sampling
        learning.aggregation: {kind: uniform, clients: 4, participation: $share}
        """).substitute(SAMPLING[sampling])
    )


def changes(server, sampling, relation, uplink):
    defenses = {"learning.defenses": [BITS | {"relation": relation}, CENTRAL]}
    return sample_by(sampling) | {"learning.server": SERVERS[server]} | defenses | UPLINKS[uplink]


@pytest.fixture
def play_study(tmp_path_factory, monkeypatch):
    """Play a study with one UE's measurements as `other` makes them: sums and counts of each round,
    what was booked.

    Models stay at their first values: what was published before is the same, as composition takes
    it.
    """

    def play(study, ue=None, second=None):
        sums = {}
        counts = {}
        see = World.drain_observations

        def observe(world):
            observations = see(world)
            if ue is None:
                return observations
            return second(observations, ue)

        def sum_up(part, total, n, facts, state, rng):
            same, after, spends = finish(part, total, n, facts, state, rng)
            sums[facts.round] = total / facts.weight
            return np.zeros_like(same), after, spends

        def clip_rows(part, updates, local, facts, state, rng):
            if second is send_zeros:
                updates = updates.scale_rows((updates.ue != ue).astype(float), None)
            observations = clip(part, updates, local, facts, state, rng)
            counts[facts.round] = (observations[1].bits - 0.5).sum()
            return observations

        def count_bits(part, total, n, facts, state, rng):
            # with the noise of UEs, which is the same again
            sums.setdefault(facts.round, total / facts.weight)
            return count(part, np.zeros_like(total), n, facts, state, rng)

        finish = CentralGaussian.finish
        count = AdaptiveClip.finish
        clip = AdaptiveClip.protect
        with monkeypatch.context() as patch:
            patch.setattr(World, "drain_observations", observe)
            patch.setattr(CentralGaussian, "finish", sum_up)
            patch.setattr(AdaptiveClip, "finish", count_bits)
            patch.setattr(AdaptiveClip, "protect", clip_rows)
            out = tmp_path_factory.mktemp("run")
            run(study, out)
        warnings = [item.line for item in of_run(out) if item.key in of_learning.entries]
        return sums, counts, read_record_table(out, "spends"), warnings

    return play


def without(observations, ue):
    return observations.select(observations.ue != ue)


def with_others(observations, ue):
    """The UE measured half as often, elsewhere, and something else."""
    is_own = observations.ue == ue
    keep = ~is_own | (np.cumsum(is_own) % 2 == 0)
    moved = np.where(is_own[:, None], observations.position_m[::-1] * 0.5, observations.position_m)
    rsrp = np.where(is_own, -150.0 - observations.rsrp_dbm, observations.rsrp_dbm)
    return type(observations)(
        observations.ue, observations.time_s, moved, observations.cell, rsrp
    ).select(keep)


def send_zeros(observations, ue):
    """The UE measures the same, and its updates are zeros."""
    return observations


def measure_apart(first, second):
    """How far two sums of a round are apart, of the round in which they are farthest."""
    return max(np.linalg.norm(np.ravel(first[r]) - np.ravel(second[r])) for r in first)


def refusal(server, sampling, relation, uplink):
    """What keeps a combination from being played; an empty text: nothing."""
    if server in ("fedbuff", "fedasync"):
        return "needs rounds"
    if sampling == "fixed" and relation == "add-remove":
        return "takes the place of another"
    if server == "first":
        return "takes the place of others among the first"
    return "decides when others send and how many rounds" if uplink == "dynamic_uplink" else ""


COMBINATIONS = list(product(SERVERS, DRAWS, RELATIONS))
CASES = [(uplink, COMBINATIONS[i::7]) for i, uplink in enumerate(UPLINKS)]
CASES += [pytest.param(uplink, COMBINATIONS, marks=pytest.mark.slow) for uplink in UPLINKS]


@parametrize(("uplink", "combinations"), CASES)
def test_no_user_moves_a_sum_by_more_than_is_booked(tiny, play_study, uplink, combinations):
    """Servers, ways of sampling, relations: each is refused, or one UE moves no sum by more than
    the sensitivity."""
    worst = beyond = 0.0
    for server, sampling, relation in combinations:
        reason = refusal(server, sampling, relation, uplink)
        study_changes = changes(server, sampling, relation, uplink)
        if reason:
            with raises(BadInput, match=reason):
                tiny(study_changes)
            continue
        study = tiny(study_changes)
        sums, counts, spends, warnings = play_study(study)
        shared = [w for w in warnings if "shared band" in w]
        assert bool(shared) == (uplink in ("oma", "noma"))
        assert warnings == shared
        booked = spends["sensitivity"][spends["mechanism"] == "central-gaussian"]
        of_count = spends["sensitivity"][spends["mechanism"] == "adaptive-clip"]
        assert len(booked) == len(of_count) == len(sums)
        for second in (without, with_others) if relation == "replace" else (without,):
            again, bits, paid, _ = play_study(study, 0, second)
            assert list(again) == list(sums)
            assert len(paid["round"]) == len(spends["round"])
            assert measure_apart(counts, bits) <= of_count[0] * (1 + 1e-9)
            if shared:  # the run says that losses are taken as given
                beyond = max(beyond, measure_apart(sums, again) / booked[0])
            else:
                assert measure_apart(sums, again) <= booked[0] * (1 + 1e-9), study_changes
                worst = max(worst, measure_apart(sums, again) / booked[0])
    whole = combinations is COMBINATIONS
    # no more is booked than must be
    assert worst > 0.9 or not (uplink == "ideal" or (whole and uplink == "slow"))
    assert beyond > 1.05 or not (whole and uplink in ("oma", "noma"))  # and the caveat is needed


SHARED_NOISE = {"kind": "distributed-gaussian", "noise_multiplier": 1.0}
SUMS = {"observes": "aggregate", "secagg_threshold": 2}
PLACES = {
    "central": ("server", CENTRAL, {}),
    "beside shares": ("server", SHARED_NOISE, SUMS),
    "shares": ("shares", SHARED_NOISE, SUMS),
}


def build_counted(place, sampling, relation):
    noise, part, threat = PLACES[place]
    bits = BITS | {"relation": relation, "noise": noise, "delta": 1e-7}
    defenses = [bits, part | {"delta": 1e-5}]
    return sample_by(sampling) | {"learning.threat": threat, "learning.defenses": defenses}


@parametrize("place", PLACES)
@parametrize("relation", RELATIONS)
@parametrize("sampling", ["all", "poisson", "cyclic"])
def test_what_one_user_moves_is_booked_for_it_under_one_relation(
    tiny, play_study, place, relation, sampling
):
    """The count of an adaptive clip and the sum beside it, each by no more than is booked in that
    round."""
    study = tiny(build_counted(place, sampling, relation))
    sums, counts, spends, _ = play_study(study)
    if relation == "replace" or (place, sampling) in product(["central"], ["all", "poisson"]):
        alike = relation
    else:
        alike = ""
    assert set(spends["relation"]) == {alike or "zero-out"}
    of_count = spends["mechanism"] == "adaptive-clip"
    farthest = 0.0
    for ue in (0, UES - 1):  # of either cohort
        again, bits, _, _ = play_study(study, ue, without if alike == "add-remove" else send_zeros)
        is_own = np.isin(spends["ue"], (-1, ue))
        for r in sums:
            in_round = is_own & (spends["round"] == r)
            allowed = [
                spends["sensitivity"][in_round & is_changed].sum()
                for is_changed in (of_count, ~of_count)
            ]
            apart = abs(counts[r] - bits[r]), np.linalg.norm(sums[r] - again[r])
            assert apart[0] <= allowed[0] * (1 + 1e-9)
            assert apart[1] <= allowed[1] * (1 + 1e-9) + 1e-12
            farthest = max(farthest, apart[0] / max(allowed[0], 1e-9))
        if sampling == "cyclic":  # and no UE pays for the rounds of another cohort
            assert len(set(spends["round"][is_own])) == 3
    assert farthest == approx(1.0)


@parametrize("place", PLACES)
@parametrize("sampling", ["all", "poisson", "cyclic"])
def test_all_mechanisms_that_one_user_moves_add_up(tiny, tmp_path, place, sampling):
    """In the live ledger, in the account, and against a budget: by hand from what was drawn in its
    rounds."""
    study = build_counted(place, sampling, "add-remove")
    run(tiny(study), tmp_path / "free")
    spends = read_record_table(tmp_path / "free", "spends")
    account = read_record_table(tmp_path / "free", "privacy")
    worst = account["epsilon"][account["mechanism"] == "all"].max()
    bound = 1.01 * account["epsilon"][account["mechanism"] != "all"].max()
    assert worst > bound
    if sampling != "poisson" or place != "central":
        cost = (spends["sensitivity"] / spends["std"]) ** 2
        by_hand = [cost[np.isin(spends["ue"], (-1, ue))].sum() for ue in range(UES)]
        assert worst == approx(compute_gaussian_epsilon(1e-7, np.sqrt(max(by_hand))), rel=1e-6)
    else:  # a coin a round, for the count and the sum
        first = 1.0 / np.sqrt(1 + 0.25)
        expected = compute_pld_epsilon(RoundKinds.from_rounds([(first, 0.5, 6)]), 1e-7, 15.0)
        assert worst == approx(expected, rel=1e-3)
    for share, is_stopped in ((0.98, True), (1.3, False)):
        limited = study | {"learning.privacy_budget": {"epsilon": share * worst}}
        assert run(tiny(limited), tmp_path / str(share))["rounds.stopped_by_budget"] is is_stopped


@parametrize("place", PLACES)
def test_clips_of_two_relations_are_refused(tiny, place):
    study = build_counted(place, "all", "replace")
    study["learning.defenses"].insert(1, clip_by("add-remove"))
    with raises(BadInput, match="costs add up under one relation"):
        tiny(study)


NOISES = read_changes("""
nothing: []
gaussian: [&gaussian {kind: gaussian, noise_multiplier: 1.0}]
shares: [{kind: distributed-gaussian, noise_multiplier: 1.0}]
central: [&central {kind: central-gaussian, noise_multiplier: 1.0}]
ring: [{kind: skellam, noise_multiplier: 1.0}]
uniform-dp: [{kind: uniform-dp, epsilon_system_total: 100.0, rounds: 10}]
arb: [{kind: arb, epsilon_system_total: 100.0, rounds: 10}]
lapa: [{kind: lapa, epsilon_system_total: 100.0, rounds: 10}]
both: [*gaussian, clip, *central]
after: [*central, *gaussian]
counted: [*central, count]
""")
RECORDS = read_changes("""
learning.learner: {kind: rsrp-net, hidden: [6, 4], activation: tanh, sample_clip: 1.0}
learning.data: {kind: measured, cell: a}
""")


PAIRS = list(product(("clip", "server", "shares", "records"), RELATIONS, RELATIONS, SAMPLING))
PLAYED = [(noise, PAIRS[i % 6 :: 6]) for i, noise in enumerate(NOISES)]
PLAYED += [pytest.param(noise, PAIRS, marks=pytest.mark.slow) for noise in NOISES]


@parametrize(("noise", "pairs"), PLAYED)
def test_what_one_pair_of_neighbours_moves_is_in_one_group(tiny, tmp_path, noise, pairs):
    """Of every chain that is accepted all spends have one unit and relation: `all` adds them up, a
    budget stops there.

    Bounds are those of a clip before the noise, of an adaptive one, or of records (`sample_clip`).
    """
    accepted = set()
    place = "shares" if noise in ("shares", "ring") else "central"
    for combination in pairs:
        first, relation, second, sampling = combination
        if second != relation and not {"clip", "count"} & set(map(str, NOISES[noise])):
            continue
        named = {
            "clip": clip_by(second, name="again"),
            "count": clip_by(second, name="counted") | {"kind": "adaptive-clip"},
        }
        chain = [named[item] if isinstance(item, str) else item for item in NOISES[noise]]
        bound = clip_by(relation)
        if first in ("server", "shares"):
            bound |= {"kind": "adaptive-clip", "noise": first}
        bounded = [] if first == "records" else [bound]
        study = build_counted(place, sampling, relation)
        study |= {"learning.defenses": [*bounded, *chain], "world.duration_s": 20}
        study |= RECORDS if first == "records" else {}
        out = tmp_path / str(len(accepted))
        try:
            run(tiny(study), out)
        except BadInput:
            continue
        accepted.add(combination)
        if not chain and first in ("clip", "records"):
            continue
        booked = read_record_table(out, "spends")
        account = read_record_table(out, "privacy")
        assert len(set(zip(booked["unit"], booked["relation"], strict=True))) == 1, combination
        several = len(set(booked["mechanism"])) > 1
        assert ("all" in account["mechanism"]) == several
        if several:  # one round is played, which costs more
            budget = {"learning.privacy_budget": {"epsilon": 0.98 * account["epsilon"].max()}}
            assert run(tiny(study | budget), out / "less")["rounds.stopped_by_budget"] is True
    assert len(accepted) > (pairs is PAIRS)


def test_a_record_moves_no_count_beside_a_sum_that_hides_it(tiny):
    """A clip after noise on records hides users, and a record moves both."""
    study = build_counted("central", "all", "replace") | RECORDS
    bits = {"kind": "adaptive-clip"}
    for chain in ([CENTRAL, bits], [DEVICE_NOISE, {"kind": "clip"}, CENTRAL]):
        with raises(BadInput, match=r"a user by relation: replace, .* a record by relation"):
            tiny(study | {"learning.defenses": chain})
    tiny(study | {"learning.defenses": [bits, CENTRAL]})
    tiny(study | {"learning.defenses": [CENTRAL]})


@parametrize("sampling", ["all", "poisson", "cyclic"])
@parametrize(
    "threat, sees",
    cases("""
    {"observes": "model"}, None
    {"observes": "model", "viewpoint": "analyst", "knowledge": ["participants"]}, "knowledge"
    {"observes": "aggregate"}, "observes"
    """),
)
def test_a_run_says_that_its_attacker_sees_who_takes_part(tiny, tmp_path, sampling, threat, sees):
    """Noise at the server hides that, and sampling counts on it; by turns everybody knows it."""
    study = tiny(build_counted("central", sampling, "add-remove") | {"learning.threat": threat})
    world, _ = prepare_run(study, tmp_path)
    lines = [item.line for item in world.notices if item.key == "presence-seen"]
    assert len(lines) == (sees is not None and sampling != "cyclic")
    assert all(f"(threat.{sees})" in line for line in lines)


# -- noise of a UE's own


def apart(ratio, numbers, delta=1e-7):
    """Epsilon that normal numbers of variances 1 and `ratio` > 1 prove, by the best threshold of
    their squares' sum."""
    x = numbers * ratio * np.linspace(0.0, 1.0 + 20.0 / np.sqrt(numbers), 50_001)
    wide = chi2.logsf(x / ratio, numbers)
    narrow = chi2.logsf(x, numbers)
    seen = np.exp(wide) > delta
    return np.max(np.log(np.exp(wide[seen]) - delta) - narrow[seen])


@parametrize("epsilon, z", [(0.5, 1.0), (3.0, 0.3)])
def test_what_variances_prove_is_what_integration_gives(epsilon, z):
    """Two numbers, so that their squares' sum is exponential: delta = integral of (p - e^epsilon
    q)+ ."""
    ratio = 1 + 1 / z**2
    x = np.linspace(0, 60 * ratio, 2_000_001)
    p = np.exp(-x / 2 / ratio) / 2 / ratio
    q = np.exp(-x / 2) / 2
    delta = np.maximum(p - np.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
    assert apart(ratio, 2, delta) == approx(epsilon, abs=1e-3)


@parametrize("people, proven", [(40, 80.9), (300, 6.3)])
def test_noise_of_a_ues_own_would_show_who_sends_in_the_variance(people, proven):
    """Of 28 rounds of 8,513 numbers, epsilon 8.00 of the noise at the server; the variances are
    those of the parts."""
    z = 3.7153
    c = 0.5
    d = 8513
    rounds = 28
    central = CentralGaussian(noise_multiplier=z)
    device_noise = Gaussian(noise_multiplier=z)
    clip = Clip(norm=c, relation="add-remove")
    context = build_context(weight=1 / people)
    rng = Streams(1).derive_rng("noise")

    def variances(n):
        updates = build_updates(np.zeros((n, 50)))
        updates, _, _ = clip.protect(updates, None, context, None, None)
        _, _, (noise,) = device_noise.protect(updates, None, context, None, rng)
        _, state, _ = central.protect(updates, None, context, central.start(n), None)
        _, _, (server,) = central.finish(np.zeros((1, 50)), n, context, state, rng)
        return server.std[0] ** 2 + (noise.std**2).sum(), server.compute_cost(False)[0]

    (with_, cost) = variances(people)
    (without, _) = variances(people - 1)
    assert compute_gaussian_epsilon(1e-7, np.sqrt(rounds * cost)) == approx(8.0, abs=1e-3)
    assert apart(with_ / without, rounds * d) == approx(proven, abs=0.06)


def test_a_decoder_shows_a_far_ue_without_a_limit():
    """Its noise on c / sqrt(d) over that of the server, which alone is beside it: the proof grows
    with its distance."""
    z = 3.7153
    d = 8513
    rounds = 28
    snr = 10 ** (np.array([-12, -50, -55]) / 10)
    ratios = 1 + np.array([compute_noise_std(1 / np.sqrt(d), s) for s in snr]) ** 2 / z**2
    near, far, farthest = (apart(ratio, rounds * d) for ratio in ratios)
    assert near < 0.5
    assert far > 8.0
    assert farthest > 80.0


OWN = [
    kind
    for kind, part in DEFENSES.parts.items()
    if part.model_validate(part.example).noise_on_device
]


@parametrize("relation", RELATIONS)
@parametrize("sampling", ["all", "poisson", "cyclic"])
def test_noise_of_a_ues_own_stands_beside_noise_at_the_server_where_neighbours_send_alike(
    tiny, sampling, relation
):
    """After it, and of a decoder: refused, but where UEs take turns and send zeros; before the clip
    it is covered."""
    clip = clip_by(relation)
    study = changes("rounds", sampling, relation, "ideal")
    alike = sampling == "cyclic" and relation == "add-remove"
    kinds = "arb distributed-gaussian gaussian lapa noise-switch skellam uniform-dp"
    assert sorted(OWN) == kinds.split()
    for kind in OWN:
        noise = DEFENSES.parts[kind].example
        second = "hides one UE only|divides noise|put it before"
        when_before = None if kind == "gaussian" else second
        after = when_before if alike else "the variance of the sum shows who sends"
        for chain, reason in (
            ([clip, CENTRAL, noise], after),
            ([clip, noise, clip_by(relation, name="again"), CENTRAL], when_before),
        ):
            with nullcontext() if reason is None else raises(BadInput, match=reason):
                tiny(study | {"learning.defenses": chain})
    for kind in ("noma", "oma"):
        noisy = {"learning.defenses": [clip, CENTRAL], "world.radio.uplink": {"kind": kind}}
        with nullcontext() if alike else raises(BadInput, match="set decoding: error-free"):
            tiny(study | noisy)
        tiny(study | noisy | {"world.radio.uplink.decoding": "error-free"})


def test_noise_before_the_clip_moves_a_sum_by_no_more_than_the_clip(tiny, play_study):
    clips = [clip_by("add-remove"), clip_by("add-remove", name="again")]
    chain = [clips[0], DEVICE_NOISE, clips[1], CENTRAL]
    study = tiny(changes("rounds", "all", "add-remove", "ideal") | {"learning.defenses": chain})
    sums, _, spends, _ = play_study(study)
    again, _, _, _ = play_study(study, 0, without)
    assert 0.99 * C < measure_apart(sums, again) <= C * (1 + 1e-9)
    assert set(spends["relation"][spends["mechanism"] == "gaussian"]) == {"zero-out"}


def test_a_budget_beside_noise_that_hides_one_ue_is_refused(tiny):
    """What LAPA draws on others follows the sum before that noise, and how many UEs there are."""
    for kind in ("uniform-dp", "arb", "lapa", "noise-switch"):
        chain = [{"kind": "clip"}, DEFENSES.parts[kind].example, {"kind": "clip", "name": "again"}]
        central = changes("rounds", "all", "replace", "ideal")
        for threat, last in (({}, CENTRAL), (SUMS, SHARED_NOISE)):
            beside = {"learning.threat": threat, "learning.defenses": [*chain, last]}
            with raises(BadInput, match=r"hides one UE only|before noise-switch"):
                tiny(central | beside)


RADIO_MAP = read_changes("""
world.ues.measure: all
learning.attacks: []
learning.learner: {kind: radio-map, cell_m: 25}
learning.aggregation: {kind: uniform, clients: 4}
learning.defenses: [{kind: clip}, {kind: central-gaussian, noise_multiplier: 1.0}]
""")


@parametrize(
    "data, training_s, reason",
    cases("""
    {}, 0.0, "all learn from the round in which a UE measures first"
    {"memory": "all", "hold_out_ues": 1}, 0.0, "takes the place of another"
    {"memory": "round"}, 1.0, "the slowest UE of a phase decides how much time all have for the
      next"
    {"memory": "round"}, 0.0, None
    """),
)
def test_data_and_phases_that_tie_ues_together_are_refused(tiny, data, training_s, reason):
    options = {
        "learning.data": {"kind": "links", **data},
        "world.ues.training_s_per_sample": training_s,
    }
    with nullcontext() if reason is None else raises(BadInput, match=reason):
        tiny(RADIO_MAP | options)


def test_one_slow_user_changes_no_number_of_rounds(tiny, tmp_path):
    """Windows of 20 s and a deadline of 50 s: every third window has a round, whether the slow UE
    is there or not."""
    slow = changes("long", "all", "add-remove", "slow")
    epsilons = set()
    for clients in (UES, 1):
        summary = run(tiny(slow | {"world.ues.count": clients}), tmp_path / str(clients))
        assert summary["rounds.played"] == 2
        epsilons.add(summary["privacy.all.epsilon.max"])
    assert len(epsilons) == 1


def test_the_last_round_is_compared_though_its_updates_came_long_before_its_deadline(
    tiny, tmp_path
):
    attacked = {"learning.attacks": [{"kind": "closed-form"}], "learning.leakage.every_rounds": 10}
    run(tiny(changes("long", "all", "add-remove", "ideal") | attacked), tmp_path)
    rows = (tmp_path / "leakage.csv").read_text().splitlines()[1:]
    assert {row.split(",")[0] for row in rows} == {"1", "4"}  # round 4 lasts until the end


# -- what everybody is told of a trace

FOUR = list("abcd")
HOURS = [f"2021-04-{day}T{hour:02d}:00:00Z" for day in (21, 22) for hour in range(6, 20, 2)]
STATED = read_changes("""
extent: stated
area_deg: [52.0, 4.0, 52.02, 4.03]
since: '2021-04-21'
until: '2021-04-23'
absent_after_s: 600
""")


def write_trace(path, users):
    """Rows of people who walk, and of one, far, who is seen once before all others and far away,
    and once after."""
    draw = np.random.default_rng(1)
    lines = ["time_s,user,lat,lon,rsrp_dbm,cell"]
    for user in FOUR:
        lat = 52.01 + 0.002 * draw.normal(size=14)
        lon = 4.015 + 0.002 * draw.normal(size=14)
        rows = zip(HOURS, lat, lon, draw.normal(-90, 5, 14), strict=True)
        lines += [f"{t},{user},{a:.6f},{o:.6f},{y:.1f},x" for t, a, o, y in rows if user in users]
    far = ["2021-04-19T12:00:00Z,far,52.5,4.9,-80,x", "2021-04-25T12:00:00Z,far,52.5,4.9,-80,x"]
    path.write_text("\n".join(lines + (far if "far" in users else [])) + "\n")
    return str(path)


def build_replay(trace, **mobility):
    options = {"kind": "replay", "trace": trace, "cell": "x", "users": "id"}
    replay = read_changes("""
    world.duration_s: null
    world.tick_s: 3600
    world.city: {kind: open-field}
    world.base_stations: []
    world.radio.shadowing: {kind: none}  # a field of 60 km would take most of the time
    learning.round_s: 86400
    learning.attacks: []
    learning.aggregation: {kind: uniform, clients: 5}
    learning.defenses:
    - {kind: clip, norm: 2.0e-3, relation: add-remove}
    - {kind: central-gaussian, noise_multiplier: 1.0}
    """)
    zone = {"timezone": "Europe/Amsterdam"}
    return replay | {"world.ues": {"mobility": options | zone | mobility}}


def test_of_a_stated_extent_one_user_moves_nobody_else(tiny, play_study, tmp_path):
    """However far away, early or late: the sums differ by no more than the user's own update, in
    the same rounds."""
    cohorts = [*FOUR, "far"], FOUR, FOUR[:3]
    traces = [write_trace(tmp_path / f"{len(users)}.csv", users) for users in cohorts]
    whole, near, fewer = (play_study(tiny(build_replay(trace, **STATED))) for trace in traces)
    assert list(whole[0]) == list(near[0]) == list(fewer[0]) == [1, 2]
    assert measure_apart(whole[0], near[0]) == 0.0
    assert 0.5 * C < measure_apart(near[0], fewer[0]) <= C * (1 + 1e-9)
    assert whole[3] == near[3] == fewer[3] == []


def test_of_an_extent_of_the_rows_one_user_moves_everybody_and_the_run_says_so(
    tiny, play_study, tmp_path
):
    cohorts = [*FOUR, "far"], FOUR
    traces = [write_trace(tmp_path / f"{len(users)}.csv", users) for users in cohorts]
    first, second = (play_study(tiny(build_replay(trace))) for trace in traces)
    assert len(first[0]) > len(second[0])  # more rounds
    sums = [list(play[0].values()) for play in (first, second)]
    assert np.linalg.norm(sums[0][2] - sums[1][0]) > 1.2 * C  # of the same day
    for _, _, _, (lines,) in (first, second):
        assert lines.startswith("public values: the area")


@parametrize(
    "options, lines",
    cases("""
    {"cell": None}, "the busiest cell (world.ues.mobility.cell)"
    {"cell": "all"}, "which cells there are (world.ues.mobility.cell)"
    {"outlier_sigmas": 4.0}, "which rows are outliers (world.ues.mobility.outlier_sigmas: none)"
    {"absent_after_s": None}, "when a UE counts as absent (world.ues.mobility.absent_after_s)"
    {"extent": "rows"}, "the area, the middle of the plane, the first day, the number of rounds"
    """),
)
def test_every_value_that_follows_from_the_rows_is_named(tiny, tmp_path, options, lines):
    study = tiny(build_replay(write_trace(tmp_path / "t.csv", ("a", "b")), **(STATED | options)))
    world, _ = prepare_run(study, tmp_path)
    (warning,) = (item.line for item in world.notices if item.key == "values-of-all-users")
    assert warning.startswith(f"public values: {lines}")


def test_an_extent_that_is_not_stated_is_refused(tiny):
    with raises(BadInput, match="extent: stated needs area_deg or area_m, since, until"):
        tiny(build_replay("t.csv", extent="stated"))
    with raises(BadInput, match="extent: stated needs until"):
        tiny(build_replay("t.csv", **STATED | {"until": None}))


# -- days of 23 and 25 hours


def by_turns(path, first, **server):
    """Two cohorts by turns over five days in which clocks change, with noise correlated over two
    rounds."""
    days = [str(np.datetime64(first) + i) for i in range(6)]
    visits = product(FOUR, days, ("09", "15"))
    rows = [f"{day}T{hour}:00:00Z,{user},52.01,4.015,-90,x" for user, day, hour in visits]
    (path / "t.csv").write_text("\n".join(["time_s,user,lat,lon,rsrp_dbm,cell", *rows]) + "\n")
    stated = STATED | {"since": days[0], "until": days[5]}
    turns = read_changes("""
    learning.sampling: cyclic
    learning.participation: 0.5
    learning.aggregation: {kind: uniform, clients: 4, participation: 0.5}
    learning.defenses:
    - {kind: clip, norm: 2.0e-3, relation: add-remove}
    - {kind: central-gaussian, noise_multiplier: 1.0, correlation: banded, bands: 2}
    """)
    turns["learning.server"] = {"kind": "synchronous", **server}
    return build_replay(str(path / "t.csv"), **stated) | turns


@parametrize(("first", "hours"), [("2021-03-26", 23), ("2021-10-29", 24), ("2021-09-20", 24)])
def test_no_ue_sends_in_rounds_nearer_than_its_turns_where_clocks_change(
    tiny, tmp_path, first, hours
):
    """A round of a day makes the next window pass where that has 23 hours: two turns are then one
    round apart."""
    if hours == 23:
        with raises(BadInput, match=r"lets windows pass; make server\.deadline_s at most 82800"):
            run(tiny(by_turns(tmp_path, first, deadline_s=86400)), tmp_path / "run")
    run(tiny(by_turns(tmp_path, first, deadline_s=hours * 3600)), tmp_path / "run")
    sent = read_record_table(tmp_path / "run", "updates")
    rounds = sorted(set(read_record_table(tmp_path / "run", "rounds")["round"].tolist()))
    assert len(rounds) == 5
    for ue in set(sent["ue"]):
        turns = sorted({rounds.index(r) for r in sent["round"][sent["ue"] == ue].tolist()})
        assert len(turns) > 1
        assert (np.diff(turns) == 2).all()


# -- one measurement

RECORD = read_changes("""
world.duration_s: 200
learning.round_s: 20
world.ues.measure: all
learning.attacks: []
world.ues.compute_j_per_sample: 1.0
learning.learner: {kind: rsrp-net, hidden: [6], activation: tanh, sample_clip: 1.0e-3}
learning.aggregation: {kind: uniform, clients: 4}
learning.defenses: [{kind: central-gaussian, noise_multiplier: 8.0}]
""")
TAKEN = read_changes("""
round: {}
samples: {hold_out: 0.1}
holding: {memory: all, participants: holding}
all: {memory: all}
five: {memory: 5}
'five, holding': {memory: 5, participants: holding}
block: {hold_out_by: block, block_m: 30, hold_out: 0.5}
""")
HELD_BACK = read_changes("""
nothing: []
coin: [{kind: random-silence, probability: 0.3}]
cooldown: [{kind: cooldown, rounds: 1}]
daily-limit: [{kind: daily-limit, updates: 5}]
""")
AVAILABLE = read_changes("""
always: {kind: always}
charging: {kind: charging, from_hour: 0, from_spread_hours: 0, hours: 12}
battery: {kind: battery, capacity_j: 22, min_charge_share: 0.25, charge_w: 0, charging: null}
""")
BOUNDED = set(product(("round", "samples", "holding"), ("nothing", "coin"), ("always", "charging")))
FALSE = set(
    cases("""
    "all", "nothing", "always"
    "five", "nothing", "always"
    "block", "nothing", "always"
    "round", "nothing", "battery"
    "round", "cooldown", "always"
    "round", "daily-limit", "charging"
    """)
)


def measure_once(change):
    """In its fifth round UE 0 has one measurement of cell a, which `change` is made to, and UE 1
    begins later."""

    def second(observations, ue):
        once = (observations.ue == ue) & (observations.cell == 0) & (observations.time_s // 20 == 4)
        observations = observations.select(
            (~once | (observations.time_s == 90))
            & ((observations.ue != 1) | (observations.time_s >= 20))
        )
        return change(
            observations,
            (observations.ue == ue) & (observations.cell == 0) & (observations.time_s == 90),
        )

    return second


def elsewhere(observations, is_changed):
    place_m = observations.position_m + 47.0 * is_changed[:, None]
    rsrp_dbm = observations.rsrp_dbm - 30.0 * is_changed
    return type(observations)(
        observations.ue, observations.time_s, place_m, observations.cell, rsrp_dbm
    )


def move_to_another_cell(observations, is_changed):
    return type(observations)(
        observations.ue,
        observations.time_s,
        observations.position_m,
        np.where(is_changed, 1, observations.cell),
        observations.rsrp_dbm,
    )


def farthest(play_study, study):
    """Farthest that the sum of a round moves over what is booked, and whether noise itself moves
    with the place."""
    sums, _, booked, warnings = play_study(study, 0, measure_once(lambda rows, _: rows))
    worst = 0.0
    alike = True
    for change in (elsewhere, move_to_another_cell):
        again, _, paid, _ = play_study(study, 0, measure_once(change))
        assert list(again) == list(sums)
        allowed = np.maximum(booked["sensitivity"], paid["sensitivity"])
        apart = [np.linalg.norm(sums[r] - again[r]) for r in sums]
        worst = max(worst, (apart / allowed).max())
        alike = alike and (change is move_to_another_cell or (booked["std"] == paid["std"]).all())
    return worst, alike, warnings


@parametrize("taken", TAKEN)
def test_no_measurement_moves_a_sum_by_more_than_is_booked(tiny, play_study, monkeypatch, taken):
    """Data, silence, availability: refused where a measurement decides when its UE sends, else
    within what is booked.

    What is refused is played all the same: there a measurement does move more, or the noise.
    """
    for held_back, available in product(HELD_BACK, AVAILABLE):
        study_changes = RECORD | {
            "learning.data": {"kind": "measured", "cell": "a", "hold_out": 0.0} | TAKEN[taken],
            "learning.withholding": HELD_BACK[held_back],
            "learning.availability": AVAILABLE[available],
        }
        if (taken, held_back, available) in BOUNDED:
            worst, alike, warnings = farthest(play_study, tiny(study_changes))
            assert 0.1 < worst <= 1 + 1e-9
            assert alike
            assert any("noise by its bound covers what a measurement says" in w for w in warnings)
            continue
        with raises(BadInput, match="central-gaussian needs a bound"):
            tiny(study_changes)
        if (taken, held_back, available) in FALSE:
            with monkeypatch.context() as patch:
                patch.setattr(Learning, "by_history", ())
                patch.setattr(
                    Learning, "_apply_withholding", lambda _, offered: offered | {RECORDS_ALONE}
                )
                worst, alike, _ = farthest(play_study, tiny(study_changes))
            assert worst > 1.5 or not alike
