"""Links of names by score maps: the best of all, chance where maps are alike, and what is read and kept."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from interrupted import run_in_two
from thinned import one_in

from fl.attacks.link_maps import LinkMaps, MapTracks
from fl.types import Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.run.runner import run
from scenarios.app.study.load import load

RNG = Streams(4).at("tests", 1)
PUBLIC = Public(Area(0, 0, 100, 100), 1)
ORDERS = np.array(list(itertools.permutations(range(5))))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def rounds_of(seed, noise, ues=5, rounds=3, places=30):
    """Maps (rounds, ues, places) of UEs that look like themselves, and whose each row is."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(ues, places))
    x = own + noise * rng.normal(size=(rounds, ues, places))
    who = np.stack([rng.permutation(ues) for _ in range(rounds)])
    x = np.take_along_axis(x - x.mean(axis=1, keepdims=True), who[..., None], axis=1)
    return unit(x).astype(np.float32), who


def heard(state, name, score, number, least=0, most=1000):
    facts = RoundContext(number, 60.0 * number, PUBLIC)
    return state.heard(np.asarray(name), score, facts, least, most)


def all_heard(x, **how):
    """After rounds of new names each: those of round t are 100 t + row."""
    state = MapTracks.none()
    for t, score in enumerate(x):
        state = heard(state, 100 * t + np.arange(len(score)), score, t + 1, **how)
    return state


def objective(x, links):
    """sum_k |T_k| of links (rounds, ues)."""
    total = np.zeros(x.shape[1:])
    for score, track in zip(x, links, strict=True):
        np.add.at(total, track, score)
    return np.linalg.norm(total, axis=1).sum()


class TestLinks:
    @pytest.mark.parametrize("noise", [0.3, 1.0, 2.0])
    @pytest.mark.parametrize("seed", range(3))
    def test_in_hindsight_are_the_best_of_all(self, seed, noise):
        """Five UEs and three rounds: against all 120 x 120 ways to give names to tracks."""
        x, _ = rounds_of(seed, noise)
        two = x[0] + x[1][ORDERS]
        best = np.linalg.norm(two[:, None] + x[2][ORDERS], axis=3).sum(axis=2).max()
        track, _ = all_heard(x).relinked(32, RNG)
        assert objective(x, track.reshape(3, 5)) == pytest.approx(best, rel=1e-6)

    @pytest.mark.parametrize("seed", range(3))
    def test_of_a_round_are_the_best_of_all_for_the_tracks_so_far(self, seed):
        x, _ = rounds_of(seed, 1.5)
        state = all_heard(x)
        tracks, total = state.names.track.reshape(3, 5), np.zeros_like(x[0])
        np.testing.assert_array_equal(np.sort(tracks[0]), range(5))
        total[tracks[0]] += x[0]
        for t in (1, 2):
            gain = np.einsum("oig,ig->o", unit(total)[ORDERS], x[t])
            np.testing.assert_array_equal(tracks[t], ORDERS[gain.argmax()])
            total[tracks[t]] += x[t]
        np.testing.assert_allclose(state.score, total, rtol=1e-6)

    def test_hindsight_rights_what_rounds_got_wrong(self):
        wrong = []
        for seed in range(10):
            x, who = rounds_of(seed, 2.0, ues=12, rounds=20, places=80)
            state = all_heard(x)
            for track in (state.names.track, state.relinked(4, RNG)[0]):
                of_ue = np.take_along_axis(track.reshape(who.shape), np.argsort(who, axis=1), axis=1)  # (rounds, ues)
                wrong.append((of_ue[1:] != of_ue[:-1]).mean())
        then, afterwards = np.array(wrong).reshape(-1, 2).mean(axis=0)
        assert afterwards < 0.05 < 0.1 < then


class TestNames:
    def test_stay_with_their_track_and_add_to_its_map(self):
        x, _ = rounds_of(1, 0.3)
        state = heard(heard(MapTracks.none(), range(5), x[0], 1), range(5), x[1], 2)
        np.testing.assert_array_equal(state.names.name, range(5))
        np.testing.assert_array_equal(state.names.last, 2)
        np.testing.assert_allclose(state.score[state.names.track], x[0] + x[1], rtol=1e-5)
        np.testing.assert_allclose(state.kept, x[0] + x[1], rtol=1e-5)

    def test_that_are_in_use_in_the_same_rounds_never_share_a_track(self):
        """Each UE changes its name at a round of its own."""
        rng, x = np.random.default_rng(3), rounds_of(3, 3.0, rounds=12)[0]
        state, change = MapTracks.none(), rng.integers(1, 12, 5)
        for t in range(12):
            name = np.where(t >= change, 100 + np.arange(5), np.arange(5))
            state = heard(state, name, x[t], t + 1)
        for track in (state.names.track, state.relinked(1, RNG)[0]):
            for a, b in itertools.combinations(range(len(state.names.name)), 2):
                together = state.names.since[a] <= state.names.last[b] and state.names.since[b] <= state.names.last[a]
                assert not (together and track[a] == track[b])

    def test_are_linked_among_as_many_tracks_as_are_stated(self):
        """One name a round, of five UEs in turn: with `tracks` they are five tracks, without it one."""
        x, _ = rounds_of(5, 0.2, rounds=4)
        own = [x[0][:1], x[0][1:2], x[0][2:3], x[0][:1], x[0][1:2]]
        assert set(all_heard(own).names.track) == {0}
        track = all_heard(own, least=5).names.track
        assert track[3] == track[0] and track[4] == track[1] and len(set(track[:3])) >= 2


# -- in runs

TOWN = {"world.duration_s": 480, "world.ues.count": 6, "world.radio.uplink": {"kind": "oma", "decoding": "error-free"}}
NEW = {"kind": "per-round"}
SERVERS = {
    "rounds": {},
    "fedbuff": {"learning.server": {"kind": "fedbuff", "buffer": 3}, "world.radio.dynamic_uplink": {}},
    "fedasync": {"learning.server": {"kind": "fedasync"}, "world.radio.dynamic_uplink": {}},
}
RULES = [NEW, {"kind": "every", "period_s": 130, "stagger": True}, {"kind": "permanent"}]
BOTH = [
    {"kind": "link-maps", "of": {"kind": "span", "add": "scores", "cell_m": 10}, "tracks": 6},
    {"kind": "link-maps", "name": "then", "of": {"kind": "span", "add": "scores", "cell_m": 10}, "hindsight_names": 0},
]


@pytest.mark.parametrize(("server", "rule"), one_in(4, [("fedasync", 0), ("fedbuff", 1), ("rounds", 0), ("rounds", 2)]))
def test_goes_on_to_the_same_bytes(server, rule, tiny, tmp_path, table_bytes):
    study = tiny(TOWN | SERVERS[server] | {"learning.attacks": BOTH, "learning.threat": {"pseudonyms": RULES[rule]}})
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= 250)
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")
    linked = pd.read_csv(tmp_path / "whole" / "linking.csv")
    assert set(linked.attack) == (set() if rule == 2 else {"link-maps", "then"})
    assert linked.right_share.dropna().between(0, 1).all() and linked.anonymity_set.isna().all()
    assert linked.groupby("attack").tail(1).entropy_time_to_confusion_s.isna().all()  # it states none


def test_reads_nothing_but_updates_names_and_rounds(tiny):
    """Without timing, counts, replica and starting weights of the first layer it says the same."""
    seen, attack = [], LinkMaps.model_validate_json(
        json.dumps({"kind": "link-maps", "of": {"kind": "span", "layer": 1, "add": "scores", "cell_m": 10}})
    )  # fmt: skip

    def watched(self, view, facts, state, rng):
        seen.append((view, facts, rng))
        return original(self, view, facts, state, rng)

    original = LinkMaps.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinkMaps, "run", watched)
        study = tiny(TOWN | {"learning.attacks": [attack.model_dump(mode="json")], "learning.threat.pseudonyms": NEW})
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            run(study, f"{folder}/run")
    full, bare = attack.start(), attack.start()
    for view, facts, rng in seen:
        said, full = attack.run(view, facts, full, rng)
        unknown = replace(view.model_before, parameters=np.full_like(view.model_before.parameters, np.nan))
        less = replace(view, timing=None, count=None, replica=None, model_before=unknown)
        timeless = RoundContext(facts.round, 0.0, facts.public)
        also, bare = attack.run(less, timeless, bare, rng)
        np.testing.assert_array_equal(said.position_m, also.position_m)
    np.testing.assert_array_equal(full.names.track, bare.names.track)


@pytest.mark.slow
def test_people_are_linked_by_their_days_and_their_homes_named_at_the_end(tmp_path):
    """Eight people under a new name each day; the attack also finds a sample of its own."""
    of = {"kind": "span", "layer": 1, "add": "scores"}
    attacks = [{"kind": "link-maps", "of": of}, {"kind": "link-maps", "name": "then", "hindsight_names": 0, "of": of}]
    few = {"world.ues.count": 8, "world.duration_s": 8 * 86_400, "learning.attacks": attacks}
    summary = run(load("tracking/names", few), tmp_path)
    for label in ("link-maps", "then"):
        assert summary[f"linking.{label}.right.percent"] > 90 > 2 * summary[f"linking.{label}.chance_right.percent"]
        assert summary[f"attack.{label}.home_located.percent"] > 80
        assert summary[f"attack.{label}.home_located.shuffled.percent"] < 20
    assert pd.read_csv(tmp_path / "estimates.csv").self_test_m.max() < 25  # a cell
