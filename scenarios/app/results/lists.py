"""Lists of places that attacks make of what is not one UE's: in the summary, in words, and over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import counted, figure_text, half_width
from scenarios.app.results.summary_values import by_name, number_text, value_of

MOST_POINTS = 5.0
"""percentage points by which those who take part may be found more often, where a list is said to be at chance"""
MOST_UNIFORM = 50.0
"""percent of random places that are right, above which a list cannot show anything"""


def list_values(scores: Table, attacks: Sequence[str], near_m: float) -> dict[str, Any]:
    """Values of the table `list_scores` at one distance; nothing where no list was made."""
    if not len(scores["source"]):
        return {}
    rows = {
        (str(source), str(name), str(residents)): (int(places), precision, coverage)
        for source, name, residents, radius_m, places, precision, coverage in zip(*scores.values(), strict=True)
        if radius_m == near_m
    }
    values: dict[str, Any] = {keys.LIST_NEAR.of(): near_m}
    unknown = 0, np.nan, np.nan
    for name in attacks:
        values[keys.LISTED_COUNT.of(name)] = rows["attack", name, "participants"][0]
        for residents, pair in keys.LISTED.items():
            found = rows.get(("attack", name, residents), unknown)[1:]
            values |= {key.of(name): value for key, value in zip(pair, found, strict=True)}
    for source, pair in keys.LIST_CHANCE.items():
        found = rows.get((source, "", "participants"), unknown)[1:]
        values |= {key.of(): value for key, value in zip(pair, found, strict=True)}
    return values


def listing(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks that made a list with a place, the best first."""
    made = [name for name, count in by_name(summary, keys.LISTED_COUNT) if count]
    return sorted(
        made, key=lambda name: [-(value_of(summary, key, name) or 0.0) for key in keys.LISTED["participants"]]
    )


def best_list_text(summary: Mapping[str, Any]) -> str:
    """The best list in words, with its attack; empty where there is none."""
    return f"{names[0]}: {list_text(summary, names[0])}" if (names := listing(summary)) else ""


def list_text(summary: Mapping[str, Any], name: str) -> str:
    """How many places of a list are right, beside residents who do not take part, and chance."""
    (precision, coverage), (aside, aside_coverage) = (
        [value_of(summary, key, name) for key in pair] for pair in keys.LISTED.values()
    )
    count, near_m = value_of(summary, keys.LISTED_COUNT, name), value_of(summary, keys.LIST_NEAR)
    text = (
        f"{round(precision * count / 100)} of {counted(count, 'place')} within {near_m:g} m of a home or workplace, "
        f"{number_text(round(coverage, 1))} % of which are found"
    )
    if aside is not None:
        text += (
            f"; of as many residents who do not take part: {round(aside * count / 100)}, "
            f"{number_text(round(aside_coverage, 1))} %"
        )
    words = {"uniform": "at random", "buildings": "by floor area"}
    shares = {source: value_of(summary, pair[0]) for source, pair in keys.LIST_CHANCE.items()}
    chance = [f"{share:.0f} % {words[source]}" for source, share in shares.items() if share is not None]
    return f"{text}; chance: of places {', '.join(chance)}"


def list_verdict(runs: Sequence[Mapping[str, Any]]) -> str:
    """What lists of several seeds show, in words; empty where no seed has one with residents who do not take part.

    Paired by seed, precision of those who take part less that of those who do not, with Student's 95 % interval of
    the mean. Found: it lies above 0. At chance: not found, and it ends below five points. Otherwise inconclusive, as
    with one seed, and where more than half of uniformly random places are right. Of several attacks that with the
    largest mean precision.
    """
    pairs = dict[str, list[tuple[float, float]]]()
    for run in runs:
        for name in listing(run):
            own, aside = (value_of(run, pair[0], name) for pair in keys.LISTED.values())
            if aside is not None:
                pairs.setdefault(name, []).append((own, aside))
    if not pairs:
        return ""
    name = max(pairs, key=lambda one: float(np.mean([own for own, _ in pairs[one]])))
    own, aside = np.array(pairs[name]).T
    less, half = float(np.mean(own - aside)), half_width(own - aside)
    uniform = float(np.mean([value_of(run, keys.LIST_CHANCE["uniform"][0]) for run in runs if listing(run)]))
    interval = "one seed" if np.isnan(half) else f"95 % interval {less - half:+.0f} to {less + half:+.0f}"
    if np.isnan(half) or uniform > MOST_UNIFORM:
        verdict = "inconclusive"
    else:
        verdict = "found" if less - half > 0 else "at chance" if less + half < MOST_POINTS else "inconclusive"
    return (
        f"{figure_text(round(float(own.mean())))} % of the places that {name} lists are right of those who take part, "
        f"{figure_text(round(float(aside.mean())))} % of those who do not ({less:+.0f} points, {interval}; at random "
        f"{uniform:.0f} %): {verdict}"
    )
