"""Numbers of (UE, model) pairs: no two pairs share one, and they keep the value that keys random draws."""

import numpy as np

from netsim.columns import MAX_STATIONS, row_id, ue_and_model


def test_every_pair_has_a_number_of_its_own_and_comes_back():
    ue, model = (a.ravel() for a in np.meshgrid([0, 1, 2, 99_999], [0, 1, MAX_STATIONS - 1], indexing="ij"))
    row = row_id(ue, model)
    assert len(np.unique(row)) == len(ue)
    np.testing.assert_array_equal(ue_and_model(row), (ue, model))


def test_numbers_stay_what_they_are():
    """They key random draws: another number would change every result."""
    assert row_id(3, 5) == 3 * 4096 + 5
