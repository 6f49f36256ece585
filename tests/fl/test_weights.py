"""Weights of the merge: distances of label distributions, angles, selection; nobody's weight is
lost or made up."""

from dataclasses import replace

import numpy as np
from fl_values import build_context, build_local
from hypothesis import given, settings
from hypothesis import strategies as st
from noticed import lines
from numpy.testing import assert_allclose
from pytest import approx, raises
from scipy.stats import wasserstein_distance

from fl.aggregation import (
    Wasserstein,
    compute_angle_exponent,
    count_effective_rows,
    normalise_masses,
)
from fl.types import DenseUpdates, Public, Received, SampleFormat
from netsim.columns import number_row
from netsim.errors import BadInput
from netsim.geometry import Area

FACTS = build_context(Public(Area(0, 0, 1, 1), 1, samples=SampleFormat((1, 8, 8), 10, 255.0)))


def build_labelled(*rows):
    """Local data with these labels, one list a UE."""
    y = np.concatenate(rows).astype(float)
    ptr = np.cumsum([0, *map(len, rows)])
    empty = build_local(range(len(rows)))
    return replace(empty, ptr=ptr, x=np.zeros((len(y), 1)), y=y, time_s=0 * y)


def distances(part, *rows):
    """How far the labels of each UE are from those of everybody."""
    local = build_labelled(*rows)
    state = part.receive_disclosed(local, FACTS, part.start())
    return part.measure_distances(state, number_row(local.ue, local.model), 1)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_weights_of_whoever_was_decoded_sum_to_one(data):
    n = data.draw(st.integers(1, 8))
    log_mass = np.array(data.draw(st.lists(st.floats(-1e3, 1e3), min_size=n, max_size=n)))
    decoded = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    model = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    result = normalise_masses(log_mass, decoded, model, 3)
    assert np.isfinite(result).all()
    assert (result[~decoded] == 0).all()
    assert (result >= 0).all()
    for m in range(3):
        is_own = model == m
        expected = float(decoded[is_own].any())
        assert result[is_own].sum() == approx(expected)


def test_effective_devices():
    assert count_effective_rows(np.full(15, 1 / 15)) == approx(15)
    assert count_effective_rows(np.array([1.0, 0.0])) == 1
    assert count_effective_rows(np.zeros(3)) == 0


def test_total_variation_and_the_floor_by_hand():
    # everybody: half and half
    rows = ([0, 0], [1, 1], [0, 1])
    part = Wasserstein(floor=0.25)
    assert_allclose(distances(part, *rows), [0.5, 0.5, 0.0])
    local = build_labelled(*rows)
    got = Received(
        DenseUpdates(local.ue, local.model, local.count, np.ones((3, 2))), np.ones(3, dtype=bool)
    )
    result, _ = part.compute_weights(got, FACTS, part.receive_disclosed(local, FACTS, part.start()))
    expected = np.exp([2, 2, 4]) / np.exp([2, 2, 4]).sum()
    assert_allclose(result, expected)


def test_everybody_is_the_mean_weighted_by_size():
    result = distances(Wasserstein(), [0] * 6, [1] * 2)
    assert_allclose(result, [0.25, 0.75])


def test_label_index_is_scipy_s_and_hangs_on_the_order_of_classes():
    rows = [[0, 0, 3], [9, 9, 9], [1, 5, 7, 7]]
    renamed = [[(c * 7 + 3) % 10 for c in r] for r in rows]
    part = Wasserstein(distance="label-index")
    labels = np.concatenate(rows)
    away = distances(part, *rows)
    assert_allclose(away, [wasserstein_distance(r, labels) for r in rows])
    assert np.abs(distances(part, *renamed) - away).max() > 0.1
    assert_allclose(distances(Wasserstein(), *rows), distances(Wasserstein(), *renamed))


def test_labels_of_a_range_fall_into_bins_and_those_beyond_into_the_last():
    part = Wasserstein(distance="label-range")
    rows = [[-140.0, -138.1, -137.9], [-44.0, -30.0, -200.0, -45.0]]
    pmf = part.receive_disclosed(build_labelled(*rows), FACTS, part.start()).labels.value[:, 1:]
    expected = [2 / 3, 1 / 3, *[0] * 46]
    assert pmf[0] == approx(expected)
    expected = [1 / 4, *[0] * 46, 3 / 4]
    assert pmf[1] == approx(expected)


def test_a_histogram_is_disclosed_once_and_again_when_it_changes():
    part = Wasserstein()
    state = part.start()
    for rows, disclosed in (([0, 0], [1, 1]), 2), (([0, 0], [1, 1]), 2), (([0, 0], [1, 2]), 3):
        state = part.receive_disclosed(build_labelled(*rows), FACTS, state)
        assert part.figures(state)["histograms_disclosed"] == disclosed
    state = part.receive_disclosed(build_labelled([0, 0]), FACTS, state)
    # who is away is still known
    assert len(state.labels.key) == 2
    assert "no noise hides it" in lines(part.notices(None))[0]


def test_what_weighs_rows_is_refused_under_secure_aggregation(tiny):
    images = {"learning.data": {"kind": "images", "samples": 9}, "learning.attacks": []}
    images["learning.learner"] = {"kind": "torch", "module": "perceptron"}
    images["learning.threat"] = {"observes": "aggregate"}
    for kind in ("wasserstein", "beda"):
        with raises(BadInput, match=f"{kind} needs updates"):
            tiny(images | {"learning.aggregation": {"kind": kind}})
    with raises(BadInput, match=r"needs class labels.*take label-range"):
        tiny({"learning.aggregation": {"kind": "wasserstein"}})
    with raises(BadInput, match=r"needs real labels.*take total-variation"):
        by_range = {"kind": "wasserstein", "distance": "label-range"}
        tiny(images | {"learning.threat": {}, "learning.aggregation": by_range})


def test_the_contribution_falls_with_the_angle():
    result = compute_angle_exponent(np.linspace(0, np.pi, 100), 5.0)
    assert (np.diff(result) < 0)[30:].all()
    assert (np.diff(result) <= 0).all()
    expected = 5 * (1 - np.exp(-1))
    assert compute_angle_exponent(np.array([1.0]), 5.0)[0] == approx(expected)
    assert result[0] == approx(5.0, abs=1e-6)
    assert 0 < result[-1] < 1e-3
