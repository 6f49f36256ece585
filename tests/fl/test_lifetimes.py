"""For how long names are followed that change: the law, and the attacks that keep to it."""

from dataclasses import replace

import numpy as np
from arrays import read_array
from interrupted import run_in_two
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pytest import mark
from thinned import one_in

from fl.attacks.base import Attack, View
from fl.attacks.tracker import Tracker
from fl.tracking.history import MIN_SILENT_ROUNDS, Lifetimes
from fl.types import Estimates, Public, RoundContext
from netsim.checkpoint import from_tree, to_tree
from netsim.geometry import Area
from netsim.rng import Rng, Streams
from scenarios.app.result import run

AREA = Area(0.0, 0.0, 3000.0, 2000.0)
ROUND_S = 1800.0
RNG = Streams(0).derive_rng("attack.test")
WAITED = int(MIN_SILENT_ROUNDS)


def hear_rounds(rounds, lives=None, renames=True):
    """After rounds in which these names were heard, {number: names}; in rounds left out nobody
    was."""
    lives = Lifetimes() if lives is None else lives
    for number, names in rounds.items():
        facts = RoundContext(number, number * ROUND_S, Public(AREA, 1), round_s=ROUND_S)
        lives = lives.add_round(np.array(names, dtype=int), facts, renames)
    return lives


def list_followed(lives):
    return sorted(lives.name[lives.is_alive].tolist())


class TestLifetimes:
    def test_end_after_six_rounds_of_silence(self):
        lives = hear_rounds({0: [7, 3], **{t: [3] for t in range(1, WAITED + 1)}})
        assert list_followed(lives) == [3, 7]
        lives = hear_rounds({WAITED + 1: [3]}, lives)
        assert list_followed(lives) == [3]
        assert (lives.find_senders(read_array("3 7 9")) >= 0).tolist() == [
            True,
            False,
            False,
        ]
        assert lives.gone[lives.name == 7].tolist() == [WAITED + 1]

    def test_names_of_a_round_are_followed_for_six_more(self):
        lives = hear_rounds({t: [2 * t, 2 * t + 1] for t in range(200)})
        assert list_followed(lives) == list(range(2 * (199 - WAITED), 400))
        assert len(lives.name) == 400

    def test_a_name_that_comes_back_late_teaches_to_wait_longer_and_is_another_one(self):
        lives = hear_rounds({0: [1, 2], **{t: [2] for t in range(1, 20)}, 20: [1, 2]})
        assert len(lives.name) == 3
        assert list_followed(lives) == [1, 2]
        assert lives.silent_s.max() == 20 * ROUND_S
        later = hear_rounds({t: [2] for t in range(21, 41)}, lives)
        assert list_followed(later) == [1, 2]
        assert list_followed(hear_rounds({41: [2]}, later)) == [2]

    def test_groups_hold_each_sender_once(self):
        draw = default_rng(3)
        lives = Lifetimes()
        for t in range(150):
            lives = replace(lives, silent_s=np.zeros(len(lives.name)))
            lives = hear_rounds({t: np.unique(draw.integers(0, 12 + t, 3))}, lives)
        groups = lives.group_senders()
        assert sorted(np.concatenate(groups).tolist()) == list(range(len(lives.name)))
        assert len(set(lives.name.tolist())) < len(lives.name)  # some came back too late
        for group in groups:
            assert lives.first[group].max() < lives.gone[group[0]]


class Told(Attack):
    """Says of each round where its senders are: places (n, 2) in the order of names."""

    kind: str = "told"
    said: object = None

    def run(self, view: View, facts: RoundContext, state: None, rng: Rng) -> tuple[Estimates, None]:
        return view.build_estimates(
            "centroid", np.arange(len(view.ue)), self.said[facts.round]
        ), None  # type: ignore[index]


def part(kind, estimates, **options):
    cells = {"cell_m": 100.0} if kind is Tracker else {"cell_m": 50.0, "third_places": 0}
    expected = kind(sigma_m=200.0, outlier=0.1, **cells, **options)
    return kind.model_construct(**(expected.__dict__ | {"of": Told(said=estimates)}))


def play_rounds(attack, names, renames, state=None, start=0):
    """Estimates and state after each round; names [(k,), ...] of those heard."""
    state = attack.start() if state is None else state
    for t, current in enumerate(names[start:], start):
        targets = np.arange(len(current))
        view = View(
            "updates",
            "all",
            np.zeros((len(current), 1)),
            targets * 0,
            np.asarray(current),
            targets * 0,
            targets,
            None,
            None,
            None,
            renames=renames,
        )
        facts = RoundContext(t, t * ROUND_S, Public(AREA, 1), round_s=ROUND_S, week_s=t * ROUND_S)
        result, state = attack.run(view, facts, state, RNG)
        yield result, state, facts


def world(rounds, lasting, ues=3, seed=0):
    """Names that last so many rounds, of UEs that are silent now and then, and what is said of each
    round."""
    draw = default_rng(seed)
    home_m = AREA.sample(draw.uniform(size=(ues, 2)))
    names = []
    estimates = []
    for t in range(rounds):
        is_present = np.flatnonzero(draw.uniform(size=ues) < 0.8)
        names.append(t // lasting * ues + is_present)
        estimates.append(
            np.clip(
                home_m[is_present] + draw.normal(0, 200, (len(is_present), 2)),
                1.0,
                [2999.0, 1999.0],
            )
        )
    return names, estimates


@mark.slow
@mark.parametrize("more", one_in(3, [{"own_places": True, "hours": True}, {}]))
def test_a_tracker_holds_maps_of_names_that_can_be_alive_and_says_the_same(more):
    names, estimates = world(40, lasting=4)
    bounded = list(play_rounds(part(Tracker, estimates, **more), names, True))
    whole = list(play_rounds(part(Tracker, estimates, **more), names, False))
    largest = max(len(state.sender) for _, state, _ in bounded)
    # of three UEs: names that last four rounds
    assert largest <= 3 * (2 + WAITED // 4) < 25 < len(whole[-1][1].sender)
    for (a, state, _), (b, endless_state, _) in zip(bounded, whole, strict=True):
        assert_array_equal(a.position_m, b.position_m)
        assert_array_equal(a.weight, b.weight)
        assert a.status == b.status
        assert (
            len(state.p)
            == len(state.habits.count)
            == len(state.habits.beliefs)
            == len(state.sender)
        )
        assert set(state.name) <= set(endless_state.name)


def test_hindsight_tells_of_each_name_as_long_as_it_was_followed():
    names, estimates = world(40, lasting=4)
    attack = part(Tracker, estimates)
    *_, (_, state, facts) = play_rounds(attack, names, True)
    *_, (_, endless, _) = play_rounds(attack, names, False)

    def by_round_and_name(state):
        beliefs = [
            (b.round, zip(b.ue.tolist(), b.probability, strict=True))
            for b in attack.smooth_beliefs(state, facts)
        ]
        return [((number, ue), p) for number, subset in beliefs for ue, p in subset]

    endless_p = dict(by_round_and_name(endless))
    answers = by_round_and_name(state)
    lives = state.lifetimes
    spans = {
        n: (a, b)
        for n, a, b in zip(
            lives.name.tolist(), lives.first.tolist(), lives.gone.tolist(), strict=True
        )
    }
    assert len(spans) == len(lives.name) == len(endless.sender)
    expected = {(t, n) for n, (first, left) in spans.items() for t in range(first, min(left, 40))}
    assert len(answers) == len(expected)
    assert {place for place, _ in answers} == expected
    # motion is learnt from fewer rounds without estimates, so that both differ, but little
    apart = [np.abs(p - endless_p[place]).sum() for place, p in answers]
    assert np.median(apart) < 0.05
    assert max(apart) < 0.6


@mark.parametrize("more", [{}, {"own_places": True}])
def test_goes_on_to_the_bit_where_names_change(more):
    names, estimates = world(18, lasting=2)
    attack = part(Tracker, estimates, **more)
    states = [state for _, state, _ in play_rounds(attack, names, True)]
    half = from_tree(to_tree(states[8]), attack.start())
    *_, (_, resumed, facts) = play_rounds(attack, names, True, half, 9)
    for x, y in zip(
        attack.smooth_beliefs(states[-1], facts), attack.smooth_beliefs(resumed, facts), strict=True
    ):
        assert_array_equal(x.ue, y.ue)
        assert_array_equal(x.probability, y.probability)


@mark.slow
@mark.parametrize(
    "rule", [{"kind": "per-round"}, {"kind": "every", "period_s": 150, "stagger": True}]
)
def test_runs_go_on_to_the_same_bytes_after_names_were_given_up(rule, tiny, tmp_path, table_bytes):
    learnt = {"sigma_m": 50.0, "cell_m": 40.0, "hit_radius_m": 80.0}
    attacks = [
        {"kind": "tracker", **learnt, "own_places": True},
        {"kind": "dwell", **learnt},
        {"kind": "re-identify", "sigma_m": 50.0, "of": {"kind": "tracker", **learnt}},
    ]
    study = tiny(
        {
            "world.duration_s": 13 * 60,
            "learning.attacks": attacks,
            "learning.threat": {"pseudonyms": rule},
        }
    )
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda progress: progress.done == 10)
    tables = table_bytes(tmp_path / "whole")
    assert table_bytes(tmp_path / "cut") == tables
    assert b"tracker" in tables["tracking.csv"]
    assert b"re-identify" in tables["tracking.csv"]
