"""How soon a model was good: means over time, whatever the number of merges."""

from math import nan

import numpy as np
import pytest

from scenarios.app.results.summary import find_level_time_s, find_level_times
from scenarios.app.results.summary_keys import compute_measures


def array(*values):
    return np.array(values, dtype=float)


def test_a_score_that_stays_counts_when_a_fifth_of_the_time_has_it():
    """0 until 8 s, then 100: at t the mean over the last fifth is (t - 8) / (t / 5) until 10 s."""
    time_s = np.arange(1.0, 21.0)
    score = np.where(np.arange(1.0, 21.0) >= 8, 100.0, 0.0)
    assert find_level_time_s(time_s, score, 0.0, 100) == 10.0
    assert find_level_time_s(time_s + 5, score, 5.0, 100) == 10.0
    # 7 s / 0.8, where the mean of 9 s is not yet looked at
    assert find_level_time_s(time_s, score, 0.0, 1) == 8.75
    assert np.isnan(find_level_time_s(time_s, score, 0.0, 101))


def test_one_lucky_score_is_no_good_model():
    time_s = np.arange(1.0, 101.0)
    lucky = np.where(time_s == 50, 100.0, 40.0)
    assert np.isnan(find_level_time_s(time_s, lucky, 0.0, 60))
    assert find_level_time_s(time_s, lucky, 0.0, 40) <= 2.5


@pytest.mark.parametrize("times", [1, 7])
def test_who_is_scored_more_often_is_not_better(times):
    """The same steps, told once or several times."""
    time_s = np.arange(10.0, 210.0, 10.0)
    score = np.linspace(5, 100, 20)
    often_s = np.concatenate([t + np.arange(times) * 10 / times for t in time_s])
    once = find_level_time_s(time_s, score, 0.0, 60)
    often = find_level_time_s(often_s, np.repeat(score, times), 0.0, 60)
    assert once == pytest.approx(often, abs=10)
    assert 130 < once < 160


def test_what_is_not_finite_is_no_score():
    assert np.isnan(find_level_time_s(array(1, 2, 3), array(nan, nan, nan), 0.0, 10))
    assert np.isnan(find_level_time_s(array(), array(), 0.0, 10))


def uploads(n):
    return {"ue": np.zeros(n), "requested_s": 10.0 * np.arange(1, n + 1)}


def test_levels_of_a_run_with_the_uploads_until_then():
    accuracy = np.linspace(20, 84, 30)
    metrics = {
        "name": np.array(["accuracy_percent", "cross_entropy_nats"] * 30, dtype=object),
        "time_s": np.repeat(np.arange(15.0, 315.0, 10.0), 2),
        "value": np.insert(accuracy, np.arange(1, 31), 99.0),
    }
    rows = find_level_times(uploads(40), metrics)
    result = {}
    for level, values in rows.items():
        result |= compute_measures({"reached": values}, level)
    times = [result[f"reached.{level}.time_s"] for level in (50, 70, 80)]
    assert times == sorted(times)
    assert 100 < times[0] < 250
    # one every 10 s from the first on
    assert result["reached.50.uploads"] == np.floor(times[0] / 10) + 1
    assert np.isnan(result["reached.90.time_s"])
    assert result["reached.90.uploads"] is None
    assert find_level_times(uploads(0), metrics) == {}
    assert find_level_times(uploads(3), {k: v[1::2] for k, v in metrics.items()}) == {}
