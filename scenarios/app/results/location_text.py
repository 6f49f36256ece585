"""How near attacks come to where UEs were, in words, beside baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks, estimates_centroids, made_estimates
from scenarios.app.results.measures import Measure
from scenarios.app.results.named_text import all_named_text, compared_text
from scenarios.app.results.statistics import is_below_millimetre
from scenarios.app.results.summary_values import length_text, number_text, text_of, value_of

BETTER, WORSE, NO_BETTER = "better than", "worse than", "no better than"


def location_text(summary: Mapping[str, Any]) -> str:
    """The attack with the smallest centroid error, beside its baseline."""
    errors_m = {n: v for n in attacks(summary) if (v := value_of(summary, keys.ERROR_MEDIAN, n)) is not None}
    if not errors_m:
        named = any(
            value_of(summary, key, n) is not None
            for key in (keys.FIRST_NAMED_PERCENT, keys.DENSEST_COUNT)
            for n in attacks(summary)
        )
        if named or not attacks(summary):
            return ""
        if any(value_of(summary, keys.FAILED, n) not in (None, 100.0) for n in attacks(summary)):
            return (
                "estimates are compared with nothing: no UE has a known place, or none measured in the rounds of "
                "learning.leakage.every_rounds"
            )
        return "no attack made an estimate"
    name, centre = min(errors_m, key=lambda n: errors_m[n]), value_of(summary, keys.AREA_CENTRE_ERROR)
    several = sum(estimates_centroids(summary, n) for n in attacks(summary))
    best = f" (best of {several})" if several > 1 else ""
    baseline = "" if centre is None else f"; baseline: always guess the map centre {length_text(centre)} m"
    return f"{name}{best}: centroid error {length_text(errors_m[name])} m{compared_text(summary, name)}{baseline}"


def positions_text(summary: Mapping[str, Any]) -> str:
    """Whether the estimates of the attack with the smallest SW1 are better than random guesses."""
    low, high = value_of(summary, keys.GUESS_SW1_Q05), value_of(summary, keys.GUESS_SW1_Q95)
    distances_m = {n: v for n in attacks(summary) if (v := value_of(summary, keys.SW1, n)) is not None}
    if not distances_m or low is None or high is None:
        return ""
    name = min(distances_m, key=lambda n: distances_m[n])
    value = distances_m[name]
    return (
        f"{name}: sliced Wasserstein distance {length_text(value)} m, {verdict(value, low, high)} random guesses "
        f"({length_text(low)} to {length_text(high)} m)"
    )


def verdict(value: float, low: float, high: float) -> str:
    """A distance against the 5 % and 95 % quantiles of random guesses."""
    return BETTER if value < low else WORSE if value > high else NO_BETTER


def attack_text(summary: Mapping[str, Any], name: str) -> str:
    """All that a summary says of one attack."""

    def get(key: Measure) -> str:
        return length_text(value_of(summary, key, name))

    root = value_of(summary, keys.SQRT_SW1, name)
    root_text = "0.000" if root is not None and is_below_millimetre(root**2, "m") else number_text(root)
    named = all_named_text(summary, name)
    if not made_estimates(summary, name) and named:
        return f"{name}: {named}"
    text = (
        f"{name}: centroid error {get(keys.ERROR_MEDIAN)} m [{get(keys.ERROR_Q25)}, {get(keys.ERROR_Q75)}], "
        f"{text_of(summary, keys.DIVERGED, name)} % diverged{compared_text(summary, name)}; SW1 {get(keys.SW1)} m "
        f"(square root {root_text})"
    )
    if value_of(summary, keys.HOME_NEAR_PERCENT, name) is not None:
        text += f"; home: {home_text(summary, name)}"
    if named:
        text += f"; named at the end: {named}"
    places, constant = value_of(summary, keys.PLACES, name), value_of(summary, keys.ANYWHERE_ERROR)
    if places is not None:
        text += (
            f"; {'1 place' if places == 1 else f'{number_text(places)} places'} per UE, weighted mean distance "
            f"{get(keys.PLACE_ERROR)} m (baseline: constant answer {length_text(constant)} m)"
        )
    if value_of(summary, keys.STEP_ERROR, name) is not None:
        text += (
            f"; displacement per round along one axis: error {get(keys.STEP_ERROR)} m (baseline: no motion "
            f"{get(keys.STEP_NO_MOTION)} m), {text_of(summary, keys.STEP_EXACT, name)} % within 1 m; whole walk: error "
            f"{get(keys.WALK_ERROR)} m (baseline: no motion {get(keys.WALK_NO_MOTION)} m)"
        )
    return text


def home_text(summary: Mapping[str, Any], name: str) -> str:
    """How near home an attack comes: the nearest estimate, its baseline, and the share of UEs that were found."""
    nearest, least, guess = (
        length_text(value_of(summary, key, name)) for key in (keys.HOME_MEDIAN, keys.HOME_MIN, keys.GUESS_HOME)
    )
    single = value_of(summary, keys.UES_COUNT) == 1
    median = "" if single else f" (median UE), {least} m (most exposed UE)"
    when = value_of(summary, keys.HOME_NEAR_ROUND, name)
    share = value_of(summary, keys.HOME_NEAR_PERCENT, name)
    first = "" if when is None else f" (from round {number_text(when)}{'' if single else ' on, median'})"
    return (
        f"nearest estimate {nearest} m{median}; random guesses {guess} m; "
        f"within {value_of(summary, keys.NEAR):g} m for {share:.0f} % of UEs{first}"
    )


def baseline_lines(summary: Mapping[str, Any]) -> list[str]:
    """The baselines; nothing without an attack, or where samples have no place."""
    if keys.TRUE_CENTROIDS_SW1.of() not in summary:
        return []
    centre, centroids, guess, low, root = (
        length_text(value_of(summary, key))
        for key in (
            keys.AREA_CENTRE_ERROR,
            keys.TRUE_CENTROIDS_SW1,
            keys.GUESS_SW1,
            keys.GUESS_SW1_Q05,
            keys.GUESS_SQRT_SW1,
        )
    )
    return [
        f"baselines: always guess the map centre, centroid error {centre} m; random guesses, SW1 {guess} m (5 % "
        f"quantile {low} m; square root {root}); true centroids, SW1 {centroids} m"
    ]


def user_distance_lines(summary: Mapping[str, Any]) -> list[str]:
    """How alike UEs are; nothing for one UE."""
    if value_of(summary, keys.PAIR_SQRT_SW1_MEDIAN) is None:
        return []
    median, low, high = (
        text_of(summary, key) for key in (keys.PAIR_SQRT_SW1_MEDIAN, keys.PAIR_SQRT_SW1_MIN, keys.PAIR_SQRT_SW1_MAX)
    )
    return [f"UEs: square root of SW1 between two of them {median} (median), {low} to {high} (see user_distances.csv)"]
