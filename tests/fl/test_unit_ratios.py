"""The median ratio of units as a fingerprint: closed forms, and who is linked by it alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from fl.attacks.unit_ratios import median_ratios
from netsim.geometry import Area
from scenarios.app.run.runner import run

AREA = Area(0.0, 0.0, 1000.0, 800.0)
CENTRE_M, SCALE_M = np.array([500.0, 400.0]), np.array([250.0, 200.0])


def view(place_m, db):
    """Updates (n,) of one model whose units have ratios place_m (n, hidden, 2), and bias updates db (n, hidden)."""
    z = (np.asarray(place_m) - CENTRE_M) / SCALE_M
    learner = SimpleNamespace(
        standardisation=lambda model: (CENTRE_M[None], SCALE_M[None]),
        first_layer=lambda update: (z * db[:, :, None], db),
    )
    return SimpleNamespace(
        learner=learner, source_model=np.zeros(len(z), dtype=np.int64), model_before=None, update=np.zeros((len(z), 1))
    )


def test_units_of_one_place_give_that_place():
    rng = np.random.default_rng(0)
    place_m = rng.uniform(0, 800, (5, 2))
    db = rng.normal(0, 1, (5, 9)) + 3.0
    found = median_ratios(view(np.repeat(place_m[:, None], 9, axis=1), db), np.arange(5), 5, AREA)
    np.testing.assert_allclose(found, place_m)


def test_a_few_wild_units_change_nothing_and_those_outside_do_not_count():
    place_m = np.full((1, 9, 2), 300.0)
    place_m[0, :2] = [[900.0, 700.0], [10.0, 20.0]]
    place_m[0, 2:6] = 1e6
    np.testing.assert_allclose(median_ratios(view(place_m, np.ones((1, 9))), np.zeros(1, int), 1, AREA), [[300, 300]])


def test_updates_of_one_sender_count_together_and_of_nobody_nothing():
    place_m = np.array([[[100.0, 100.0]], [[200.0, 100.0]], [[600.0, 100.0]], [[400.0, 50.0]]])
    found = median_ratios(view(place_m, np.ones((4, 1))), np.array([0, 0, 0, 2]), 3, AREA)
    np.testing.assert_allclose(found, [[200, 100], [np.nan, np.nan], [400, 50]])


@pytest.mark.parametrize("server", [{}, {"learning.server": {"kind": "fedbuff", "buffer": 3}, "world.radio.air": {}}])
def test_ues_that_stand_still_are_linked_by_it_alone(server, tiny, tmp_path):
    changes = {
        "world.duration_s": 1200,
        "world.ues": {"count": 6, "mobility": {"kind": "static"}, "measure_every_s": 5},
        "world.radio.uplink": {"kind": "oma", "decoding": "error-free"},
        "learning.threat": {"pseudonyms": {"kind": "per-round"}},
        "learning.attacks": [{"kind": "re-identify", "use": ["units"]}],
    }
    summary = run(tiny(changes | server), tmp_path)
    assert summary["linking.re-identify.right.percent"] > 60 > 2 * summary["linking.re-identify.chance_right.percent"]
