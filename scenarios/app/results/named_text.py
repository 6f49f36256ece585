"""Whose home and work attacks name, in words, beside chance."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from netsim.traces.home_work import FEWEST_NIGHTS
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks
from scenarios.app.results.measures import Measure
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_values import number_text, value_of


def best_named_text(summary: Mapping[str, Any]) -> str:
    """The attack that names most homes, beside chance; of equal ones that which names most workplaces. Then what others
    state with a probability, since whether that comes true is asked of each of them.
    """
    name = most_named(summary)
    others = [f"; {n}: {said}" for n in attacks(summary) if n != name and (said := _stated(summary, n))]
    known, none = f"{name}: {named_text(summary, name)}{''.join(others)}" if name else "", without_home_text(summary)
    return f"{known}; {none}" if known and none else known or none


def without_home_text(summary: Mapping[str, Any]) -> str:
    """How many replayed UEs have no home, and why; empty where all have one, or are not of a trace."""
    none, few = (value_of(summary, key) for key in (keys.HOMES_NONE, keys.HOMES_FEW_NIGHTS))
    if not none:
        return ""
    why = [
        (few, f"with a fix between 0 and 6 o'clock on fewer than {FEWEST_NIGHTS} nights"),
        (none - few, "without one place for most nights"),
    ]
    told = ", ".join(f"{counted(n, 'UE')} {text}" for n, text in why if n)
    return f"no home: {told}"


def best_densest_text(summary: Mapping[str, Any]) -> str:
    """The attack that names the place of most time of most UEs without a home, beside chance; empty for none."""
    names = [n for n in attacks(summary) if value_of(summary, keys.DENSEST_COUNT, n)]
    shares = (keys.DENSEST_NAMED_PERCENT, keys.DENSEST_NAMED_LOW)
    best = max(names, key=lambda n: [value_of(summary, key, n) or 0.0 for key in shares], default="")
    return f"{best}: {densest_text(summary, best)}" if best else ""


def all_named_text(summary: Mapping[str, Any], name: str) -> str:
    """What an attack names of UEs with a home or a workplace, and of those without a home; empty for none."""
    said = [
        (keys.HOMES_COUNT, named_text),
        (keys.DENSEST_COUNT, densest_text),
    ]
    return "; ".join(text(summary, name) for count, text in said if value_of(summary, count, name) is not None)


def densest_text(summary: Mapping[str, Any], name: str) -> str:
    """Of how many UEs without a home an attack names the place of most time, since when, and what chance would."""
    share, n = (value_of(summary, key, name) for key in (keys.DENSEST_NAMED_PERCENT, keys.DENSEST_COUNT))
    k = round(share * n / 100)
    of = ("" if k else "not ") if n == 1 else f"of {k} of {counted(n, 'UE')} without a home "
    since = _since(summary, name, n, keys.DENSEST_NAMED_ROUND, keys.DENSEST_NAMED_DAY)
    by = _chance_text(summary, name, (keys.DENSEST_UNIFORM, keys.DENSEST_OTHERS, keys.DENSEST_SHUFFLED))
    chance = f"; chance: {by}" if by else ""
    return f"place of most time {of}named within {value_of(summary, keys.NEAR):g} m{since}{chance}"


def most_named(summary: Mapping[str, Any]) -> str:
    """The attack that names home and work of most UEs at the end of the run; empty where no UE has any."""
    shares = (keys.BOTH_NAMED_PERCENT, keys.HOME_NAMED_PERCENT, keys.WORK_NAMED_PERCENT, keys.FIRST_NAMED_PERCENT)
    named = [n for n in attacks(summary) if value_of(summary, keys.HOMES_COUNT, n) is not None]
    return max(named, key=lambda n: [value_of(summary, key, n) or 0.0 for key in shares], default="")


def named_text(summary: Mapping[str, Any], name: str) -> str:
    """Of how many UEs an attack names home and work, since when, and of how many chance would."""
    of = [
        (place, value_of(summary, share, name), value_of(summary, count, name))
        for place, share, count in (
            ("home", keys.HOME_NAMED_PERCENT, keys.HOMES_COUNT),
            ("work", keys.WORK_NAMED_PERCENT, keys.WORKPLACES_COUNT),
            ("both", keys.BOTH_NAMED_PERCENT, keys.COMMUTERS_COUNT),
        )
    ]
    found = [(place, round(share * n / 100), n) for place, share, n in of if share is not None and n]
    if not found:
        return "no attacked UE has a home or a workplace"
    place, k, n = found[0]
    near = f"named within {value_of(summary, keys.NEAR):g} m"
    if all(m == 1 for _, _, m in found):
        first = f"{place} {'' if k else 'not '}{near}"
        rest = [f"{what} {'' if j else 'not '}named" for what, j, _ in found[1:] if what != "both"]
    else:
        first = f"{place} of {k} of {counted(n, 'UE')} {near}"
        rest = [f"{what} of {j}" + (f" of {m}" if m != n else "") for what, j, m in found[1:]]
    since = _since(summary, name, n, keys.HOME_NAMED_ROUND, keys.HOME_NAMED_DAY) if place == "home" else ""
    chance, stated = _chance(summary, name, 0 if place == "home" else 1), _stated(summary, name)
    said = ", ".join([first + since, *rest]) + compared_text(summary, name)
    return f"{said}{f'; {stated}' if stated else ''}{chance}"


def compared_text(summary: Mapping[str, Any], name: str) -> str:
    """In how many rounds an attack was compared with the truth, in brackets; empty where it was in all."""
    compared, played = value_of(summary, keys.COMPARED_ROUNDS, name), value_of(summary, keys.ROUNDS_PLAYED)
    if not compared or compared == played:
        return ""
    return f" (compared in {compared} of {counted(played, 'round')})"


def _stated(summary: Mapping[str, Any], name: str) -> str:
    """What an attack that states probabilities says of itself, and what is true of that; empty for any other."""
    count, mean, right = (
        value_of(summary, key, name) for key in (keys.STATED_COUNT, keys.STATED_MEAN, keys.STATED_RIGHT)
    )
    if value_of(summary, keys.HOME_SPOKEN, name) == 0 and not count:
        return "says nothing of any home at the end"
    if not count or mean is None or right is None:
        return ""
    return f"{counted(count, 'place')} stated with {100 * mean:.0f} % on average, {right:.0f} % of them right"


def _since(summary: Mapping[str, Any], name: str, n: int, round_: Measure, day_: Measure) -> str:
    """Since when a place of n UEs is named, in brackets; empty where it is named of fewer than half of the UEs."""
    number, day = (value_of(summary, key, name) for key in (round_, day_))
    if number is None:
        return ""
    at = f"day {ceil(day)}" if day and (day > 1 or number <= 1) else f"round {ceil(number)}"
    return f" (since {at})" if n == 1 else f" (half of the UEs since {at})"


def _chance(summary: Mapping[str, Any], name: str, k: int) -> str:
    """Shares that places named by chance reach, for home (k = 0) or work (1)."""
    known = _chance_text(summary, name, (keys.UNIFORM[k], keys.OTHERS[k], keys.SHUFFLED[k]))
    return f"; chance, {('home', 'work')[k]}: {known}" if known else ""


def _chance_text(summary: Mapping[str, Any], name: str, of: tuple[Measure, Measure, Measure]) -> str:
    """Shares that random places, the density of others and another UE's places reach."""
    words = ("at random", "by others' density", "with another UE's places")
    shares = [value_of(summary, key, name if key.named else "") for key in of]
    known = zip(shares, words, strict=True)
    return ", ".join(f"{number_text(round(share, 1))} % {how}" for share, how in known if share is not None)
