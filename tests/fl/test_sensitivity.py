"""How far one user moves what noise at the server hides: tiny studies with and without one UE, by brute force.

Nothing here knows how the ledger is booked: a study is played as it is, then again with the measurements of one UE
taken away, or exchanged, and the sums before noise are compared with the sensitivity that the first run booked.
"""

import re
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

from fl.defenses import DEFENSES
from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, Gaussian
from fl.privacy.gaussian import epsilon_of
from fl.round.caveats import disclosed
from fl.types import DenseUpdates, Public, RoundContext
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.radio.uplink import noise_std
from netsim.rng import Streams
from netsim.world import World
from scenarios.app.results.folder import MANIFEST, read_json, read_table
from scenarios.app.run.runner import run
from scenarios.app.run.setup import ready

C, UES = 2e-3, 4
SHARED = {"rate": {"kind": "shannon"}, "decoding": "error-free", "bandwidth_hz": 60}
UPLINKS = {
    "ideal": {},
    "slow": {"world.ues.training_s_per_sample": 3.0, "world.ues.compute_heterogeneity": {"kind": "log-normal"}},
    "oma": {"world.radio.uplink": {"kind": "oma", **SHARED}},
    "noma": {"world.radio.uplink": {"kind": "noma", **SHARED}},
    "dynamic_uplink": {"world.radio.dynamic_uplink": {}},
}
SERVERS = {
    "rounds": {"kind": "synchronous"}, "deadline": {"kind": "synchronous", "deadline_s": 15},
    "long": {"kind": "synchronous", "deadline_s": 50}, "first": {"kind": "synchronous", "merge_after_updates": 2},
    "fedbuff": {"kind": "fedbuff", "buffer": 2}, "fedasync": {"kind": "fedasync"},
}  # fmt: skip
SAMPLING = {"all": (1.0, "fixed"), "fixed": (0.5, "fixed"), "poisson": (0.5, "poisson")}
RELATIONS = ("add-remove", "replace")


def changes(server, sampling, relation, uplink):
    share, how = SAMPLING[sampling]
    return {
        "learning.round_s": 20, "learning.attacks": [], "learning.server": SERVERS[server],
        "learning.data": {"kind": "measured", "cell": "strongest", "memory": "all"},
        "learning.participation": share, "learning.sampling": how,
        "learning.aggregation": {"kind": "uniform", "clients": UES, "participation": share},
        "learning.defenses": [
            {"kind": "adaptive-clip", "norm": C, "relation": relation, "learning_rate": 1e-12},
            {"kind": "central-gaussian", "noise_multiplier": 1.0},
        ],
        **UPLINKS[uplink],
    }  # fmt: skip


@pytest.fixture
def played(tmp_path_factory, monkeypatch):
    """Play a study with one UE's measurements as `other` makes them: sums and counts of each round, what was booked.

    Models stay at their first values: what was published before is the same, as composition takes it.
    """

    def play(study, ue=None, other=None):
        sums, counts, see = {}, {}, World.observations

        def observed(world):
            found = see(world)
            return found if ue is None else other(found, ue)

        def summed(part, total, n, facts, state, rng):
            same, after, spends = finish(part, total, n, facts, state, rng)
            sums[facts.round] = total / facts.weight
            return np.zeros_like(same), after, spends

        def counted(part, total, n, facts, state, rng):
            counts[facts.round] = (state.bits - 0.5).sum()
            return count(part, total, n, facts, state, rng)

        finish, count = CentralGaussian.finish, AdaptiveClip.finish
        with monkeypatch.context() as patch:
            patch.setattr(World, "observations", observed)
            patch.setattr(CentralGaussian, "finish", summed)
            patch.setattr(AdaptiveClip, "finish", counted)
            out = tmp_path_factory.mktemp("run")
            run(study, out)
        warnings = [w for w in read_json(out / MANIFEST)["warnings"] if not re.search("of steps imply|weights then", w)]
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
    return "decides when others send and how many rounds there are" if uplink == "dynamic_uplink" else ""


COMBINATIONS = list(product(SERVERS, SAMPLING, RELATIONS))
CASES = [(uplink, COMBINATIONS[i::5]) for i, uplink in enumerate(UPLINKS)]
CASES += [pytest.param(uplink, COMBINATIONS, marks=pytest.mark.slow) for uplink in UPLINKS]


@pytest.mark.parametrize(("uplink", "combinations"), CASES)
def test_no_user_moves_a_sum_by_more_than_is_booked(tiny, played, uplink, combinations):
    """Servers, ways of sampling, relations: each is refused, or one UE moves no sum by more than the sensitivity."""
    worst = beyond = 0.0
    for server, sampling, relation in combinations:
        why, asked = refusal(server, sampling, relation, uplink), changes(server, sampling, relation, uplink)
        if why:
            with pytest.raises(BadInput, match=why):
                tiny(asked)
            continue
        study = tiny(asked)
        sums, counts, spends, warnings = played(study)
        shared = [w for w in warnings if "shared band" in w]
        assert bool(shared) == (uplink in ("oma", "noma")) and len(warnings) == len(shared), warnings
        booked = spends["sensitivity"][spends["mechanism"] == "central-gaussian"]
        of_count = spends["sensitivity"][spends["mechanism"] == "adaptive-clip"]
        assert len(booked) == len(of_count) == len(sums)
        for other in (without, with_others) if relation == "replace" else (without,):
            again, bits, paid, _ = played(study, 0, other)
            assert list(again) == list(sums) and len(paid["round"]) == len(spends["round"])
            assert moved(counts, bits) <= of_count[0] * (1 + 1e-9)
            if shared:  # the run says that losses are taken as given
                beyond = max(beyond, moved(sums, again) / booked[0])
            else:
                assert moved(sums, again) <= booked[0] * (1 + 1e-9), (server, sampling, relation, other.__name__)
                worst = max(worst, moved(sums, again) / booked[0])
    whole = combinations is COMBINATIONS
    assert worst > 0.9 or not (uplink == "ideal" or (whole and uplink == "slow"))  # no more is booked than must be
    assert beyond > 1.05 or not (whole and uplink in ("oma", "noma"))  # and the caveat is needed


# -- noise of a UE's own


def apart(ratio, numbers, delta=1e-7):
    """Epsilon that normal numbers of variances 1 and `ratio` > 1 prove, by the best threshold of their squares' sum."""
    x = numbers * ratio * np.linspace(0.0, 1.0 + 20.0 / np.sqrt(numbers), 50_001)
    wide, narrow = chi2.logsf(x / ratio, numbers), chi2.logsf(x, numbers)
    seen = np.exp(wide) > delta
    return np.max(np.log(np.exp(wide[seen]) - delta) - narrow[seen])


@pytest.mark.parametrize("epsilon, z", [(0.5, 1.0), (3.0, 0.3)])
def test_what_variances_prove_is_what_integration_gives(epsilon, z):
    """Two numbers, so that their squares' sum is exponential: delta = integral of (p - e^epsilon q)+ ."""
    ratio = 1 + 1 / z**2
    x = np.linspace(0, 60 * ratio, 2_000_001)
    p, q = np.exp(-x / 2 / ratio) / 2 / ratio, np.exp(-x / 2) / 2
    delta = np.maximum(p - np.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
    assert apart(ratio, 2, delta) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize("people, proven", [(40, 80.9), (300, 6.3)])
def test_noise_of_a_ues_own_would_show_who_sends_in_the_variance(people, proven):
    """Of 28 rounds of 8,513 numbers, epsilon 8.00 of the noise at the server; the variances are those of the parts."""
    z, c, d, rounds = 3.7153, 0.5, 8513, 28
    central, own = CentralGaussian(noise_multiplier=z), Gaussian(noise_multiplier=z)
    at = RoundContext(1, 0.0, Public(Area(0.0, 0.0, 1.0, 1.0), 1), weight=1 / people)

    def variances(n):
        made = DenseUpdates(np.arange(n), np.zeros(n, int), np.ones(n), np.zeros((n, 50)))
        made, _, _ = Clip(norm=c, relation="add-remove").protect(made, None, at, None, None)
        _, _, (noise,) = own.protect(made, None, at, None, Streams(1).at("own"))
        _, state, _ = central.protect(made, None, at, central.start(n), None)
        _, _, (server,) = central.finish(np.zeros((1, 50)), n, at, state, Streams(1).at("central"))
        return server.std[0] ** 2 + (noise.std**2).sum(), server.cost(False)[0]

    (with_, cost), (without, _) = variances(people), variances(people - 1)
    assert epsilon_of(1e-7, np.sqrt(rounds * cost)) == pytest.approx(8.0, abs=1e-3)
    assert apart(with_ / without, rounds * d) == pytest.approx(proven, abs=0.06)


def test_a_decoder_shows_a_far_ue_without_a_limit():
    """Its noise on c / sqrt(d) over that of the server, which alone is beside it: the proof grows with its distance."""
    z, d, rounds = 3.7153, 8513, 28
    ratio = [1 + noise_std(1 / np.sqrt(d), 10 ** (snr_db / 10)) ** 2 / z**2 for snr_db in (-12, -50, -55)]
    found = [apart(r, rounds * d) for r in ratio]
    assert found[0] < 0.5 and found[1] > 8.0 and found[2] > 80.0


OWN = [kind for kind, part in DEFENSES.parts.items() if part.model_validate(part.example).noise_on_device]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampling", ["all", "poisson", "cyclic"])
def test_noise_of_a_ues_own_stands_beside_noise_at_the_server_where_neighbours_send_alike(tiny, sampling, relation):
    """After it, and of a decoder: refused, but where UEs take turns and send zeros; before the clip it is covered."""
    share, how = (0.5, "cyclic") if sampling == "cyclic" else SAMPLING[sampling]
    clip = {"kind": "clip", "norm": C, "relation": relation}
    central = {"kind": "central-gaussian", "noise_multiplier": 1.0}
    study = changes("rounds", "all", relation, "ideal") | {
        "learning.participation": share, "learning.sampling": how,
        "learning.aggregation": {"kind": "uniform", "clients": UES, "participation": share},
    }  # fmt: skip
    alike = sampling == "cyclic" and relation == "add-remove"
    assert {"gaussian", "distributed-gaussian", "skellam", "uniform-dp", "arb", "lapa", "noise-switch"} == set(OWN)
    for kind in OWN:
        noise, other = DEFENSES.parts[kind].example, "hides one UE only|divides noise|put it before"
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
        with nullcontext() if alike else pytest.raises(BadInput, match=r"who sent.*set decoding: error-free"):
            tiny(study | noisy)
        tiny(study | noisy | {"world.radio.uplink.decoding": "error-free"})


def test_noise_before_the_clip_moves_a_sum_by_no_more_than_the_clip(tiny, played):
    clip = {"kind": "clip", "norm": C, "relation": "add-remove"}
    own = {"kind": "gaussian", "noise_multiplier": 1.0}
    chain = [clip, own, {**clip, "name": "again"}, {"kind": "central-gaussian", "noise_multiplier": 1.0}]
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
            with pytest.raises(BadInput, match=r"defenses\[1\]: noise .* hides one UE only, and noise by a budget"):
                last = {"kind": last, "noise_multiplier": 1.0}
                tiny(central | more | {"learning.defenses": [*chain, last]})


RADIO_MAP = {
    "world.ues.measure": "all", "learning.attacks": [],
    "learning.learner": {"kind": "radio-map", "cell_m": 25},
    "learning.aggregation": {"kind": "uniform", "clients": UES},
    "learning.defenses": [{"kind": "clip"}, {"kind": "central-gaussian", "noise_multiplier": 1.0}],
}  # fmt: skip


@pytest.mark.parametrize(
    "data, training_s, why",
    [
        ({}, 0.0, "all learn from the round in which a UE measures first"),
        ({"memory": "all", "hold_out_ues": 1}, 0.0, "takes the place of another"),
        ({"memory": "round"}, 1.0, "the slowest UE of a phase decides how much time all have for the next"),
        ({"memory": "round"}, 0.0, None),
    ],
)
def test_data_and_phases_that_tie_ues_together_are_refused(tiny, data, training_s, why):
    more = {"learning.data": {"kind": "links", **data}, "world.ues.training_s_per_sample": training_s}
    with nullcontext() if why is None else pytest.raises(BadInput, match=why):
        tiny(RADIO_MAP | more)


def test_one_slow_user_changes_no_number_of_rounds(tiny, tmp_path):
    """Windows of 20 s and a deadline of 50 s: every third window has a round, whether the slow UE is there or not."""
    found = []
    for clients in (UES, 1):
        slow = changes("long", "all", "add-remove", "slow") | {"world.ues.count": clients}
        found.append(run(tiny(slow), tmp_path / str(clients)))
    assert [f["rounds.played"] for f in found] == [2, 2]
    assert found[0]["privacy.all.epsilon.max"] == found[1]["privacy.all.epsilon.max"]


def test_the_last_round_is_compared_though_its_updates_came_long_before_its_deadline(tiny, tmp_path):
    attacked = {"learning.attacks": [{"kind": "closed-form"}], "learning.leakage.every_rounds": 10}
    run(tiny(changes("long", "all", "add-remove", "ideal") | attacked), tmp_path)
    rows = (tmp_path / "leakage.csv").read_text().splitlines()[1:]
    assert {row.split(",")[0] for row in rows} == {"1", "4"}  # round 4 lasts until the end


# -- what everybody is told of a trace

FOUR = ["a", "b", "c", "d"]
HOURS = [f"2021-04-{day}T{hour:02d}:00:00Z" for day in (21, 22) for hour in range(6, 20, 2)]
STATED = {
    "extent": "stated", "area_deg": [52.0, 4.0, 52.02, 4.03], "since": "2021-04-21", "until": "2021-04-23",
    "absent_after_s": 600,
}  # fmt: skip


def trace_of(path, users):
    """Rows of people who walk, and of one, far, who is seen once before all others and far away, and once after."""
    draw, lines = np.random.default_rng(1), ["time_s,user,lat,lon,rsrp_dbm,cell"]
    for user in FOUR:
        lat, lon = 52.01 + 0.002 * draw.normal(size=14), 4.015 + 0.002 * draw.normal(size=14)
        rows = zip(HOURS, lat, lon, draw.normal(-90, 5, 14), strict=True)
        lines += [f"{t},{user},{a:.6f},{o:.6f},{y:.1f},x" for t, a, o, y in rows if user in users]
    far = ["2021-04-19T12:00:00Z,far,52.5,4.9,-80,x", "2021-04-25T12:00:00Z,far,52.5,4.9,-80,x"]
    path.write_text("\n".join(lines + (far if "far" in users else [])) + "\n")
    return str(path)


def replayed(trace, **mobility):
    told = {"kind": "replay", "trace": trace, "cell": "x", "users": "id", "timezone": "Europe/Amsterdam"} | mobility
    return {
        "world.duration_s": None, "world.tick_s": 3600, "world.city": {"kind": "open-field"}, "world.base_stations": [],
        "world.radio.shadowing": {"kind": "none"},  # a field of 60 km would take most of the time
        "world.ues": {"mobility": told}, "learning.round_s": 86400, "learning.attacks": [],
        "learning.aggregation": {"kind": "uniform", "clients": 5},
        "learning.defenses": [
            {"kind": "clip", "norm": C, "relation": "add-remove"},
            {"kind": "central-gaussian", "noise_multiplier": 1.0},
        ],
    }  # fmt: skip


def test_of_a_stated_extent_one_user_moves_nobody_else(tiny, played, tmp_path):
    """However far away, early or late: the sums differ by no more than the user's own update, in the same rounds."""
    traces = (trace_of(tmp_path / f"{len(users)}.csv", users) for users in ([*FOUR, "far"], FOUR, FOUR[:3]))
    whole, near, fewer = (played(tiny(replayed(trace, **STATED))) for trace in traces)
    assert list(whole[0]) == list(near[0]) == list(fewer[0]) == [1, 2]
    assert moved(whole[0], near[0]) == 0.0 and 0.5 * C < moved(near[0], fewer[0]) <= C * (1 + 1e-9)
    assert whole[3] == near[3] == fewer[3] == []


def test_of_an_extent_of_the_rows_one_user_moves_everybody_and_the_run_says_so(tiny, played, tmp_path):
    traces = (trace_of(tmp_path / f"{len(users)}.csv", users) for users in ([*FOUR, "far"], FOUR))
    one, other = (played(tiny(replayed(trace))) for trace in traces)
    assert len(one[0]) > len(other[0])  # more rounds
    sums = [list(play[0].values()) for play in (one, other)]
    assert np.linalg.norm(sums[0][2] - sums[1][0]) > 1.2 * C  # of the same day
    for _, _, _, (said,) in (one, other):
        assert said.startswith("public values: the area") and "no epsilon here covers that" in said


@pytest.mark.parametrize(
    "more, said",
    [
        ({"cell": None}, "the busiest cell (world.ues.mobility.cell)"),
        ({"cell": "all"}, "which cells there are (world.ues.mobility.cell)"),
        ({"outlier_sigmas": 4.0}, "which rows are outliers (world.ues.mobility.outlier_sigmas: none)"),
        ({"absent_after_s": None}, "when a UE counts as absent (world.ues.mobility.absent_after_s)"),
        ({"extent": "rows"}, "the area, the middle of the plane, the first day, the number of rounds"),
    ],
)
def test_every_value_that_follows_from_the_rows_is_named(tiny, tmp_path, more, said):
    study = tiny(replayed(trace_of(tmp_path / "t.csv", ("a", "b")), **(STATED | more)))
    world, _ = ready(study, tmp_path)
    (warning,) = (line for line in disclosed(study.learning, study.world, world) if line.startswith("public"))
    assert warning.startswith(f"public values: {said}") and "follow from the data of all users" in warning


def test_an_extent_that_is_not_stated_is_refused(tiny):
    with pytest.raises(BadInput, match="extent: stated needs area_deg or area_m, since, until"):
        tiny(replayed("t.csv", extent="stated"))
    with pytest.raises(BadInput, match="extent: stated needs until"):
        tiny(replayed("t.csv", **STATED | {"until": None}))
