"""What attackers who link names reach, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import figure_text

_LONG_S = 3 * 3600.0  # told in hours


def linkers(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks that link names, in order."""
    return [name for one in summary if (name := keys.LINKED_RIGHT.name_in(one)) is not None]


def best_linking_text(summary: Mapping[str, Any]) -> str:
    """The attack that links most names right; empty where none links."""
    name = max(linkers(summary), key=lambda one: summary.get(keys.LINKED_RIGHT.of(one)) or 0.0, default="")
    return linking_text(summary, name) if name else ""


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
