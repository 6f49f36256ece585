"""New names in each round, and places of known error: who stays is linked again, and who drives is
soon lost.

`pytest -m slow -s tests/studies/test_linked_names.py` prints the table "share linked right" of
docs/tracking.md.
"""

from functools import cache

import numpy as np
from linked import days_as_ues, play
from pytest import mark
from tracked import commuters, taxis

pytestmark = mark.slow

SIGMAS_M = (50.0, 150.0, 500.0)
UES = 50
DRAWS = 3


@cache
def taxi_days(data, round_s):
    """From 8 to 20 h, of the days with places in at least half of the rounds; San Francisco, 10 km
    x 10 km."""
    source = taxis(data, round_s, "2008-06-11")
    return source, days_as_ues(source, (8.0, 20.0), 0.5)


def link_taxis(data, round_s, sigma_m, ues=UES):
    source, x = taxi_days(data, round_s)
    linked = []
    for seed in range(DRAWS):
        taxis_of_draw = np.random.default_rng(seed).choice(x.shape[1], ues, replace=False)
        x_of_draw = x[:, taxis_of_draw]
        linked.append(play(x_of_draw, sigma_m, 1.0, seed, None, round_s, source.area))
    return linked


def link_commuters(round_s, sigma_m):
    people = [commuters(UES, 3, round_s, seed=seed, roaming=0.2) for seed in range(DRAWS)]
    return [
        play(source.truth_m, sigma_m, 1.0, seed, None, round_s, source.area)
        for seed, source in enumerate(people)
    ]


def means(draws):
    """Share linked right, and minutes until confusion, those of random links: over draws."""
    times_s = ("time_to_confusion_s", "chance_time_to_confusion_s")
    figures = [[linked.right, *(linked.row[key] / 60 for key in times_s)] for linked in draws]
    return np.mean(figures, axis=0).tolist()


def tell(name, linked):
    """Prints a row of the table."""
    rows = [means(draws) for draws in linked]
    spread = max(float(np.ptp([draw.right for draw in draws])) for draws in linked)
    cells = " | ".join(f"{right:.2f}, {minutes:.3g}" for right, minutes, _ in rows)
    row = f"| {name} | {cells} | {rows[0][2]:.3g} |"
    print(row, f"shares of draws differ by {spread:.2f} at most")
    return rows


@mark.parametrize("minutes", [5, 15, 60])
def test_a_taxi_is_lost_within_minutes(minutes, data_folder):
    rows = tell(
        f"taxis, {minutes} min",
        [link_taxis(data_folder, 60.0 * minutes, sigma_m) for sigma_m in SIGMAS_M],
    )
    for right, lasts, chance in rows:
        assert 1 / UES < right < 0.3
        assert 1.0 < lasts / chance < 1.5


@mark.parametrize("minutes", [5, 30, 60])
def test_who_stays_somewhere_is_linked_again(minutes):
    rows = tell(f"commuters, {minutes} min", [link_commuters(60.0 * minutes, s) for s in SIGMAS_M])
    rights = [right for right, _, _ in rows]
    assert rights[0] > rights[1] > rights[2] > 0.2
    assert rows[0][1] > 2.5 * rows[0][2]


def test_among_few_others_names_hide_less(data_folder):
    few, many = (
        tell(f"{n} taxis, 5 min", [link_taxis(data_folder, 300.0, 150.0, n)])[0] for n in (10, UES)
    )
    assert few[0] > many[0] + 0.1
    assert few[1] / few[2] > many[1] / many[2]
