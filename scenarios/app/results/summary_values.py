"""The values of a summary by their keys, and as text in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results.measures import Measure
from scenarios.app.results.statistics import MEANINGFUL, is_below_millimetre


def value_of(summary: Mapping[str, Any], key: Measure, name: str = "") -> Any:
    """The value of a key; None where there is none."""
    return summary.get(key.of(name))


def by_name(summary: Mapping[str, Any], key: Measure) -> list[tuple[str, Any]]:
    """NAME and value of each key of a pattern."""
    return [(name, value) for one, value in summary.items() if (name := key.name_in(one)) is not None]


def epsilon_text(value: float) -> str:
    """An epsilon; beyond 20 it is no meaningful guarantee, beyond 1000 not worth printing."""
    if value > 1000:
        return "> 1000 (no guarantee)"
    return f"{value:.1f} (no meaningful guarantee)" if value > MEANINGFUL else f"{value:.3g}"


def length_text(value: Any) -> str:
    """Metres; 0.000 below a millimetre."""
    return "0.000" if value is not None and is_below_millimetre(value, "m") else number_text(value)


def number_text(value: Any) -> str:
    """A number with three significant digits, those in hundreds and more in full; `-` for none."""
    if value is None:
        return "-"
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def text_of(summary: Mapping[str, Any], key: Measure, name: str = "") -> str:
    """The value of a key as text."""
    return number_text(value_of(summary, key, name))
