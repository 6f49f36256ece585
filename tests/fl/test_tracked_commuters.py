"""The tracker on people with homes and workplaces who are made up: a small version of what recorded movements show."""

from functools import cache

import numpy as np
import pytest
from tracked import Followed, Source, commuters, estimates, follow

from fl.attacks import tracker as laws


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


def test_motion_learnt_from_the_whole_past_makes_the_filter_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "_RELEARNT", ())
    once = follow(*people(), hindsight=False)
    assert np.array_equal(
        once.filter.error_m[once.filter.round < 16], found().filter.error_m[found().filter.round < 16]
    )
    late = once.filter.round > 40
    assert np.median(found().filter.error_m[late]) < 0.97 * np.median(once.filter.error_m[late])
    assert found().filter.stated[late].mean() > once.filter.stated[late].mean()
