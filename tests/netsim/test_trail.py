"""Tracks: rows where something changed, on a grid of times; straight lines between them are the
motion."""

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, mark
from tabled import cases

from netsim.ues import MOST_ROWS, MOST_UES, Looks, Trail, UeStates

NAN = np.nan
OUT = (False, False)


def see_two(x_m, inside=OUT, cell=(-1, -1)):
    """Two UEs on a line; NaN for an absent one."""
    x_m = np.array(x_m, dtype=float)
    at_m = np.column_stack([x_m, 0 * x_m])
    return UeStates(at_m, np.array(inside), np.array(cell))


def take_rows(*moments):
    """The rows (look, UE) of looks at moments one after another."""
    state = Trail.start(Looks(1.0, 2, 99))
    result = []
    for number, moment in enumerate(moments):
        state, rows = state.look(number, moment)
        result += [(item.look, int(ue)) for item in rows for ue in item.ue]
    return result


def test_a_row_stands_where_something_changed_and_where_rest_ended():
    first = see_two([1, 2])
    rows = take_rows(first, first, first, see_two([1, 3]))
    assert rows == [(0, 0), (0, 1), (2, 1), (3, 1)]
    assert take_rows(first, see_two([2, 2]), see_two([3, 2]))[2:] == [(1, 0), (2, 0)]


def test_absence_is_a_row_and_what_an_absent_ue_would_be_like_is_none():
    nobody = see_two([NAN, NAN])
    nobody_indoors = see_two([NAN, NAN], (True, True), (3, 3))
    rows = take_rows(see_two([1, NAN]), nobody, nobody_indoors, see_two([NAN, 5]))
    assert rows == [(0, 0), (1, 0), (3, 1)]
    both = see_two([1, 2])
    assert take_rows(both, both, see_two([1, NAN]))[2:] == [(1, 1), (2, 1)]


@mark.parametrize("seed", range(5))
def test_straight_lines_between_rows_give_every_look(seed):
    rng = np.random.Generator(np.random.Philox(seed))
    n = 7
    looks = 200
    chance = rng.uniform(0.02, 0.9, (n, 1))
    moves = rng.uniform(size=(looks, n, 1)) < chance
    at_m = np.cumsum(moves * rng.normal(0, 10, (looks, n, 2)), axis=0)
    state = Trail.start(Looks(3.0, n, looks))
    result = [[] for _ in range(n)]
    for number, place_m in enumerate(at_m):
        state, rows = state.look(number, UeStates(place_m, np.zeros(n, bool), np.zeros(n, int)))
        for item in rows:
            for ue, seen_m in zip(item.ue, item.seen.at_m, strict=True):
                result[ue].append((item.look, *seen_m))
    every_look = np.arange(looks)
    for ue in range(n):
        number, *track_m = np.array(result[ue]).T
        assert (np.diff(number) > 0).all()
        between_m = [np.interp(every_look, number, axis_m) for axis_m in track_m]
        assert_allclose(between_m, at_m[:, ue].T, atol=1e-9)


@mark.parametrize(
    ("n_ue", "duration_s", "tick_s", "every_s", "ues"),
    cases(
        r"""
     40, 2419200, 900, 900, 40
     40, 86400, 1, 18, 40
     1000, 86400, 1, 433, 1000
     5000, 3600, 0.1, 18.1, 1000
     3, 100, 10, 10, 3
     4, 5, 10, 10, 4
     """
    ),
)
def test_the_interval_is_the_shortest_whose_rows_are_not_too_many(
    n_ue, duration_s, tick_s, every_s, ues
):
    looks = Looks.choose_interval(n_ue, duration_s, tick_s)
    assert looks.every_s == approx(every_s)
    assert looks.ues == ues
    assert ues <= MOST_UES
    assert looks.last == int(duration_s / every_s + 1e-9)
    assert (looks.last + 1) * ues <= MOST_ROWS
    shorter_s = every_s - tick_s
    if shorter_s >= tick_s / 2:
        assert (int(duration_s / shorter_s + 1e-9) + 1) * ues > MOST_ROWS
