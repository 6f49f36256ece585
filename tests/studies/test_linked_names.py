"""New names in each round, and places of known error: who stays is linked again, and who drives is
soon lost.

`pytest -m slow -s tests/studies/test_linked_names.py` prints the table "share linked right" of
docs/tracking.md.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from linked import Linked, days_as_ues, play
from tracked import Source, commuters, taxis

pytestmark = pytest.mark.slow

SIGMAS_M = (50.0, 150.0, 500.0)
UES = 50
DRAWS = 3


@cache
def taxi_days(data: Path, round_s: float) -> tuple[Source, np.ndarray]:
    """From 8 to 20 h, of the days with places in at least half of the rounds; San Francisco, 10 km
    x 10 km."""
    source = taxis(data, round_s, "2008-06-11")
    return source, days_as_ues(source, (8.0, 20.0), 0.5)


def of_taxis(data: Path, round_s: float, sigma_m: float, ues: int = UES) -> list[Linked]:
    source, x = taxi_days(data, round_s)
    some = [
        np.random.default_rng(seed).choice(x.shape[1], ues, replace=False) for seed in range(DRAWS)
    ]
    return [
        play(x[:, each], sigma_m, 1.0, seed, None, round_s, source.area)
        for seed, each in enumerate(some)
    ]


def of_commuters(round_s: float, sigma_m: float) -> list[Linked]:
    people = [commuters(UES, 3, round_s, seed=seed, roaming=0.2) for seed in range(DRAWS)]
    return [
        play(each.truth_m, sigma_m, 1.0, seed, None, round_s, each.area)
        for seed, each in enumerate(people)
    ]


def means(found: list[Linked]) -> tuple[float, float, float]:
    """Share linked right, and minutes until confusion, those of random links: over draws."""
    each = [(one.right, one.minutes, one.chance_minutes) for one in found]
    right, minutes, chance = np.mean(each, axis=0)
    return float(right), float(minutes), float(chance)


def told(name: str, found: list[list[Linked]]) -> list[tuple[float, float, float]]:
    """Prints a row of the table."""
    of = [means(each) for each in found]
    spread = max(float(np.ptp([one.right for one in each])) for each in found)
    cells = " | ".join(f"{right:.2f}, {minutes:.3g}" for right, minutes, _ in of)
    print(
        "|",
        name,
        "|",
        cells,
        f"| {of[0][2]:.3g} |",
        f"shares of draws differ by {spread:.2f} at most",
    )
    return of


@pytest.mark.parametrize("minutes", [5, 15, 60])
def test_a_taxi_is_lost_within_minutes(minutes: int, data_folder: Path) -> None:
    rows = told(
        f"taxis, {minutes} min",
        [of_taxis(data_folder, 60.0 * minutes, sigma_m) for sigma_m in SIGMAS_M],
    )
    for right, lasts, chance in rows:
        assert 1 / UES < right < 0.3
        assert 1.0 < lasts / chance < 1.5


@pytest.mark.parametrize("minutes", [5, 30, 60])
def test_who_stays_somewhere_is_linked_again(minutes: int) -> None:
    rows = told(f"commuters, {minutes} min", [of_commuters(60.0 * minutes, s) for s in SIGMAS_M])
    rights = [right for right, _, _ in rows]
    assert rights[0] > rights[1] > rights[2] > 0.2
    assert rows[0][1] > 2.5 * rows[0][2]


def test_among_few_others_names_hide_less(data_folder: Path) -> None:
    few, many = (
        told(f"{n} taxis, 5 min", [of_taxis(data_folder, 300.0, 150.0, n)])[0] for n in (10, UES)
    )
    assert few[0] > many[0] + 0.1
    assert few[1] / few[2] > many[1] / many[2]
