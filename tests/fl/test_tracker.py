"""The attack `tracker`: whom it follows, what it says, and what it remembers."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError
from told_places import AREA, HOME_M, RNG, away_m, facts_of, noisy, played, tracker, view_of

from fl.attacks import ATTACKS
from fl.attacks.base import View
from fl.attacks.span import Span
from fl.attacks.tracker import Tracker
from fl.tracking.belief import Belief
from fl.types import Estimates, Facts, Public
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.tree import from_tree, to_tree


def test_who_stays_is_found_far_better_than_by_single_rounds() -> None:
    said = noisy(60)
    *_, (_, estimates, state) = played(tracker(said), said)
    assert estimates.what == ["centroid"] * 3 + ["plain"] * 3 and estimates.status[:3] == ["ok"] * 3
    assert np.median(away_m(estimates, "centroid")) < 100
    assert estimates.weight[:3].min() > 0.1  # of the prior: 0.003
    assert state.log_likelihood.min() > 50
    assert tracker(said).figures(state)["stay_share"] > 0.5


def test_hindsight_knows_the_first_rounds_too() -> None:
    said = noisy(50)
    attack = tracker(said)
    rounds = list(played(attack, said))
    told = list(attack.hindsight(rounds[-1][2], facts_of(49)))
    assert [b.round for b in told] == list(range(50)) and all(b.ue.tolist() == [0, 1, 2] for b in told)
    first = np.linalg.norm(told[0].grid.place_m[told[0].probability.argmax(axis=1)] - HOME_M, axis=1)
    assert np.median(first) < 150 < np.median(away_m(rounds[0][1], "plain"))
    now = attack.belief(rounds[-1][2], facts_of(49))
    assert isinstance(now, Belief) and now.probability.sum(axis=1) == pytest.approx(1.0, abs=1e-4)
    assert now.prior.sum() == pytest.approx(1.0, abs=1e-4)
    # after the last round both know the same; the smoother has learnt motion once more
    assert np.abs(now.probability - told[-1].probability).sum(axis=1).max() < 0.6


def test_a_ue_without_an_estimate_moves_on_and_an_unknown_one_is_unknown() -> None:
    said = noisy(6)
    said[3:, 1] = np.nan
    attack = tracker(said)
    states = [state for _, _, state in played(attack, said)]
    spread = [np.sort(s.p[1])[::-1][:20].sum() for s in states]
    assert spread[3] > spread[4] > spread[5]  # nothing is heard: belief goes to where motion goes
    outside = np.full((1, 3, 2), -1e9)
    estimates, state = tracker(outside).run(view_of(np.array([2])), facts_of(0), attack.start(), RNG)
    assert estimates.status[0] == "unknown" and np.isnan(estimates.position_m[0]).all() and estimates.weight[0] == 0
    assert len(state.ue) == 0 and tracker(outside).belief(state, facts_of(0)) is None


@pytest.mark.parametrize("settings", [{}, {"own_places": True, "hours": True}])
def test_rounds_in_which_nobody_is_known_yet(settings: dict[str, object]) -> None:
    said = noisy(6)
    said[:3] = np.nan
    attack = tracker(said, **settings)
    rounds = list(played(attack, said))
    assert [len(state.ue) for _, _, state in rounds] == [0, 0, 0, 3, 3, 3]
    assert [len(b.ue) for b in attack.hindsight(rounds[-1][2], facts_of(5))][-3:] == [3, 3, 3]


def test_ues_are_followed_by_their_names_alone() -> None:
    said, order = noisy(12), np.array([2, 0, 1])
    one, other = tracker(said), tracker(said[:, order])
    *_, (_, _, a) = played(one, said)
    *_, (_, _, b) = played(other, said[:, order])
    assert np.array_equal(a.p[order], b.p)
    assert np.array_equal(a.log_likelihood[order], b.log_likelihood)
    for x, y in zip(one.hindsight(a, facts_of(11)), other.hindsight(b, facts_of(11)), strict=True):
        assert np.array_equal(x.probability[order], y.probability)


@pytest.mark.parametrize("settings", [{}, {"own_places": True, "hours": True}])
def test_a_resumed_tracker_goes_on_to_the_bit(settings: dict[str, object]) -> None:
    said = noisy(16)
    said[::3, 0] = np.nan
    attack = tracker(said, **settings)
    *_, (_, whole, last) = played(attack, said)
    *_, (_, _, half) = played(attack, said[:9])
    again = from_tree(to_tree(half), attack.start())
    *_, (_, resumed, end) = played(attack, said, again, 9)
    assert np.array_equal(last.p, end.p) and np.array_equal(last.count, end.count)
    assert np.array_equal(whole.position_m, resumed.position_m, equal_nan=True)
    for x, y in zip(attack.hindsight(last, facts_of(15)), attack.hindsight(end, facts_of(15)), strict=True):
        assert np.array_equal(x.probability, y.probability)


def test_an_error_that_persists_is_not_averaged_away() -> None:
    said = noisy(150)
    sure = {}
    for bias_m in (0.0, 200.0):
        *_, (_, estimates, _) = played(tracker(said, bias_m=bias_m), said)
        sure[bias_m] = estimates.weight[:3]
    assert (sure[200.0] < 0.25).all()  # 1 - exp(-100^2 / (2 * 200^2)) = 0.12 at most, but for the cells
    assert (sure[0.0] > 2 * sure[200.0]).all()


def test_two_views_of_one_instant_are_two_estimates_without_motion() -> None:
    said = noisy(1)
    attack = tracker(said)
    _, once = attack.run(view_of(np.arange(3)), facts_of(0), attack.start(), RNG)
    _, twice = attack.run(view_of(np.arange(3)), facts_of(0), once, RNG)
    squared = once.p.astype(float) ** 2
    assert twice.p == pytest.approx(squared / squared.sum(axis=1, keepdims=True), abs=1e-6)
    assert len(list(attack.hindsight(twice, facts_of(0)))) == 1


def test_attacks_that_add_up_rounds_begin_anew() -> None:
    class Counted(Span):
        def run(self, view: View, facts: Facts, state: object, rng: Rng) -> tuple[Estimates, object]:  # type: ignore[override]
            assert len(state.owner) == 0  # type: ignore[attr-defined]
            place = np.full((len(view.ue), 2), 500.0)
            return view.spread("answer", np.arange(len(view.ue)), place), replace(state, owner=view.ue)  # type: ignore[type-var]

    attack = Tracker.model_construct(**(Tracker(sigma_m=100.0, cell_m=200.0).__dict__ | {"of": Counted()}))
    state = attack.start()
    for t in range(3):
        estimates, state = attack.run(view_of(np.arange(2)), facts_of(t), state, RNG)
    assert estimates.position_m[:2] == pytest.approx(np.full((2, 2), 500.0), abs=100.0)


def test_what_cannot_be_is_refused() -> None:
    assert ATTACKS.parts["tracker"] is Tracker
    for bad, why in (
        ({"sigma_m": 0.01}, "greater than or equal to 0.1"),  # squares of what it divides would be no numbers
        ({"sigma_m": 10.0, "outlier": 1e-9}, "greater than or equal to"),
        ({"outlier": 0.1}, "leave it out, or give sigma_m"),
        ({"sigma_m": 10.0, "bias_m": 20.0}, "at most that"),
        ({"of": {"kind": "closed-form", "name": "x"}}, "give the name 'x' to tracker itself"),
        ({"of": {"kind": "tracker"}}, "tracker"),
    ):
        with pytest.raises(ValidationError, match=why):
            Tracker.model_validate(bad)
    with pytest.raises(BadInput, match="makes 300,000,000 places"):
        tracker(noisy(1), cell_m=0.2).run(view_of(np.arange(3)), facts_of(0), tracker(noisy(1)).start(), RNG)
    public = Public(AREA, 1)
    tracker(noisy(1), cell_m=10.0).check(public, 2000)  # 120,000 places
    with pytest.raises(BadInput, match=r"cell_m 10 makes 120,000 places, at most 50,000 .* take a larger cell_m"):
        tracker(noisy(1), cell_m=10.0).check(public, 5000)
    assert "starting weights" in Tracker().needs and "starting weights" not in Tracker(sigma_m=10.0).needs


def test_exact_estimates_of_ues_that_move_are_not_drawn_back() -> None:
    """Errors are said to be far larger than they are: memory misleads, and the next estimates show it."""
    way_m = np.clip(HOME_M + np.arange(14)[:, None, None] * np.array([70.0, -50.0]), 1.0, [3999.0, 2999.0])
    attack = tracker(way_m, sigma_m=400.0, cell_m=50.0)
    states = list(played(attack, way_m))
    (_, early, _), (_, late, state) = states[5], states[-1]
    assert state.memory.misleads
    of = {what: np.array([w == what for w in late.what]) for what in ("centroid", "plain")}
    assert late.position_m[of["centroid"]].tolist() == late.position_m[of["plain"]].tolist()
    first = {what: early.position_m[np.array([w == what for w in early.what])] for what in of}
    assert np.abs(first["centroid"] - first["plain"]).max() > 25  # nothing is known of it yet
    for belief in (attack.belief(state, facts_of(13)), *attack.hindsight(state, facts_of(13))):
        assert belief.alone and belief.point_m[:, 0].tolist() == way_m[belief.round].tolist()
    no_places = replace(state.history, errors=[replace(e, gain=np.array([0.5])) for e in state.history.errors])
    believed = attack.belief(replace(state, history=no_places), facts_of(13))
    assert np.isnan(believed.point_m).all()  # as they stand, they are drawn to the middle
