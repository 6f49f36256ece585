"""Where people are, as far as an attacker knows beforehand."""

import numpy as np
import pytest
from pytest import approx

from fl.tracking.place_grid import PlaceGrid
from fl.tracking.population import ANYWHERE, AlongStreets, AtPlaces, InBuildings
from fl.types import Public
from netsim.errors import BadInput
from netsim.geometry import Area

AREA = Area(-200.0, 0.0, 800.0, 500.0)
GRID = PlaceGrid.from_area(AREA, 100.0, 1, "test")


def public(**facts):
    return Public(AREA, 1, **facts)


def test_streets_by_their_length_in_each_cell():
    """One street through the whole lowest row, one half as long in a single cell."""
    street = np.array([[[-200.0, 50.0], [800.0, 50.0]], [[310.0, 210.0], [310.0, 260.0]]])
    p = AlongStreets().compute_probability(GRID, public(street_m=street)).reshape(5, 10)
    assert p.sum() == approx(1)
    assert p[0] == approx((1 - ANYWHERE) * 100 / 1050 + ANYWHERE / 50)
    assert p[2, 5] == approx((1 - ANYWHERE) * 50 / 1050 + ANYWHERE / 50)
    assert p[4] == approx(ANYWHERE / 50)


def test_buildings_by_their_floors():
    p = InBuildings().compute_probability(
        GRID, public(floor_area=np.array([[0.0, 10, 300], [750, 490, 900], [9e3, 0, 1e6]]))
    )
    assert p[GRID.find_cells(np.array([[0.0, 10]]))[0]] == approx(0.9 * 0.25 + 0.002)
    assert p[GRID.find_cells(np.array([[750.0, 490]]))[0]] == approx(0.9 * 0.75 + 0.002)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("x_m\n1\n", "no column y_m"),
        ("x_m,y_m\n1,\n", "line 2, column y_m"),
        ("x_m,y_m\n", "at least one"),
        ("x_m,y_m\nnan,1\n", "is not a number"),
        ("x_m,y_m\n1e9,1\n", "none of its 1 places"),
    ],
)
def test_files_that_say_nothing_are_refused(tmp_path, text, reason):
    file = tmp_path / "others.csv"
    file.write_text(text)
    with pytest.raises(BadInput, match=reason):
        AtPlaces(file=str(file)).compute_probability(GRID, public())
