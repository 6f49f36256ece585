"""Merges of servers without rounds against their equations, and how many UEs they have under way."""

import numpy as np
import pandas as pd
import pytest

import fl.round.merge as merging
from scenarios.app.run.runner import run

SLOW = {
    "world.duration_s": 60, "world.ues.count": 6, "world.ues.training_s_per_sample": 1.0,
    "world.radio.dynamic_uplink": {},
    "world.radio.uplink": {
        "kind": "noma", "bandwidth_hz": 100, "rate": {"kind": "shannon"}, "decoding": "error-free",
        "sic_residual": 0.01,
    },
    "learning.round_s": 10, "learning.attacks": [],
}  # fmt: skip
"""uploads that last about as long as a window, so that several windows are under way at a time"""


@pytest.fixture
def merges(monkeypatch):
    """What a run merges: the phase, the rows as received, their staleness, and what came of them."""
    seen, merge = [], merging.merge

    def watched(phase, got, stale, states):
        result = merge(phase, got, stale, states)
        seen.append((phase, got, stale, result))
        return result

    monkeypatch.setattr(merging, "merge", watched)
    return seen


@pytest.mark.parametrize(
    "air",
    [{}, {"client_dropout_per_s": 0.1, "block_s": 1.5, "retransmissions": 1}],
    ids=["all arrive", "some are lost"],
)
def test_fedasync_mixes_in_the_model_that_each_ue_arrived_at(tiny, tmp_path, merges, air):
    """w <- (1 - a) w + a (w_t0 + D), a = 0.7 (1 + tau)^-0.3: w_t0 weighs less the older it is, as D does; what was lost
    before the arrival brings no model along."""
    server = {"kind": "fedasync", "mixing": 0.7, "staleness_exponent": 0.3}
    run(tiny(SLOW | {"learning.server": server, "world.radio.dynamic_uplink": air}), tmp_path)
    moved = 0
    for phase, got, stale, step in merges:
        now, rows = phase.model.parameters, got.updates
        expected = now.copy()
        for i in np.flatnonzero(got.decoded):
            m, a = rows.model[i], 0.7 * (1 + stale[i]) ** -0.3
            base = phase.bases[phase.version - stale[i]].parameters[m]
            expected[m] = (1 - a) * now[m] + a * (base + rows.rows(slice(None))[i])
            moved += stale[i] > 0 and not np.array_equal(base, now[m])
        np.testing.assert_allclose(step.model.parameters, expected, rtol=0, atol=1e-12)
    assert len(merges) > 4 and moved > 2
    lost = any(not got.decoded.all() for _, got, *_ in merges)
    assert lost == bool(air)


def test_fedbuff_adds_updates_that_weigh_less_the_older_they_are(tiny, tmp_path, merges):
    """w <- w + sum_k p_k (1 + tau_k)^-0.8 D_k, p_k shares of the samples that merge."""
    run(tiny(SLOW | {"learning.server": {"kind": "fedbuff", "buffer": 2, "staleness_exponent": 0.8}}), tmp_path)
    for phase, got, stale, step in merges:
        rows, expected = got.updates, phase.model.parameters.copy()
        for m in np.unique(rows.model):
            mine = got.decoded & (rows.model == m)
            p = np.where(mine, rows.count, 0) / max(rows.count[mine].sum(), 1)
            expected[m] += (p * (1.0 + stale) ** -0.8) @ rows.rows(slice(None))
        np.testing.assert_allclose(step.model.parameters, expected, rtol=0, atol=1e-12)
    assert len(merges) > 4 and max(stale.max() for *_, stale, _ in merges) > 0


@pytest.mark.parametrize("most", [1, 4])
def test_no_more_are_under_way_than_the_server_allows(tiny, tmp_path, most):
    """Whoever is asked counts until its upload has ended, in all windows that follow."""
    long = {"world.ues.training_s_per_sample": 8.0, "learning.server": {"kind": "fedasync", "concurrency": most}}
    run(tiny(SLOW | long), tmp_path)
    uploads = pd.read_csv(tmp_path / "transmissions.csv")
    times_s, ended = sorted(set(uploads.requested_s)), uploads.ended_s
    now, before = (
        [int((of(uploads.requested_s, t) & ~(ended <= t)).sum()) for t in times_s]
        for of in (np.less_equal, np.less)
    )  # fmt: skip
    assert max(now) == most and (max(before) > 0 or most == 1)  # windows begin with others still under way
