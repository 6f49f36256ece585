"""The attack `tracker`: whom it follows, what it says, and what it remembers."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from pytest import approx
from told_places import HOME_M, RNG, away_m, facts_of, noisy, played, tracker, view_of
from tracked import Followed, Source, commuters, estimates, follow

from fl.attacks import tracker as laws
from fl.attacks.base import View
from fl.attacks.span import Span
from fl.attacks.tracker import Tracker
from fl.tracking.belief import Belief
from fl.types import Estimates, RoundContext
from netsim.checkpoint import from_tree, to_tree
from netsim.rng import Rng


def test_who_stays_is_found_far_better_than_by_single_rounds() -> None:
    answers = noisy(60)
    answers[:2, 0] = np.nan  # the first one is heard last
    *_, (_, estimates, state) = played(tracker(answers), answers)
    assert estimates.what == ["centroid"] * 3 + ["plain"] * 3
    assert estimates.status[:3] == ["ok"] * 3
    assert np.median(away_m(estimates, "centroid")) < 100
    assert estimates.weight[:3].min() > 0.1  # of the prior: 0.003
    assert tracker(answers).figures(state)["stay_share"] > 0.5  # the motion of who stays is learnt


def test_hindsight_knows_the_first_rounds_too() -> None:
    answers = noisy(50)
    attack = tracker(answers)
    rounds = list(played(attack, answers))
    last_state = rounds[-1][2]
    replies = list(attack.smooth_beliefs(last_state, facts_of(49)))
    assert [b.round for b in replies] == list(range(50))
    assert all(b.ue.tolist() == [0, 1, 2] for b in replies)
    first = np.linalg.norm(
        replies[0].grid.place_m[replies[0].probability.argmax(axis=1)] - HOME_M, axis=1
    )
    assert np.median(first) < 150 < np.median(away_m(rounds[0][1], "plain"))
    current = attack.belief(last_state, facts_of(49))
    assert isinstance(current, Belief)
    assert current.probability.sum(axis=1) == approx(1.0, abs=1e-4)
    assert current.prior.sum() == approx(1.0, abs=1e-4)
    # after the last round both know the same; the smoother has learnt motion once more
    assert np.abs(current.probability - replies[-1].probability).sum(axis=1).max() < 0.6


@pytest.mark.parametrize("settings", [{}, {"own_places": True}])
def test_a_resumed_tracker_goes_on_to_the_bit(settings: dict[str, object]) -> None:
    answers = noisy(16)
    answers[::3, 0] = np.nan
    attack = tracker(answers, **settings)
    *_, (_, whole, last) = played(attack, answers)
    *_, (_, _, half) = played(attack, answers[:9])
    again = from_tree(to_tree(half), attack.start())
    *_, (_, resumed, end) = played(attack, answers, again, 9)
    assert np.array_equal(last.p, end.p)
    assert np.array_equal(last.habits.count, end.habits.count)
    assert np.array_equal(whole.position_m, resumed.position_m, equal_nan=True)
    for x, y in zip(
        attack.smooth_beliefs(last, facts_of(15)),
        attack.smooth_beliefs(end, facts_of(15)),
        strict=True,
    ):
        assert np.array_equal(x.probability, y.probability)


def test_an_error_that_persists_is_not_averaged_away() -> None:
    answers = noisy(80)
    sure = {}
    for bias_m in (0.0, 200.0):
        *_, (_, estimates, _) = played(tracker(answers, bias_m=bias_m), answers)
        sure[bias_m] = estimates.weight[:3]
    # 1 - exp(-100^2 / (2 * 200^2)) = 0.12 at most, but for the cells
    assert (sure[200.0] < 0.25).all()
    assert (sure[0.0] > 2 * sure[200.0]).all()


def test_attacks_that_add_up_rounds_begin_anew() -> None:
    class Counted(Span):
        def run(
            self, view: View, facts: RoundContext, state: object, rng: Rng
        ) -> tuple[Estimates, object]:  # type: ignore[override]
            assert len(state.owner) == 0  # type: ignore[attr-defined]
            place = np.full((len(view.ue), 2), 500.0)
            return view.build_estimates("answer", np.arange(len(view.ue)), place), replace(
                state, owner=view.ue
            )  # type: ignore[type-var]

    attack = Tracker.model_construct(
        **(Tracker(sigma_m=100.0, cell_m=200.0).__dict__ | {"of": Counted()})
    )
    state = attack.start()
    for t in range(3):
        estimates, state = attack.run(view_of(np.arange(2)), facts_of(t), state, RNG)
    expected = np.full((2, 2), 500.0)
    assert estimates.position_m[:2] == approx(expected, abs=100.0)


# -- the tracker on people with homes and workplaces who are made up: a small version of what
# recorded movements show


@cache
def people() -> tuple[Source, np.ndarray]:
    """Ten people, two days, 5 km x 5 km, with estimates."""
    source = commuters(10, 2, 1800.0, 5000.0)
    return source, estimates(source)


@cache
def follow_people() -> Followed:
    return follow(*people())


def test_filter_is_better_than_estimates_and_smoother_better_than_filter() -> None:
    errors = [
        follow_people().plain_m,
        follow_people().filter.error_m,
        follow_people().smoother.error_m,
    ]  # type: ignore[union-attr]
    assert np.median(errors[0]) > 1.3 * np.median(errors[1]) > 1.3 * np.median(errors[2])
    assert errors[0].mean() > 1.5 * errors[1].mean() > 1.5 * errors[2].mean()


def test_the_truth_is_in_the_area_of_nine_in_ten() -> None:
    for scores in (follow_people().filter, follow_people().smoother):
        assert scores is not None
        assert 0.8 < scores.in90.mean() < 0.98


def test_motion_learnt_from_the_whole_past_makes_the_filter_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learnt = follow_people().filter
    monkeypatch.setattr(laws, "_RELEARNT", ())
    once = follow(*people(), hindsight=False)
    unlearnt = once.filter
    assert np.array_equal(
        unlearnt.error_m[unlearnt.round < 16],
        learnt.error_m[learnt.round < 16],
    )
    late = unlearnt.round > 40
    assert np.median(learnt.error_m[late]) < 0.97 * np.median(unlearnt.error_m[late])
    assert learnt.stated[late].mean() > unlearnt.stated[late].mean()
