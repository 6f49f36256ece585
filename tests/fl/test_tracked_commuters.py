"""The tracker on people with homes and workplaces who are made up: a small version of what recorded movements show."""

from functools import cache

import numpy as np
import pytest
from linked import days_as_ues
from tracked import Followed, Source, commuters, estimates, follow, of_trace

from fl.attacks import tracker as laws
from netsim.traces.read import read_trace


@cache
def people() -> tuple[Source, np.ndarray]:
    """Ten people, two days, 5 km x 5 km, with estimates."""
    source = commuters(10, 2, 1800.0, 5000.0)
    return source, estimates(source)


@cache
def found() -> Followed:
    return follow(*people())


def test_filter_is_better_than_estimates_and_smoother_better_than_filter() -> None:
    errors = [found().plain_m, found().filter.error_m, found().smoother.error_m]  # type: ignore[union-attr]
    assert np.median(errors[0]) > 1.3 * np.median(errors[1]) > 1.3 * np.median(errors[2])
    assert errors[0].mean() > 1.5 * errors[1].mean() > 1.5 * errors[2].mean()


def test_the_truth_is_in_the_area_of_nine_in_ten() -> None:
    for scores in (found().filter, found().smoother):
        assert scores is not None and 0.8 < scores.in90.mean() < 0.98


def test_estimates_have_the_stated_error() -> None:
    source, said = people()
    away = (said - source.truth_m)[np.isfinite(said[:, :, 0])]
    near = np.hypot(*away.T) < 900  # all but 1 % of the Gaussian ones, and few others
    assert 0.78 < near.mean() < 0.88
    assert away[near].std() == pytest.approx(300.0, rel=0.1)


def test_motion_learnt_from_the_whole_past_makes_the_filter_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "_RELEARNT", ())
    once = follow(*people(), hindsight=False)
    assert np.array_equal(
        once.filter.error_m[once.filter.round < 16], found().filter.error_m[found().filter.round < 16]
    )
    late = once.filter.round > 40
    assert np.median(found().filter.error_m[late]) < 0.97 * np.median(once.filter.error_m[late])
    assert found().filter.stated[late].mean() > once.filter.stated[late].mean()


def test_the_filter_does_not_know_what_comes_later() -> None:
    source, said = people()
    other = said.copy()
    other[40:] = np.nan
    before = follow(source, other, hindsight=False).filter
    early = found().filter.round < 40
    assert np.array_equal(before.error_m, found().filter.error_m[early])


def test_rounds_of_a_trace_are_mean_places(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "t.csv"
    path.write_text("time_s,user,x_m,y_m\n0,a,0,0\n30,a,10,20\n130,a,50,50\n100,b,0,50\n")
    source = of_trace(read_trace(path, users="id"), 60.0, each_from_zero=True)
    assert source.truth_m.shape == (3, 2, 2)
    step = source.truth_m[2, 0] - source.truth_m[0, 0]
    assert step == pytest.approx([45.0, 40.0]) and np.isfinite(source.truth_m[0, 1]).all()
    assert np.isnan(source.truth_m[1]).all()


def test_days_of_ues_become_ues_on_one_clock() -> None:
    """Two UEs, two days of six rounds: from 8 to 20 h are the third to fifth; a day without places is none."""
    truth = np.arange(12 * 2 * 2, dtype=float).reshape(12, 2, 2)
    source = Source(people()[0].area, 4 * 3600.0, truth)
    truth[8:11, 1] = np.nan
    x = days_as_ues(source, (8.0, 20.0), 0.5)
    assert x.shape == (3, 3, 2)
    np.testing.assert_array_equal(x[:, 0], truth[2:5, 0])
    np.testing.assert_array_equal(x[:, 1], truth[2:5, 1])
    np.testing.assert_array_equal(x[:, 2], truth[8:11, 0])
