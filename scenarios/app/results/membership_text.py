"""How well membership attacks tell members, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import audits
from scenarios.app.results.summary_values import number_text, text_of, value_of


def membership_text(summary: Mapping[str, Any]) -> str:
    """The membership attack with the largest area under its curve."""
    areas = {n: v for n in audits(summary) if (v := value_of(summary, keys.AUC_LAST, n)) is not None}
    if not areas:
        return ""
    name = max(areas, key=lambda n: areas[n])
    low, high = (text_of(summary, key, name) for key in (keys.AUC_LOW, keys.AUC_HIGH))
    return f"{name}: AUC {number_text(areas[name])} [{low}, {high}]; baseline: random guessing 0.5"


def audit_text(summary: Mapping[str, Any], name: str) -> str:
    """The last audit of a membership attack."""
    auc, low, high, rate = (
        text_of(summary, key, name) for key in (keys.AUC_LAST, keys.AUC_LOW, keys.AUC_HIGH, keys.TPR_LAST)
    )
    return (
        f"membership: {name} AUC {auc} [{low}, {high}], true-positive rate {rate} % at 1 % false positives (last audit)"
    )
