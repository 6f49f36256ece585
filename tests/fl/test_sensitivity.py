"""How far one user moves what noise at the server hides: tiny studies with and without one UE, by brute force.

Nothing here knows how the ledger is booked: a study is played as it is, then again with the measurements of one UE
taken away, or exchanged, and the sums before noise are compared with the sensitivity that the first run booked.
"""

from itertools import product

import numpy as np
import pytest

from fl.defenses.adaptive_clip import AdaptiveClip
from fl.defenses.central_gaussian import CentralGaussian
from netsim.errors import BadInput
from netsim.world import World
from scenarios.app.results.folder import MANIFEST, read_json, read_table
from scenarios.app.run.runner import run

C, UES, WINDOWS = 2e-3, 4, 6
UPLINKS = {
    "ideal": {},
    "slow": {"world.ues.compute_s_per_sample": 3.0, "world.ues.compute_spread": {"kind": "log-normal"}},
    "oma": {"world.radio.uplink": {"kind": "oma", "decoding": "error-free", "bandwidth_hz": 60}},
    "noma": {"world.radio.uplink": {"kind": "noma", "decoding": "error-free", "bandwidth_hz": 60}},
    "air": {"world.radio.air": {}},
}
SERVERS = {
    "rounds": {"kind": "synchronous"},
    "deadline": {"kind": "synchronous", "deadline_s": 15},
    "long": {"kind": "synchronous", "deadline_s": 50},
    "first": {"kind": "synchronous", "first": 2},
    "fedbuff": {"kind": "fedbuff", "buffer": 2},
    "fedasync": {"kind": "fedasync"},
}
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
def played(tiny, tmp_path, monkeypatch):
    """Play a study with one UE's measurements as `other` makes them: sums and counts of each round, what was booked.

    Models stay at their first values: what was published before is the same, as composition takes it.
    """
    number = iter(range(10**6))

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
            out = tmp_path / str(next(number))
            run(study, out)
        return sums, counts, read_table(out, "spends"), read_json(out / MANIFEST)["warnings"]

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
    return "decides when others send and how many rounds there are" if uplink == "air" else ""


@pytest.mark.parametrize("uplink", UPLINKS)
def test_no_user_moves_a_sum_by_more_than_is_booked(tiny, played, uplink):
    """Servers, ways of sampling, relations: each is refused, or one UE moves no sum by more than the sensitivity."""
    worst = beyond = 0.0
    for server, sampling, relation in product(SERVERS, SAMPLING, RELATIONS):
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
    assert worst > 0.9 or uplink in ("oma", "noma", "air")  # the booked figure is no larger than it must be
    assert beyond > 1.05 or uplink not in ("oma", "noma")  # and the caveat is needed


RADIO_MAP = {
    "world.ues.measure": "all", "learning.attacks": [],
    "learning.learner": {"kind": "radio-map", "cell_m": 25},
    "learning.aggregation": {"kind": "uniform", "clients": UES},
    "learning.defenses": [{"kind": "clip"}, {"kind": "central-gaussian", "noise_multiplier": 1.0}],
}  # fmt: skip


@pytest.mark.parametrize(
    "more, why",
    [
        ({"learning.data": {"kind": "links"}}, "all learn from the round in which a UE measures first"),
        ({"learning.data": {"kind": "links", "memory": "all", "hold_out_ues": 1}}, "takes the place of another"),
        (
            {"learning.data": {"kind": "links", "memory": "round"}, "world.ues.compute_s_per_sample": 1.0},
            "the slowest UE of a phase decides how much time all have for the next",
        ),
    ],
)
def test_data_and_phases_that_tie_ues_together_are_refused(tiny, more, why):
    with pytest.raises(BadInput, match=why):
        tiny(RADIO_MAP | more)
    tiny(RADIO_MAP | {"learning.data": {"kind": "links", "memory": "round"}})


def test_one_slow_user_changes_no_number_of_rounds(tiny, tmp_path):
    """Windows of 20 s and a deadline of 50 s: every third window has a round, whether the slow UE is there or not."""
    found = []
    for clients in (UES, 1):
        slow = changes("long", "all", "add-remove", "slow") | {"world.ues.count": clients}
        found.append(run(tiny(slow), tmp_path / str(clients)))
    assert [f["rounds.played"] for f in found] == [2, 2]
    assert found[0]["privacy.all.epsilon.max"] == found[1]["privacy.all.epsilon.max"]
