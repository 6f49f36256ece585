"""How far one user moves what noise at the server hides: tiny studies with and without one UE, by
brute force.

Nothing here knows how the ledger is booked: a study is played as it is, then again with the
measurements of one UE taken away, or exchanged, and the sums before noise are compared with the
sensitivity that the first run booked.
"""

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from noticed import of_run
from scipy.stats import chi2

from fl.data import RECORDS_ALONE
from fl.defenses import DEFENSES
from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, Gaussian
from fl.notice import notice as of_learning
from fl.privacy.compose import RoundKinds, pld_epsilon
from fl.privacy.gaussian import epsilon_of
from fl.round.learning import Learning
from fl.types import DenseUpdates, Public, RoundContext
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.radio.uplink import noise_std
from netsim.rng import Streams
from netsim.world.world import World
from scenarios.app.result import run
from scenarios.app.results.folder import read_table
from scenarios.app.run.setup import ready

C = 2e-3
UES = 4
SHARED = {"rate": {"kind": "shannon"}, "decoding": "error-free", "bandwidth_hz": 60}
UPLINKS = {
    "ideal": {},
    "slow": {
        "world.ues.training_s_per_sample": 3.0,
        "world.ues.compute_heterogeneity": {"kind": "log-normal"},
    },
    "oma": {"world.radio.uplink": {"kind": "oma", **SHARED}},
    "noma": {"world.radio.uplink": {"kind": "noma", **SHARED}},
    "dynamic_uplink": {"world.radio.dynamic_uplink": {}},
}
SERVERS = {
    "rounds": {"kind": "synchronous"},
    "deadline": {"kind": "synchronous", "deadline_s": 15},
    "long": {"kind": "synchronous", "deadline_s": 50},
    "first": {"kind": "synchronous", "merge_after_updates": 2},
    "fedbuff": {"kind": "fedbuff", "buffer": 2},
    "fedasync": {"kind": "fedasync"},
}
SAMPLING = {"all": (1.0, "fixed"), "fixed": (0.5, "fixed"), "poisson": (0.5, "poisson")}
RELATIONS = ("add-remove", "replace")


def changes(server, sampling, relation, uplink):
    share, how = SAMPLING[sampling]
    return {
        "learning.round_s": 20,
        "learning.attacks": [],
        "learning.server": SERVERS[server],
        "learning.data": {"kind": "measured", "cell": "strongest", "memory": "all"},
        "learning.participation": share,
        "learning.sampling": how,
        "learning.aggregation": {"kind": "uniform", "clients": UES, "participation": share},
        "learning.defenses": [
            {"kind": "adaptive-clip", "norm": C, "relation": relation, "learning_rate": 1e-12},
            {"kind": "central-gaussian", "noise_multiplier": 1.0},
        ],
        **UPLINKS[uplink],
    }


@pytest.fixture
def played(tmp_path_factory, monkeypatch):
    """Play a study with one UE's measurements as `other` makes them: sums and counts of each round,
    what was booked.

    Models stay at their first values: what was published before is the same, as composition takes
    it.
    """

    def play(study, ue=None, other=None):
        sums = {}
        counts = {}
        see = World.observations

        def observed(world):
            found = see(world)
            if ue is None:
                return found
            return other(found, ue)

        def summed(part, total, n, facts, state, rng):
            same, after, spends = finish(part, total, n, facts, state, rng)
            sums[facts.round] = total / facts.weight
            return np.zeros_like(same), after, spends

        def clipped(part, updates, local, facts, state, rng):
            if other is zeroed:
                updates = updates.scaled((updates.ue != ue).astype(float), None)
            found = clip(part, updates, local, facts, state, rng)
            counts[facts.round] = (found[1].bits - 0.5).sum()
            return found

        def counted(part, total, n, facts, state, rng):
            sums.setdefault(
                facts.round, total / facts.weight
            )  # with the noise of UEs, which is the same again
            return count(part, np.zeros_like(total), n, facts, state, rng)

        finish = CentralGaussian.finish
        count = AdaptiveClip.finish
        clip = AdaptiveClip.protect
        with monkeypatch.context() as patch:
            patch.setattr(World, "observations", observed)
            patch.setattr(CentralGaussian, "finish", summed)
            patch.setattr(AdaptiveClip, "finish", counted)
            patch.setattr(AdaptiveClip, "protect", clipped)
            out = tmp_path_factory.mktemp("run")
            run(study, out)
        warnings = [each.line for each in of_run(out) if each.key in of_learning.entries]
        return sums, counts, read_table(out, "spends"), warnings

    return play


def without(found, ue):
    return found.select(found.ue != ue)


def with_others(found, ue):
    """The UE measured half as often, elsewhere, and something else."""
    mine = found.ue == ue
    keep = ~mine | (np.cumsum(mine) % 2 == 0)
    moved = np.where(mine[:, None], found.position_m[::-1] * 0.5, found.position_m)
    rsrp = np.where(mine, -150.0 - found.rsrp_dbm, found.rsrp_dbm)
    return type(found)(found.ue, found.time_s, moved, found.cell, rsrp).select(keep)


def zeroed(found, ue):
    """The UE measures the same, and its updates are zeros."""
    return found


def moved(one, other):
    """How far two sums of a round are apart, of the round in which they are farthest."""
    return max(np.linalg.norm(np.ravel(one[r]) - np.ravel(other[r])) for r in one)


def refusal(server, sampling, relation, uplink):
    """What keeps a combination from being played; an empty text: nothing."""
    if server in ("fedbuff", "fedasync"):
        return "needs rounds"
    if sampling == "fixed" and relation == "add-remove":
        return "takes the place of another"
    if server == "first":
        return "takes the place of others among the first"
    return (
        "decides when others send and how many rounds there are"
        if uplink == "dynamic_uplink"
        else ""
    )


COMBINATIONS = list(product(SERVERS, SAMPLING, RELATIONS))
CASES = [(uplink, COMBINATIONS[i::5]) for i, uplink in enumerate(UPLINKS)]
CASES += [pytest.param(uplink, COMBINATIONS, marks=pytest.mark.slow) for uplink in UPLINKS]


@pytest.mark.parametrize(("uplink", "combinations"), CASES)
def test_no_user_moves_a_sum_by_more_than_is_booked(tiny, played, uplink, combinations):
    """Servers, ways of sampling, relations: each is refused, or one UE moves no sum by more than
    the sensitivity."""
    worst = beyond = 0.0
    for server, sampling, relation in combinations:
        why = refusal(server, sampling, relation, uplink)
        asked = changes(server, sampling, relation, uplink)
        if why:
            with pytest.raises(BadInput, match=why):
                tiny(asked)
            continue
        study = tiny(asked)
        sums, counts, spends, warnings = played(study)
        shared = [w for w in warnings if "shared band" in w]
        assert bool(shared) == (uplink in ("oma", "noma")) and len(warnings) == len(shared), (
            warnings
        )
        booked = spends["sensitivity"][spends["mechanism"] == "central-gaussian"]
        of_count = spends["sensitivity"][spends["mechanism"] == "adaptive-clip"]
        assert len(booked) == len(of_count) == len(sums)
        for other in (without, with_others) if relation == "replace" else (without,):
            again, bits, paid, _ = played(study, 0, other)
            assert list(again) == list(sums)
            assert len(paid["round"]) == len(spends["round"])
            assert moved(counts, bits) <= of_count[0] * (1 + 1e-9)
            if shared:  # the run says that losses are taken as given
                beyond = max(beyond, moved(sums, again) / booked[0])
            else:
                assert moved(sums, again) <= booked[0] * (1 + 1e-9), (
                    server,
                    sampling,
                    relation,
                    other.__name__,
                )
                worst = max(worst, moved(sums, again) / booked[0])
    whole = combinations is COMBINATIONS
    assert worst > 0.9 or not (
        uplink == "ideal" or (whole and uplink == "slow")
    )  # no more is booked than must be
    assert beyond > 1.05 or not (whole and uplink in ("oma", "noma"))  # and the caveat is needed


ASKED = SAMPLING | {"cyclic": (0.5, "cyclic")}
SHARED_NOISE = {"kind": "distributed-gaussian", "noise_multiplier": 1.0}
PLACES = {
    "central": ("server", {"kind": "central-gaussian", "noise_multiplier": 1.0}, {}),
    "beside shares": ("server", SHARED_NOISE, {"observes": "aggregate", "secagg_threshold": 2}),
    "shares": ("shares", SHARED_NOISE, {"observes": "aggregate", "secagg_threshold": 2}),
}


def counted_in(place, sampling, relation, **more):
    noise, part, threat = PLACES[place]
    share, how = ASKED[sampling]
    bits = {
        "kind": "adaptive-clip",
        "norm": C,
        "relation": relation,
        "learning_rate": 1e-12,
        "noise": noise,
    }
    return {
        "learning.round_s": 20,
        "learning.attacks": [],
        "learning.threat": threat,
        "learning.data": {"kind": "measured", "cell": "strongest", "memory": "all"},
        "learning.participation": share,
        "learning.sampling": how,
        "learning.aggregation": {"kind": "uniform", "clients": UES, "participation": share},
        "learning.defenses": [bits | {"delta": 1e-7}, part | {"delta": 1e-5}],
    } | more


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampling", ["all", "poisson", "cyclic"])
def test_what_one_user_moves_is_booked_for_it_under_one_relation(
    tiny, played, place, relation, sampling
):
    """The count of an adaptive clip and the sum beside it, each by no more than is booked in that
    round."""
    study = tiny(counted_in(place, sampling, relation))
    sums, counts, spends, _ = played(study)
    if relation == "replace" or (place, sampling) in product(["central"], ["all", "poisson"]):
        alike = relation
    else:
        alike = ""
    assert set(spends["relation"]) == {alike or "zero-out"}
    of_count = spends["mechanism"] == "adaptive-clip"
    farthest = 0.0
    for ue in range(UES):
        again, bits, _, _ = played(study, ue, without if alike == "add-remove" else zeroed)
        mine = np.isin(spends["ue"], (-1, ue))
        for r in sums:
            now = mine & (spends["round"] == r)
            allowed = [spends["sensitivity"][now & which].sum() for which in (of_count, ~of_count)]
            apart = abs(counts[r] - bits[r]), np.linalg.norm(sums[r] - again[r])
            assert apart[0] <= allowed[0] * (1 + 1e-9)
            assert apart[1] <= allowed[1] * (1 + 1e-9) + 1e-12
            farthest = max(farthest, apart[0] / max(allowed[0], 1e-9))
        if sampling == "cyclic":  # and no UE pays for the rounds of another cohort
            assert len(set(spends["round"][mine])) == 3
    assert farthest == pytest.approx(1.0)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sampling", ["all", "poisson", "cyclic"])
def test_all_mechanisms_that_one_user_moves_add_up(tiny, tmp_path, place, sampling):
    """In the live ledger, in the account, and against a budget: by hand from what was drawn in its
    rounds."""
    study = counted_in(place, sampling, "add-remove")
    run(tiny(study), tmp_path / "free")
    spends = read_table(tmp_path / "free", "spends")
    account = read_table(tmp_path / "free", "privacy")
    worst = account["epsilon"][account["mechanism"] == "all"].max()
    assert worst > 1.01 * account["epsilon"][account["mechanism"] != "all"].max()
    if sampling != "poisson" or place != "central":
        by_hand = [
            np.sum((spends["sensitivity"][rows] / spends["std"][rows]) ** 2)
            for rows in (np.isin(spends["ue"], (-1, ue)) for ue in range(UES))
        ]
        assert worst == pytest.approx(epsilon_of(1e-7, np.sqrt(max(by_hand))), rel=1e-6)
    else:  # a coin a round, for the count and the sum
        one = 1.0 / np.sqrt(1 + 0.25)
        assert worst == pytest.approx(
            pld_epsilon(RoundKinds.of([(one, 0.5, 6)]), 1e-7, 15.0), rel=1e-3
        )
    limited = study | {"learning.privacy_budget": {"epsilon": 0.98 * worst}}
    assert run(tiny(limited), tmp_path / "less")["rounds.stopped_by_budget"] is True
    more = study | {"learning.privacy_budget": {"epsilon": 1.3 * worst}}
    assert run(tiny(more), tmp_path / "more")["rounds.stopped_by_budget"] is False


@pytest.mark.parametrize("place", PLACES)
def test_clips_of_two_relations_are_refused(tiny, place):
    study = counted_in(place, "all", "replace")
    study["learning.defenses"].insert(1, {"kind": "clip", "norm": C, "relation": "add-remove"})
    with pytest.raises(BadInput, match="costs add up under one relation"):
        tiny(study)


BUDGET = {"epsilon_system_total": 100.0, "rounds": 10}
NOISES = {
    "nothing": [],
    "gaussian": [{"kind": "gaussian", "noise_multiplier": 1.0}],
    "shares": [SHARED_NOISE],
    "central": [PLACES["central"][1]],
    "ring": [{"kind": "skellam", "noise_multiplier": 1.0}],
    "uniform-dp": [{"kind": "uniform-dp", **BUDGET}],
    "arb": [{"kind": "arb", **BUDGET}],
    "lapa": [{"kind": "lapa", **BUDGET}],
    "both": [{"kind": "gaussian", "noise_multiplier": 1.0}, "clip", PLACES["central"][1]],
    "after": [PLACES["central"][1], {"kind": "gaussian", "noise_multiplier": 1.0}],
    "counted": [PLACES["central"][1], "count"],
}
RECORDS = {
    "learning.learner": {
        "kind": "rsrp-net",
        "hidden": [6, 4],
        "activation": "tanh",
        "sample_clip": 1.0,
    },
    "learning.data": {"kind": "measured", "cell": "a"},
}


@pytest.mark.parametrize("noise", NOISES)
def test_what_one_pair_of_neighbours_moves_is_in_one_group(tiny, tmp_path, noise):
    """Of every chain that is accepted all spends have one unit and relation: `all` adds them up, a
    budget stops there.

    Bounds are those of a clip before the noise, of an adaptive one, or of records (`sample_clip`).
    """
    accepted = set()
    firsts = ("clip", "server", "shares", "records")
    for first, relation, second, sampling in product(firsts, RELATIONS, RELATIONS, ASKED):
        if second != relation and not {"clip", "count"} & set(map(str, NOISES[noise])):
            continue
        clip = {"kind": "clip", "norm": C, "name": "again", "relation": second}
        count = (
            {"kind": "adaptive-clip", "noise": first}
            if first in ("server", "shares")
            else {"kind": "clip"}
        )
        study = counted_in(
            "shares" if noise in ("shares", "ring") else "central", sampling, relation
        )
        named = {
            "clip": clip,
            "count": {"kind": "adaptive-clip", "norm": C, "relation": second, "name": "counted"},
        }
        chain = [named[each] if isinstance(each, str) else each for each in NOISES[noise]]
        bounded = [] if first == "records" else [count | {"norm": C, "relation": relation}]
        study |= {"learning.defenses": [*bounded, *chain], "world.duration_s": 20}
        study |= RECORDS if first == "records" else {}
        out = tmp_path / str(len(accepted))
        try:
            run(tiny(study), out)
        except BadInput:
            continue
        accepted.add((first, relation, second, sampling))
        if not chain and first in ("clip", "records"):
            continue
        booked = read_table(out, "spends")
        account = read_table(out, "privacy")
        assert len(set(zip(booked["unit"], booked["relation"], strict=True))) == 1, (
            first,
            relation,
            second,
            sampling,
        )
        several = len(set(booked["mechanism"])) > 1
        assert ("all" in account["mechanism"]) == several
        if several:  # one round is played, which costs more
            budget = {"learning.privacy_budget": {"epsilon": 0.98 * account["epsilon"].max()}}
            assert run(tiny(study | budget), out / "less")["rounds.stopped_by_budget"] is True
    assert len(accepted) > 1


def test_a_record_moves_no_count_beside_a_sum_that_hides_it(tiny):
    """A clip after noise on records hides users, and a record moves both."""
    study = counted_in("central", "all", "replace") | RECORDS
    central = PLACES["central"][1]
    gaussian = {"kind": "gaussian", "noise_multiplier": 1.0}
    for chain in ([central, {"kind": "adaptive-clip"}], [gaussian, {"kind": "clip"}, central]):
        with pytest.raises(
            BadInput, match="a user by relation: replace, and noise before it a record by relation"
        ):
            tiny(study | {"learning.defenses": chain})
    tiny(study | {"learning.defenses": [{"kind": "adaptive-clip"}, central]})
    tiny(study | {"learning.defenses": [central]})


@pytest.mark.parametrize("sampling", ["all", "poisson", "cyclic"])
@pytest.mark.parametrize(
    "threat, sees",
    [
        ({"observes": "model"}, None),
        ({"observes": "model", "viewpoint": "analyst", "knowledge": ["participants"]}, "knowledge"),
        ({"observes": "aggregate"}, "observes"),
    ],
)
def test_a_run_says_that_its_attacker_sees_who_takes_part(tiny, tmp_path, sampling, threat, sees):
    """Noise at the server hides that, and sampling counts on it; by turns everybody knows it."""
    study = tiny(counted_in("central", sampling, "add-remove") | {"learning.threat": threat})
    world, _ = ready(study, tmp_path)
    said = [each.line for each in world.notices if each.key == "presence-seen"]
    assert len(said) == (sees is not None and sampling != "cyclic")
    assert all(
        line.startswith("central-gaussian: epsilon") and f"(threat.{sees})" in line for line in said
    )


# -- noise of a UE's own


def apart(ratio, numbers, delta=1e-7):
    """Epsilon that normal numbers of variances 1 and `ratio` > 1 prove, by the best threshold of
    their squares' sum."""
    x = numbers * ratio * np.linspace(0.0, 1.0 + 20.0 / np.sqrt(numbers), 50_001)
    wide = chi2.logsf(x / ratio, numbers)
    narrow = chi2.logsf(x, numbers)
    seen = np.exp(wide) > delta
    return np.max(np.log(np.exp(wide[seen]) - delta) - narrow[seen])


@pytest.mark.parametrize("epsilon, z", [(0.5, 1.0), (3.0, 0.3)])
def test_what_variances_prove_is_what_integration_gives(epsilon, z):
    """Two numbers, so that their squares' sum is exponential: delta = integral of (p - e^epsilon
    q)+ ."""
    ratio = 1 + 1 / z**2
    x = np.linspace(0, 60 * ratio, 2_000_001)
    p = np.exp(-x / 2 / ratio) / 2 / ratio
    q = np.exp(-x / 2) / 2
    delta = np.maximum(p - np.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
    assert apart(ratio, 2, delta) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize("people, proven", [(40, 80.9), (300, 6.3)])
def test_noise_of_a_ues_own_would_show_who_sends_in_the_variance(people, proven):
    """Of 28 rounds of 8,513 numbers, epsilon 8.00 of the noise at the server; the variances are
    those of the parts."""
    z = 3.7153
    c = 0.5
    d = 8513
    rounds = 28
    central = CentralGaussian(noise_multiplier=z)
    own = Gaussian(noise_multiplier=z)
    at = RoundContext(1, 0.0, Public(Area(0.0, 0.0, 1.0, 1.0), 1), weight=1 / people)

    def variances(n):
        made = DenseUpdates(np.arange(n), np.zeros(n, int), np.ones(n), np.zeros((n, 50)))
        made, _, _ = Clip(norm=c, relation="add-remove").protect(made, None, at, None, None)
        _, _, (noise,) = own.protect(made, None, at, None, Streams(1).at("own"))
        _, state, _ = central.protect(made, None, at, central.start(n), None)
        _, _, (server,) = central.finish(np.zeros((1, 50)), n, at, state, Streams(1).at("central"))
        return server.std[0] ** 2 + (noise.std**2).sum(), server.cost(False)[0]

    (with_, cost) = variances(people)
    (without, _) = variances(people - 1)
    assert epsilon_of(1e-7, np.sqrt(rounds * cost)) == pytest.approx(8.0, abs=1e-3)
    assert apart(with_ / without, rounds * d) == pytest.approx(proven, abs=0.06)


def test_a_decoder_shows_a_far_ue_without_a_limit():
    """Its noise on c / sqrt(d) over that of the server, which alone is beside it: the proof grows
    with its distance."""
    z = 3.7153
    d = 8513
    rounds = 28
    ratio = [
        1 + noise_std(1 / np.sqrt(d), 10 ** (snr_db / 10)) ** 2 / z**2 for snr_db in (-12, -50, -55)
    ]
    found = [apart(r, rounds * d) for r in ratio]
    assert found[0] < 0.5
    assert found[1] > 8.0
    assert found[2] > 80.0


OWN = [
    kind
    for kind, part in DEFENSES.parts.items()
    if part.model_validate(part.example).noise_on_device
]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampling", ["all", "poisson", "cyclic"])
def test_noise_of_a_ues_own_stands_beside_noise_at_the_server_where_neighbours_send_alike(
    tiny, sampling, relation
):
    """After it, and of a decoder: refused, but where UEs take turns and send zeros; before the clip
    it is covered."""
    share, how = (0.5, "cyclic") if sampling == "cyclic" else SAMPLING[sampling]
    clip = {"kind": "clip", "norm": C, "relation": relation}
    central = {"kind": "central-gaussian", "noise_multiplier": 1.0}
    study = changes("rounds", "all", relation, "ideal") | {
        "learning.participation": share,
        "learning.sampling": how,
        "learning.aggregation": {"kind": "uniform", "clients": UES, "participation": share},
    }
    alike = sampling == "cyclic" and relation == "add-remove"
    assert {
        "gaussian",
        "distributed-gaussian",
        "skellam",
        "uniform-dp",
        "arb",
        "lapa",
        "noise-switch",
    } == set(OWN)
    for kind in OWN:
        noise = DEFENSES.parts[kind].example
        other = "hides one UE only|divides noise|put it before"
        why = None if kind == "gaussian" else other
        after = why if alike else "the variance of the sum shows who sends"
        for chain, reason in (
            ([clip, central, noise], after),
            ([clip, noise, {**clip, "name": "again"}, central], why),
        ):
            with nullcontext() if reason is None else pytest.raises(BadInput, match=reason):
                tiny(study | {"learning.defenses": chain})
    for kind in ("noma", "oma"):
        noisy = {"learning.defenses": [clip, central], "world.radio.uplink": {"kind": kind}}
        with (
            nullcontext()
            if alike
            else pytest.raises(BadInput, match=r"who sent.*set decoding: error-free")
        ):
            tiny(study | noisy)
        tiny(study | noisy | {"world.radio.uplink.decoding": "error-free"})


def test_noise_before_the_clip_moves_a_sum_by_no_more_than_the_clip(tiny, played):
    clip = {"kind": "clip", "norm": C, "relation": "add-remove"}
    own = {"kind": "gaussian", "noise_multiplier": 1.0}
    chain = [
        clip,
        own,
        {**clip, "name": "again"},
        {"kind": "central-gaussian", "noise_multiplier": 1.0},
    ]
    study = tiny(changes("rounds", "all", "add-remove", "ideal") | {"learning.defenses": chain})
    sums, _, spends, _ = played(study)
    again, _, _, _ = played(study, 0, without)
    assert 0.99 * C < moved(sums, again) <= C * (1 + 1e-9)
    assert set(spends["relation"][spends["mechanism"] == "gaussian"]) == {"zero-out"}


def test_a_budget_beside_noise_that_hides_one_ue_is_refused(tiny):
    """What LAPA draws on others follows the sum before that noise, and how many UEs there are."""
    for kind in ("uniform-dp", "arb", "lapa", "noise-switch"):
        chain = [{"kind": "clip"}, DEFENSES.parts[kind].example, {"kind": "clip", "name": "again"}]
        central = changes("rounds", "all", "replace", "ideal")
        shares = {"learning.threat": {"observes": "aggregate", "secagg_threshold": 2}}
        for more, last in (({}, "central-gaussian"), (shares, "distributed-gaussian")):
            with pytest.raises(
                BadInput,
                match=r"hides one UE only, and noise by a budget|before noise-switch",
            ):
                last = {"kind": last, "noise_multiplier": 1.0}
                tiny(central | more | {"learning.defenses": [*chain, last]})


RADIO_MAP = {
    "world.ues.measure": "all",
    "learning.attacks": [],
    "learning.learner": {"kind": "radio-map", "cell_m": 25},
    "learning.aggregation": {"kind": "uniform", "clients": UES},
    "learning.defenses": [{"kind": "clip"}, {"kind": "central-gaussian", "noise_multiplier": 1.0}],
}


@pytest.mark.parametrize(
    "data, training_s, why",
    [
        ({}, 0.0, "all learn from the round in which a UE measures first"),
        ({"memory": "all", "hold_out_ues": 1}, 0.0, "takes the place of another"),
        (
            {"memory": "round"},
            1.0,
            "the slowest UE of a phase decides how much time all have for the next",
        ),
        ({"memory": "round"}, 0.0, None),
    ],
)
def test_data_and_phases_that_tie_ues_together_are_refused(tiny, data, training_s, why):
    more = {
        "learning.data": {"kind": "links", **data},
        "world.ues.training_s_per_sample": training_s,
    }
    with nullcontext() if why is None else pytest.raises(BadInput, match=why):
        tiny(RADIO_MAP | more)


def test_one_slow_user_changes_no_number_of_rounds(tiny, tmp_path):
    """Windows of 20 s and a deadline of 50 s: every third window has a round, whether the slow UE
    is there or not."""
    found = []
    for clients in (UES, 1):
        slow = changes("long", "all", "add-remove", "slow") | {"world.ues.count": clients}
        found.append(run(tiny(slow), tmp_path / str(clients)))
    assert [f["rounds.played"] for f in found] == [2, 2]
    assert found[0]["privacy.all.epsilon.max"] == found[1]["privacy.all.epsilon.max"]


def test_the_last_round_is_compared_though_its_updates_came_long_before_its_deadline(
    tiny, tmp_path
):
    attacked = {"learning.attacks": [{"kind": "closed-form"}], "learning.leakage.every_rounds": 10}
    run(tiny(changes("long", "all", "add-remove", "ideal") | attacked), tmp_path)
    rows = (tmp_path / "leakage.csv").read_text().splitlines()[1:]
    assert {row.split(",")[0] for row in rows} == {"1", "4"}  # round 4 lasts until the end


# -- what everybody is told of a trace

FOUR = ["a", "b", "c", "d"]
HOURS = [f"2021-04-{day}T{hour:02d}:00:00Z" for day in (21, 22) for hour in range(6, 20, 2)]
STATED = {
    "extent": "stated",
    "area_deg": [52.0, 4.0, 52.02, 4.03],
    "since": "2021-04-21",
    "until": "2021-04-23",
    "absent_after_s": 600,
}


def trace_of(path, users):
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


def replayed(trace, **mobility):
    told = {
        "kind": "replay",
        "trace": trace,
        "cell": "x",
        "users": "id",
        "timezone": "Europe/Amsterdam",
    } | mobility
    return {
        "world.duration_s": None,
        "world.tick_s": 3600,
        "world.city": {"kind": "open-field"},
        "world.base_stations": [],
        "world.radio.shadowing": {"kind": "none"},  # a field of 60 km would take most of the time
        "world.ues": {"mobility": told},
        "learning.round_s": 86400,
        "learning.attacks": [],
        "learning.aggregation": {"kind": "uniform", "clients": 5},
        "learning.defenses": [
            {"kind": "clip", "norm": C, "relation": "add-remove"},
            {"kind": "central-gaussian", "noise_multiplier": 1.0},
        ],
    }


def test_of_a_stated_extent_one_user_moves_nobody_else(tiny, played, tmp_path):
    """However far away, early or late: the sums differ by no more than the user's own update, in
    the same rounds."""
    traces = (
        trace_of(tmp_path / f"{len(users)}.csv", users)
        for users in ([*FOUR, "far"], FOUR, FOUR[:3])
    )
    whole, near, fewer = (played(tiny(replayed(trace, **STATED))) for trace in traces)
    assert list(whole[0]) == list(near[0]) == list(fewer[0]) == [1, 2]
    assert moved(whole[0], near[0]) == 0.0
    assert 0.5 * C < moved(near[0], fewer[0]) <= C * (1 + 1e-9)
    assert whole[3] == near[3] == fewer[3] == []


def test_of_an_extent_of_the_rows_one_user_moves_everybody_and_the_run_says_so(
    tiny, played, tmp_path
):
    traces = (trace_of(tmp_path / f"{len(users)}.csv", users) for users in ([*FOUR, "far"], FOUR))
    one, other = (played(tiny(replayed(trace))) for trace in traces)
    assert len(one[0]) > len(other[0])  # more rounds
    sums = [list(play[0].values()) for play in (one, other)]
    assert np.linalg.norm(sums[0][2] - sums[1][0]) > 1.2 * C  # of the same day
    for _, _, _, (said,) in (one, other):
        assert said.startswith("public values: the area")
        assert "no epsilon here covers that" in said


@pytest.mark.parametrize(
    "more, said",
    [
        ({"cell": None}, "the busiest cell (world.ues.mobility.cell)"),
        ({"cell": "all"}, "which cells there are (world.ues.mobility.cell)"),
        (
            {"outlier_sigmas": 4.0},
            "which rows are outliers (world.ues.mobility.outlier_sigmas: none)",
        ),
        (
            {"absent_after_s": None},
            "when a UE counts as absent (world.ues.mobility.absent_after_s)",
        ),
        (
            {"extent": "rows"},
            "the area, the middle of the plane, the first day, the number of rounds",
        ),
    ],
)
def test_every_value_that_follows_from_the_rows_is_named(tiny, tmp_path, more, said):
    study = tiny(replayed(trace_of(tmp_path / "t.csv", ("a", "b")), **(STATED | more)))
    world, _ = ready(study, tmp_path)
    (warning,) = (each.line for each in world.notices if each.key == "values-of-all-users")
    assert warning.startswith(f"public values: {said}")
    assert "follow from the data of all users" in warning


def test_an_extent_that_is_not_stated_is_refused(tiny):
    with pytest.raises(BadInput, match="extent: stated needs area_deg or area_m, since, until"):
        tiny(replayed("t.csv", extent="stated"))
    with pytest.raises(BadInput, match="extent: stated needs until"):
        tiny(replayed("t.csv", **STATED | {"until": None}))


# -- days of 23 and 25 hours


def by_turns(path, first, **server):
    """Two cohorts by turns over five days in which clocks change, with noise correlated over two
    rounds."""
    days = [str(np.datetime64(first) + i) for i in range(6)]
    rows = [
        f"{day}T{hour:02d}:00:00Z,{user},52.01,4.015,-90,x"
        for user in FOUR
        for day in days
        for hour in (9, 15)
    ]
    (path / "t.csv").write_text("\n".join(["time_s,user,lat,lon,rsrp_dbm,cell", *rows]) + "\n")
    stated = STATED | {"since": days[0], "until": days[5]}
    return replayed(str(path / "t.csv"), **stated) | {
        "learning.server": {"kind": "synchronous", **server},
        "learning.sampling": "cyclic",
        "learning.participation": 0.5,
        "learning.aggregation": {"kind": "uniform", "clients": 4, "participation": 0.5},
        "learning.defenses": [
            {"kind": "clip", "norm": C, "relation": "add-remove"},
            {
                "kind": "central-gaussian",
                "noise_multiplier": 1.0,
                "correlation": "banded",
                "bands": 2,
            },
        ],
    }


@pytest.mark.parametrize(
    ("first", "hours"), [("2021-03-26", 23), ("2021-10-29", 24), ("2021-09-20", 24)]
)
def test_no_ue_sends_in_rounds_nearer_than_its_turns_where_clocks_change(
    tiny, tmp_path, first, hours
):
    """A round of a day makes the next window pass where that has 23 hours: two turns are then one
    round apart."""
    if hours == 23:
        with pytest.raises(
            BadInput, match=r"lets windows pass; make server\.deadline_s at most 82800"
        ):
            run(tiny(by_turns(tmp_path, first, deadline_s=86400)), tmp_path / "run")
    run(tiny(by_turns(tmp_path, first, deadline_s=hours * 3600)), tmp_path / "run")
    sent = read_table(tmp_path / "run", "updates")
    rounds = sorted(set(read_table(tmp_path / "run", "rounds")["round"].tolist()))
    assert len(rounds) == 5
    for ue in set(sent["ue"]):
        turns = sorted({rounds.index(r) for r in sent["round"][sent["ue"] == ue].tolist()})
        assert len(turns) > 1
        assert (np.diff(turns) == 2).all()


# -- one measurement

RECORD = {
    "world.duration_s": 200,
    "learning.round_s": 20,
    "world.ues.measure": "all",
    "learning.attacks": [],
    "world.ues.compute_j_per_sample": 1.0,
    "learning.learner": {
        "kind": "rsrp-net",
        "hidden": [6],
        "activation": "tanh",
        "sample_clip": 1e-3,
    },
    "learning.aggregation": {"kind": "uniform", "clients": UES},
    "learning.defenses": [{"kind": "central-gaussian", "noise_multiplier": 8.0}],
}
TAKEN = {
    "round": {},
    "samples": {"hold_out": 0.1},
    "holding": {"memory": "all", "participants": "holding"},
    "all": {"memory": "all"},
    "five": {"memory": 5},
    "five, holding": {"memory": 5, "participants": "holding"},
    "block": {"hold_out_by": "block", "block_m": 30, "hold_out": 0.5},
}
HELD_BACK = {
    "nothing": [],
    "coin": [{"kind": "random-silence", "probability": 0.3}],
    "cooldown": [{"kind": "cooldown", "rounds": 1}],
    "daily-limit": [{"kind": "daily-limit", "updates": 5}],
}
AVAILABLE = {
    "always": {"kind": "always"},
    "charging": {"kind": "charging", "from_hour": 0, "from_spread_hours": 0, "hours": 12},
    "battery": {
        "kind": "battery",
        "capacity_j": 22,
        "min_charge_share": 0.25,
        "charge_w": 0,
        "charging": None,
    },
}
BOUNDED = set(product(("round", "samples", "holding"), ("nothing", "coin"), ("always", "charging")))
FALSE = {(taken, "nothing", "always") for taken in ("all", "five", "block")} | {
    ("round", "nothing", "battery"),
    ("round", "cooldown", "always"),
    ("round", "daily-limit", "charging"),
}


def measured_once(change):
    """In its fifth round UE 0 has one measurement of cell a, which `change` is made to, and UE 1
    begins later."""

    def other(found, ue):
        once = (found.ue == ue) & (found.cell == 0) & (found.time_s // 20 == 4)
        found = found.select(
            (~once | (found.time_s == 90)) & ((found.ue != 1) | (found.time_s >= 20))
        )
        return change(found, (found.ue == ue) & (found.cell == 0) & (found.time_s == 90))

    return other


def elsewhere(found, which):
    place_m, rsrp_dbm = (np.where(each, 1, 0) for each in (which[:, None], which))
    place_m = found.position_m + 47.0 * place_m
    rsrp_dbm = found.rsrp_dbm - 30.0 * rsrp_dbm
    return type(found)(found.ue, found.time_s, place_m, found.cell, rsrp_dbm)


def of_another_cell(found, which):
    return type(found)(
        found.ue, found.time_s, found.position_m, np.where(which, 1, found.cell), found.rsrp_dbm
    )


def farthest(played, study):
    """Farthest that the sum of a round moves over what is booked, and whether noise itself moves
    with the place."""
    sums, _, booked, warnings = played(study, 0, measured_once(lambda found, which: found))
    worst = 0.0
    alike = True
    for change in (elsewhere, of_another_cell):
        again, _, paid, _ = played(study, 0, measured_once(change))
        assert list(again) == list(sums)
        most = np.maximum(booked["sensitivity"], paid["sensitivity"])
        apart = [np.linalg.norm(sums[r] - again[r]) for r in sums]
        worst = max(worst, (apart / most).max())
        alike = alike and (change is of_another_cell or (booked["std"] == paid["std"]).all())
    return worst, alike, warnings


@pytest.mark.parametrize("taken", TAKEN)
def test_no_measurement_moves_a_sum_by_more_than_is_booked(tiny, played, monkeypatch, taken):
    """Data, silence, availability: refused where a measurement decides when its UE sends, else
    within what is booked.

    What is refused is played all the same: there a measurement does move more, or the noise.
    """
    for held_back, available in product(HELD_BACK, AVAILABLE):
        asked = RECORD | {
            "learning.data": {"kind": "measured", "cell": "a", "hold_out": 0.0} | TAKEN[taken],
            "learning.withholding": HELD_BACK[held_back],
            "learning.availability": AVAILABLE[available],
        }
        if (taken, held_back, available) in BOUNDED:
            worst, alike, warnings = farthest(played, tiny(asked))
            assert 0.1 < worst <= 1 + 1e-9
            assert alike
            assert any("noise by its bound covers what a measurement says" in w for w in warnings)
            continue
        with pytest.raises(BadInput, match="central-gaussian needs a bound"):
            tiny(asked)
        if (taken, held_back, available) in FALSE:
            with monkeypatch.context() as patch:
                patch.setattr(Learning, "by_history", ())
                patch.setattr(
                    Learning, "_after_withholding", lambda _, offered: offered | {RECORDS_ALONE}
                )
                worst, alike, _ = farthest(played, tiny(asked))
            assert worst > 1.5 or not alike
