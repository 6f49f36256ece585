"""What attackers who link names reach, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.measures import Measure
from scenarios.app.results.statistics import figure_text

_LONG_S = 3 * 3600.0  # told in hours


def linkers(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks that link names, in order."""
    return [name for one in summary if (name := keys.LINKED_RIGHT.name_in(one)) is not None]


def best_linking_text(summary: Mapping[str, Any]) -> str:
    """The attack that links most names right, and the one that names most people; empty where none links."""
    texts = [
        _best(summary, linkers(summary), keys.LINKED_RIGHT, linking_text),
        _best(summary, identifiers(summary), keys.IDENTIFIED, identity_text),
    ]
    return "; ".join(text for text in texts if text)


def _best(
    summary: Mapping[str, Any], names: list[str], key: Measure, text: Callable[[Mapping[str, Any], str], str]
) -> str:
    """The text of the attack of which the key is largest, and of how many; empty where there is none."""
    name = max(names, key=lambda one: summary.get(key.of(one)) or 0.0, default="")
    several = f" (best of {len(names)})" if len(names) > 1 else ""
    return f"{text(summary, name)}{several}" if name else ""


def identifiers(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks that know where people live, in order."""
    return [name for one in summary if (name := keys.IDENTIFIED.name_in(one)) is not None]


def identity_text(summary: Mapping[str, Any], name: str) -> str:
    """Share of names given to the right person, what the attack states, and the anonymity set, beside chance."""
    right, at_end, chance, stated, said_right, anonymous = (
        summary.get(key.of(name))
        for key in (
            keys.IDENTIFIED, keys.IDENTIFIED_AT_END, keys.IDENTIFIED_BY_CHANCE, keys.IDENTITY_STATED,
            keys.IDENTITY_STATED_RIGHT, keys.IDENTITY_SET,
        )
    )  # fmt: skip
    if right is None:
        return f"{name}: no name of anybody whose home is known"
    parts = [f"{name}: {figure_text(right)} % of names given to the right person{_chance(chance, ' %')}"]
    if at_end is not None:
        parts.append(f"{figure_text(at_end)} % in the last round")
    if stated is not None and said_right is not None:
        parts.append(f"persons stated with {figure_text(stated)} % and right in {figure_text(said_right)} %")
    if anonymous is not None:
        parts.append(f"anonymity set {figure_text(anonymous)}")
    return ", ".join(parts)


def linking_text(summary: Mapping[str, Any], name: str) -> str:
    """Share of right links, anonymity set and time to confusion, beside chance."""
    right, chance, anonymous, confused_s, by_chance_s = (
        summary.get(key.of(name))
        for key in (
            keys.LINKED_RIGHT, keys.LINKED_BY_CHANCE, keys.ANONYMITY_SET, keys.CONFUSION, keys.CONFUSION_BY_CHANCE,
        )
    )  # fmt: skip
    if right is None:
        return f"{name}: no name of a UE that was seen before"
    parts = [f"{name}: {figure_text(right)} % of new names linked right{_chance(chance, ' %')}"]
    if anonymous is not None:
        parts.append(f"anonymity set {figure_text(anonymous)}")
    if confused_s is not None:
        unit, second = ("h", 3600.0) if confused_s >= _LONG_S else ("min", 60.0)
        by_chance = None if by_chance_s is None else by_chance_s / second
        parts.append(f"time to confusion {figure_text(confused_s / second)} {unit}{_chance(by_chance, f' {unit}')}")
    return ", ".join(parts)


def _chance(value: float | None, unit: str) -> str:
    return "" if value is None else f" (chance {figure_text(value)}{unit})"
