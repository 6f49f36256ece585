"""Links of names by score maps: the best of all, chance where maps are alike, and what is read and kept."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from interrupted import run_in_two

from fl.attacks.base import Retold
from fl.attacks.link_maps import LinkMaps
from fl.attacks.map_tracks import MapTracks
from fl.leakage.attributed import of_ues
from fl.pseudonyms.names import Names
from fl.pseudonyms.per_round import PerRound
from fl.types import Estimates, Facts, Public
from netsim.errors import BadInput
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
    facts = Facts(number, 60.0 * number, PUBLIC)
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
        tracks, total = state.track.reshape(3, 5), np.zeros_like(x[0])
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
            for track in (state.track, state.relinked(4, RNG)[0]):
                of_ue = np.take_along_axis(track.reshape(who.shape), np.argsort(who, axis=1), axis=1)  # (rounds, ues)
                wrong.append((of_ue[1:] != of_ue[:-1]).mean())
        then, afterwards = np.array(wrong).reshape(-1, 2).mean(axis=0)
        assert afterwards < 0.05 < 0.1 < then

    def test_of_maps_that_are_all_alike_are_chance(self):
        rng, right = np.random.default_rng(0), []
        for _ in range(300):
            score = np.zeros((5, 7), dtype=np.float32)
            state = all_heard([score, score])
            who = rng.permutation(5)  # names are given in a random order
            right.append((state.relinked(2, RNG)[0].reshape(2, 5)[1][who] == np.arange(5)).mean())
        assert np.mean(right) == pytest.approx(1 / 5, abs=0.04)


class TestNames:
    def test_stay_with_their_track_and_add_to_its_map(self):
        x, _ = rounds_of(1, 0.3)
        state = heard(heard(MapTracks.none(), range(5), x[0], 1), range(5), x[1], 2)
        np.testing.assert_array_equal(state.name, range(5))
        np.testing.assert_array_equal(state.last, 2)
        np.testing.assert_allclose(state.score[state.track], x[0] + x[1], rtol=1e-5)
        np.testing.assert_allclose(state.kept, x[0] + x[1], rtol=1e-5)

    def test_that_are_in_use_in_the_same_rounds_never_share_a_track(self):
        """Each UE changes its name at a round of its own."""
        rng, x = np.random.default_rng(3), rounds_of(3, 3.0, rounds=12)[0]
        state, change = MapTracks.none(), rng.integers(1, 12, 5)
        for t in range(12):
            name = np.where(t >= change, 100 + np.arange(5), np.arange(5))
            state = heard(state, name, x[t], t + 1)
        for track in (state.track, state.relinked(1, RNG)[0]):
            for a, b in itertools.combinations(range(len(state.name)), 2):
                together = state.since[a] <= state.last[b] and state.since[b] <= state.last[a]
                assert not (together and track[a] == track[b])

    def test_of_several_views_of_a_round_go_to_different_tracks(self):
        x, _ = rounds_of(2, 0.3)
        state = heard(heard(MapTracks.none(), [0, 1], x[0][:2], 1), [2, 3, 4], x[0][2:], 1)
        np.testing.assert_array_equal(np.sort(state.track), range(5))

    def test_are_linked_among_as_many_tracks_as_are_stated(self):
        """One name a round, of five UEs in turn: with `tracks` they are five tracks, without it one."""
        x, _ = rounds_of(5, 0.2, rounds=4)
        own = [x[0][:1], x[0][1:2], x[0][2:3], x[0][:1], x[0][1:2]]
        assert set(all_heard(own).track) == {0}
        track = all_heard(own, least=5).track
        assert track[3] == track[0] and track[4] == track[1] and len(set(track[:3])) >= 2

    def test_beyond_those_kept_hold_no_maps_and_keep_their_links(self):
        x, _ = rounds_of(6, 3.0, rounds=9)
        whole, few = all_heard(x), all_heard(x, most=12)
        assert few.kept.shape == (12, 30) and few.kept.dtype == np.float32
        np.testing.assert_array_equal(few.track, whole.track)
        track, score = few.relinked(3, RNG)
        np.testing.assert_array_equal(track[:33], whole.track[:33])
        total = np.zeros_like(score)
        np.add.at(total, track, x.reshape(45, -1))
        np.testing.assert_allclose(score, total, atol=1e-5)

    def test_none_is_kept_where_links_stay_as_they_were_made(self):
        assert len(all_heard(rounds_of(6, 1.0)[0], most=0).kept) == 0


def test_hindsight_is_scored_by_the_track_that_holds_most_of_a_ues_names():
    """UE 0 had names 0, 3 and 4, of which two are in track 7; UE 1 names 1 and 2, one in each track; UE 2 none."""
    names = replace(Names.start(PerRound(), 3), of=np.array([0, 1, 1, 0, 0]))
    zero = np.zeros(4, dtype=np.int64)
    place = np.array([[5.0, 5.0], [7.0, 1.0], [7.0, 2.0], [9.0, 9.0]])
    said = Estimates(np.array([5, 7, 7, 9]), zero, ["answer"] * 4, place, np.array([1.0, 2.0, 1.0, 1.0]), zero * np.nan,
                     zero, zero, ["ok"] * 4)  # fmt: skip
    found = of_ues(Retold(np.arange(5), np.array([5, 7, 5, 7, 7]), said, []), names)
    np.testing.assert_array_equal(found.ue, [0, 0, 1])
    np.testing.assert_array_equal(found.position_m, [[7, 1], [7, 2], [5, 5]])
    np.testing.assert_array_equal(found.weight, [2, 1, 1])


# -- in runs

TOWN = {"world.duration_s": 480, "world.ues.count": 6, "world.radio.uplink": {"kind": "oma", "decoding": "error-free"}}
STILL = {"world.ues.mobility": {"kind": "static"}}
NEW = {"kind": "per-round"}
SERVERS = {
    "rounds": {},
    "fedbuff": {"learning.server": {"kind": "fedbuff", "buffer": 3}, "world.radio.air": {}},
    "fedasync": {"learning.server": {"kind": "fedasync"}, "world.radio.air": {}},
}
RULES = [NEW, {"kind": "every", "period_s": 130, "stagger": True}, {"kind": "permanent"}]
BOTH = [
    {"kind": "link-maps", "of": {"kind": "span", "add": "scores", "cell_m": 10}, "tracks": 6},
    {"kind": "link-maps", "name": "then", "of": {"kind": "span", "add": "scores", "cell_m": 10}, "hindsight_names": 0},
]


@pytest.mark.parametrize(("server", "rule"), [("rounds", 0), ("fedbuff", 1), ("fedasync", 0), ("rounds", 2)])
def test_goes_on_to_the_same_bytes(server, rule, tiny, tmp_path, table_bytes):
    study = tiny(TOWN | SERVERS[server] | {"learning.attacks": BOTH, "learning.threat": {"pseudonyms": RULES[rule]}})
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= 250)
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")
    linked = pd.read_csv(tmp_path / "whole" / "linking.csv")
    assert set(linked.attack) == (set() if rule == 2 else {"link-maps", "then"})
    assert linked.right_share.dropna().between(0, 1).all() and linked.anonymity_set.isna().all()
    assert linked.groupby("attack").tail(1).entropy_time_to_confusion_s.isna().all()  # it states none


def test_new_names_of_ues_that_stand_still_hide_none_of_them(tiny, tmp_path):
    """All links are right, also of shuffled updates, and what is said of UEs is what is said under permanent names."""
    said = {}
    for name, rule in (("known", {"kind": "permanent"}), ("new", NEW)):
        how = {"learning.attacks": BOTH, "learning.threat": {"pseudonyms": rule, "shuffle": rule == NEW}}
        summary = run(tiny(TOWN | STILL | how), tmp_path / name)
        rows = pd.read_csv(tmp_path / name / "estimates.csv").sort_values(["attack", "round", "ue", "weight"])
        said[name] = rows[["attack", "round", "ue", "x_m", "y_m"]].reset_index(drop=True)
    for label in ("link-maps", "then"):
        assert summary[f"linking.{label}.right.percent"] == 100
        assert summary[f"linking.{label}.chance_right.percent"] == pytest.approx(100 / 6)
    assert len(said["new"]) == 2 * 2 * 6 * 8
    pd.testing.assert_frame_equal(said["new"], said["known"])


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
        timeless = Facts(facts.round, 0.0, facts.public)
        also, bare = attack.run(less, timeless, bare, rng)
        np.testing.assert_array_equal(said.position_m, also.position_m)
    np.testing.assert_array_equal(full.track, bare.track)


def test_people_are_linked_by_their_days_and_their_homes_named_at_the_end(tmp_path):
    """Eight people under a new name each day; the attack also finds a sample of its own."""
    of = {"kind": "span", "layer": 1, "add": "scores"}
    attacks = [{"kind": "link-maps", "of": of}, {"kind": "link-maps", "name": "then", "hindsight_names": 0, "of": of}]
    few = {"world.ues.count": 8, "world.duration_s": 8 * 86_400, "learning.attacks": attacks}
    summary = run(load("tracking/names", few), tmp_path)
    for label in ("link-maps", "then"):
        assert summary[f"linking.{label}.right.percent"] > 90 > 2 * summary[f"linking.{label}.chance_right.percent"]
        assert summary[f"attack.{label}.home_named_within_near.percent"] > 80
        assert summary[f"attack.{label}.home_named_within_near.shuffled.percent"] < 20
    assert pd.read_csv(tmp_path / "estimates.csv").self_test_m.max() < 25  # a cell


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ({"of": {"kind": "span", "add": "scores", "name": "x"}}, "give that name to link-maps"),
        ({"of": {"kind": "span"}}, "of: maps of peaks hardly tell UEs apart; take add: scores"),
        ({"of": {"kind": "closed-form"}}, "unknown kind"),
        ({"hindsight_names": -1}, "hindsight_names=-1: must be at least 0"),
        ({"tracks": 0}, "tracks=0: must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(attack, said, tiny):
    with pytest.raises(BadInput, match=said) as error:
        tiny({"learning.attacks": [{"kind": "link-maps"} | attack]})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("threat", [{"sees": "sum"}, {"sees": "model"}])
def test_sums_and_models_have_no_names_of_single_updates(threat, tiny):
    with pytest.raises(BadInput, match="link-maps needs rows: links single updates by their maps"):
        tiny({"learning.attacks": [{"kind": "link-maps"}], "learning.threat": threat})
