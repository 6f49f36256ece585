"""Facts about shadowing: its deviation, its correlation, and whom it is shared with."""

from numpy import (
    arange,
    array,
    array_equal,
    corrcoef,
    cos,
    exp,
    eye,
    interp,
    isnan,
    nan,
    pi,
    sin,
    stack,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import fixture

from netsim.geometry import Area
from netsim.radio.shadowing import Correlated
from netsim.rng import Streams

AREA = Area(-500.0, 200.0, 1500.0, 1700.0)
RNG = Streams(7).derive_rng("shadowing")


def somewhere(n, seed=0):
    return AREA.sample(default_rng(seed).uniform(size=(n, 2)))


@fixture(scope="module")
def forty():
    """40 fields of 6 dB and 50 m on the default grid."""
    return Correlated().draw_field(AREA, arange(40), RNG)


class TestCorrelated:
    def test_every_position_has_the_same_variance(self):
        """On, between and in the middle of grid points; 3,000 small fields, so 1.3 % of noise
        each."""
        law = Correlated(decorrelation_m=250.0).draw_field(
            Area(0.0, 0.0, 25.0, 25.0), arange(3000), RNG
        )
        at_m = array([[0.0, 0.0], [12.5, 0.0], [12.5, 12.5], [5.0, 20.0]])
        assert_allclose(law(at_m).std(axis=1), 6.0, rtol=0.04)

    def test_decorrelation_distance(self):
        """Two random positions at the stated distance correlate by 1/e, whatever the grid; 120
        fields."""
        lag_m = arange(40.0, 62.0, 2.0)
        rho = 0.0
        a_m = Area(-400.0, 300.0, 1400.0, 1600.0).sample(default_rng(0).uniform(size=(8000, 2)))
        angle = default_rng(1).uniform(0, 2 * pi, 8000)
        way = stack([cos(angle), sin(angle)], axis=1)
        for seed in range(3):
            law = Correlated().draw_field(AREA, arange(40), Streams(seed).derive_rng("shadowing"))
            here_db = law(a_m)
            rho = rho + array([(here_db * law(a_m + lag * way)).mean() for lag in lag_m]) / 36.0 / 3
        assert_allclose(interp(-exp(-1), -rho, lag_m), 50.0, rtol=0.05)

    def test_far_positions_are_uncorrelated(self, forty):
        a_m = somewhere(5000)
        b_m = AREA.low_m + (a_m - AREA.low_m + AREA.side_m / 2) % AREA.side_m
        assert abs((forty(a_m) * forty(b_m)).mean()) / 36.0 < 0.03

    def test_base_stations_are_independent(self, forty):
        rho = corrcoef(forty(somewhere(20_000)).T)
        off = rho[~eye(40, dtype=bool)]
        # about 400 independent patches of the area: 0.05 is one standard deviation
        assert off.std() < 0.07
        assert abs(off).max() < 0.3

    def test_base_stations_of_one_site_share_it(self, forty):
        at_m = somewhere(500)
        site = array([3, 3, 0, 17, 3])
        shared = Correlated().draw_field(AREA, site, RNG)
        assert_array_equal(shared(at_m), forty(at_m)[:, site])
        assert shared.value_db.shape[2] == 3
        assert shared(at_m[:0]).shape == (0, 5)

    def test_outside_holds_the_edge_and_absent_is_nan(self, forty):
        low = AREA.low_m - 50.0  # the grid reaches one decorrelation distance further
        far = forty(array([low - 1000.0, low, [nan, nan]]))
        assert array_equal(far[0], far[1])
        assert isnan(far[2]).all()
