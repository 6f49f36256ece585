"""Tracks: rows where something changed, on a grid of times; straight lines between them are the
motion."""

import numpy as np
import pytest

from netsim.ues import MOST_ROWS, MOST_UES, Looks, Seen, Trail

NAN = np.nan
OUT = (False, False)


def seen(x_m, inside=OUT, cell=(-1, -1)):
    """Two UEs on a line; NaN for an absent one."""
    x_m = np.array(x_m, dtype=float)
    return Seen(
        np.column_stack([x_m, np.where(np.isnan(x_m), NAN, 0.0)]), np.array(inside), np.array(cell)
    )


def rows_of(*moments):
    """The rows (look, UE) of looks at moments one after another."""
    state = Trail.start(Looks(1.0, 2, 99))
    found = []
    for number, moment in enumerate(moments):
        state, rows = state.look(number, moment)
        found += [(each.look, int(ue)) for each in rows for ue in each.ue]
    return found


def test_a_row_stands_where_something_changed_and_where_rest_ended():
    assert rows_of(seen([1, 2]), seen([1, 2]), seen([1, 2]), seen([1, 3])) == [
        (0, 0),
        (0, 1),
        (2, 1),
        (3, 1),
    ]
    assert rows_of(seen([1, 2]), seen([2, 2]), seen([3, 2]))[2:] == [(1, 0), (2, 0)]


def test_absence_is_a_row_and_what_an_absent_ue_would_be_like_is_none():
    gone = seen([1, NAN]), seen([NAN, NAN]), seen([NAN, NAN], (True, True), (3, 3)), seen([NAN, 5])
    assert rows_of(*gone) == [(0, 0), (1, 0), (3, 1)]
    assert rows_of(seen([1, 2]), seen([1, 2]), seen([1, NAN]))[2:] == [(1, 1), (2, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_straight_lines_between_rows_give_every_look(seed):
    rng = np.random.Generator(np.random.Philox(seed))
    n = 7
    looks = 200
    moves = rng.uniform(size=(looks, n, 1)) < rng.uniform(0.02, 0.9, size=(1, n, 1))
    at_m = np.cumsum(moves * rng.normal(0, 10, (looks, n, 2)), axis=0)
    state = Trail.start(Looks(3.0, n, looks))
    found = [[] for _ in range(n)]
    for number in range(looks):
        state, rows = state.look(number, Seen(at_m[number], np.zeros(n, bool), np.zeros(n, int)))
        for each in rows:
            for k, ue in enumerate(each.ue):
                found[ue].append((each.look, *each.seen.at_m[k]))
    for ue in range(n):
        number, x_m, y_m = np.array(found[ue]).T
        assert (np.diff(number) > 0).all()
        between = [np.interp(np.arange(looks), number, v) for v in (x_m, y_m)]
        np.testing.assert_allclose(np.column_stack(between), at_m[:, ue], atol=1e-9)


@pytest.mark.parametrize(
    ("n_ue", "duration_s", "tick_s", "every_s", "ues"),
    [
        (40, 28 * 86400, 900, 900, 40),
        (40, 86400, 1, 18, 40),
        (1000, 86400, 1, 433, 1000),
        (5000, 3600, 0.1, 18.1, 1000),
        (3, 100, 10, 10, 3),
        (4, 5, 10, 10, 4),
    ],
)
def test_the_interval_is_the_shortest_whose_rows_are_not_too_many(
    n_ue, duration_s, tick_s, every_s, ues
):
    looks = Looks.of(n_ue, duration_s, tick_s)
    assert (looks.every_s, looks.ues) == (pytest.approx(every_s), ues)
    assert ues <= MOST_UES
    assert looks.last == int(duration_s / every_s + 1e-9)
    assert (looks.last + 1) * ues <= MOST_ROWS
    shorter_s = every_s - tick_s
    assert shorter_s < tick_s / 2 or (int(duration_s / shorter_s + 1e-9) + 1) * ues > MOST_ROWS
