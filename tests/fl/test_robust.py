"""Aggregations that compare whole rows: the rules by hand and by slow accounts, and what they refuse."""

from statistics import median

import numpy as np
import pytest
from fl_values import build_context, build_updates
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from fl.robust import CoordinateMedian, Krum, NormFilter, TrimmedMean, compute_krum_scores
from fl.types import Public, Received
from netsim.errors import BadInput
from netsim.geometry import Area
from scenarios.app.result import run

FACTS = build_context(Public(Area(0, 0, 1, 1), 2))
VALUES = st.integers(1, 9).flatmap(
    lambda n: arrays(float, (n, 3), elements=st.integers(-4, 4).map(float))
)


def merge(part, values, decoded=None, model=None, count=None):
    """Weights and merged update of rows."""
    updates = build_updates(np.asarray(values, float), model=model)
    if count is not None:
        updates = type(updates)(updates.ue, updates.model, np.asarray(count, float), updates.values)
    decoded = np.ones(len(values), bool) if decoded is None else np.asarray(decoded)
    weights, _ = part.compute_weights(Received(updates, decoded), FACTS, part.start())
    return weights, part.merge_rows(updates, weights, 2)


@settings(deadline=None, max_examples=60)
@given(VALUES, st.data())
def test_median_and_trimmed_mean_are_those_of_lists_of_numbers(values, data):
    n = len(values)
    model = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    decoded = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    trim = data.draw(st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.49]))
    weights, got_median = merge(CoordinateMedian(), values, decoded, model)
    _, got_trimmed = merge(TrimmedMean(trim=trim), values, decoded, model)
    for m in range(2):
        rows = [list(v) for v, k, d in zip(values, model, decoded, strict=True) if d and k == m]
        assert weights[model == m].sum() == pytest.approx(float(bool(rows)))
        if not rows:
            assert not got_median[m].any()
            continue
        assert_array_equal(got_median[m], [median(column) for column in zip(*rows, strict=True)])
        cut = int(trim * len(rows))
        kept = [sorted(c)[cut : len(c) - cut] for c in zip(*rows, strict=True)]
        assert_allclose(got_trimmed[m], [sum(c) / len(c) for c in kept], atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(VALUES, st.integers(0, 3), st.integers(1, 4))
def test_krum_is_that_of_a_slow_account_with_ties_to_the_first(values, f, m):
    weights, merged = merge(Krum(malicious=f, selected=m), values)
    n = len(values)
    if n < 2 * f + 3:
        assert not weights.any()
        assert not merged.any()
        return
    scores = []
    for i in range(n):
        apart = sorted(float(((values[i] - values[j]) ** 2).sum()) for j in range(n) if j != i)
        scores.append(sum(apart[: n - f - 2]))
    best = sorted(range(n), key=lambda i: (scores[i], i))[: min(m, n - f - 2)]
    assert_allclose(merged[0], values[best].mean(axis=0), atol=1e-12)
    assert set(np.flatnonzero(weights)) == set(best)


def test_krum_never_takes_an_outlier():
    honest = np.random.default_rng(2).normal(size=(5, 40))
    values = np.concatenate([honest, 100.0 + np.zeros((1, 40))])
    scores = compute_krum_scores(values, 3)
    assert scores.argmax() == 5
    assert merge(Krum(malicious=1, selected=9), values)[0][5] == 0


def test_norm_filter_by_hand():
    values = [[3.0, 4.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0]]
    weights, merged = merge(NormFilter(norm=2.0), values, count=[2, 1, 1, 1])
    assert_allclose(weights, [0.4 * 2 / 5, 0.2, 0.2, 0.2])
    assert_allclose(merged[0], [0.4 * 1.2, 0.4 * 1.6 + 0.6])


REFUSED = {
    "learning.threat": [{"observes": "aggregate"}, "needs updates"],
    "learning.defenses": [
        [{"kind": "clip"}, {"kind": "central-gaussian", "noise_multiplier": 1.0}],
        "needs a fixed weight",
    ],
    "learning.learner": [
        {"kind": "density", "bandwidth_m": [100.0], "grid": [8, 8]},
        "no differences of weights",
    ],
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_needs_a_sum_is_refused_with_the_reason(tiny, key):
    value, reason = REFUSED[key]
    changes = {"learning.aggregation": {"kind": "coordinate-median"}, "learning.attacks": []}
    if "learner" in key:
        changes["learning.data"] = {"kind": "positions"}
    with pytest.raises(BadInput, match=reason):
        tiny(changes | {key: value})


def test_attacks_on_models_that_count_on_sums_are_refused(tiny):
    changes = {"learning.threat": {"observes": "model"}}
    tiny(changes | {"learning.aggregation": {"kind": "krum", "malicious": 0}})
    with pytest.raises(BadInput, match="needs a linear server step"):
        tiny(changes | {"learning.aggregation": {"kind": "trimmed-mean"}})


def test_krum_for_more_ues_than_there_are_is_refused(tiny, tmp_path):
    with pytest.raises(BadInput, match="needs 5 updates of a model, and 4 UEs"):
        run(tiny({"learning.aggregation": {"kind": "krum", "malicious": 1}}), tmp_path / "out")


@pytest.mark.parametrize("kind", ["coordinate-median", "trimmed-mean", "krum", "norm-filter"])
def test_whole_rows_without_rounds(tiny, tmp_path, kind):
    study = tiny(
        {
            "learning.aggregation": {"kind": kind} | ({"malicious": 0} if kind == "krum" else {}),
            "learning.server": {"kind": "fedbuff", "buffer": 3, "staleness_exponent": 0.0},
            "world.radio.dynamic_uplink": {},
        }
    )
    assert run(study, tmp_path / "out").summary
