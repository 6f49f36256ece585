"""Lists of places that attacks make of what is not one UE's: in the summary, in words, and over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Table
from scenarios.app.results.standing import mean
from scenarios.app.results.statistics import half_width
from scenarios.app.results.summary_values import by_name, value_of

(LISTED, COVERED), (ASIDE, _) = keys.LISTED.values()
UNIFORM, BUILDINGS = (pair[0] for pair in keys.LIST_CHANCE.values())
MOST_POINTS = 5.0
"""percentage points by which those who take part may be found more often, where a list is said to be at chance"""
MOST_UNIFORM = 50.0
"""percent of random places that are right, above which a list cannot show anything"""


def list_values(scores: Table, near_m: float) -> dict[str, Any]:
    """Values of the table `list_scores`; nothing where no list was made. near_m : the distance that it holds for."""
    values = {keys.LIST_NEAR.of(): near_m} if len(scores["source"]) else {}
    for source, name, residents, *score in zip(*scores.values(), strict=True):
        if name or residents == "participants":
            pair = keys.LISTED[residents] if name else keys.LIST_CHANCE[source]
            values |= {key.of(name): value for key, value in zip(pair, score, strict=True)}
    return values


def list_text(summary: Mapping[str, Any]) -> str:
    """How many places of the best list are right, beside residents who do not take part, and chance; empty for none."""
    made = dict(by_name(summary, LISTED))
    if not made:
        return ""
    best = max(made, key=made.__getitem__)
    words = {
        ASIDE.of(best): "of residents who do not take part",
        UNIFORM.of(): "at random",
        BUILDINGS.of(): "by floor area",
    }
    beside = [f"{word} {summary[key]:.0f} %" for key, word in words.items() if key in summary]
    return (
        f"{best}: {made[best]:.0f} % of places within {value_of(summary, keys.LIST_NEAR):g} m of a home or workplace; "
        f"{', '.join(beside)}; {value_of(summary, COVERED, best):.0f} % of homes and workplaces found"
    )


def list_verdict(runs: Sequence[Mapping[str, Any]]) -> str:
    """What lists of several seeds show, in words; empty for one seed, and without residents who do not take part.

    Paired by seed, precision of those who take part less that of those who do not, with Student's 95 % interval of
    the mean. Found: it lies above 0. At chance: not found, and it ends below five points. Otherwise inconclusive,
    as where more than half of uniformly random places are right. Of several attacks that with the largest precision.
    """
    names = [name for run in runs for name, _ in by_name(run, ASIDE)]
    if not names or len(runs) < 2:
        return ""
    best = max(names, key=lambda name: mean(runs, LISTED.of(name)))
    own, aside = LISTED.of(best), ASIDE.of(best)
    less = np.array([run[own] - run[aside] for run in runs if aside in run])
    low, high = (less.mean() + side * half_width(less) for side in (-1, 1))
    uniform = mean(runs, UNIFORM.of())
    verdict = "found" if low > 0 else "at chance" if high < MOST_POINTS else "inconclusive"
    return (
        f"of the places that {best} lists {mean(runs, own):.0f} % are right of those who take part, "
        f"{mean(runs, aside):.0f} % of those who do not ({low:+.0f} to {high:+.0f} points more; {uniform:.0f} % at "
        f"random): {'inconclusive' if uniform > MOST_UNIFORM else verdict}"
    )
