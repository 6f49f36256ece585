"""How well membership attacks tell members, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import audits
from scenarios.app.results.summary_values import number_text, text_of, value_of


def membership_text(summary: Mapping[str, Any]) -> str:
    """The membership attack to whose area under the curve training has added most, and how much."""
    names = audits(summary)
    areas = {n: v for n in names if (v := value_of(summary, keys.AUC_LAST, n)) is not None}
    if not areas:
        return "no audit had both members and non-members: hold records out (learning.data)" if names else ""

    def added(name: str) -> float:
        """Against the model before training, or against guessing."""
        more: float | None = value_of(summary, keys.AUC_DIFFERENCE, name)
        return areas[name] - 0.5 if more is None else more

    name = max(areas, key=added)
    low, high = (text_of(summary, key, name) for key in (keys.AUC_LOW, keys.AUC_HIGH))
    return f"{name}: AUC {number_text(areas[name])} [{low}, {high}]; {baseline_text(summary, name)}"


def baseline_text(summary: Mapping[str, Any], name: str) -> str:
    """What the last AUC of a membership attack is held against: that before training, or random guessing."""
    if value_of(summary, keys.AUC_DIFFERENCE, name) is None:
        return "baseline: random guessing 0.5"
    before, more, low, high = (
        text_of(summary, key, name)
        for key in (keys.AUC_BEFORE, keys.AUC_DIFFERENCE, keys.AUC_DIFFERENCE_LOW, keys.AUC_DIFFERENCE_HIGH)
    )
    return f"before training {before}, difference {more} [{low}, {high}]"


def audit_text(summary: Mapping[str, Any], name: str) -> str:
    """The last audit of a membership attack."""
    auc, low, high, rate = (
        text_of(summary, key, name) for key in (keys.AUC_LAST, keys.AUC_LOW, keys.AUC_HIGH, keys.TPR_LAST)
    )
    beside = baseline_text(summary, name)
    return (
        f"membership: {name} AUC {auc} [{low}, {high}], {beside}, true-positive rate {rate} % at 1 % false positives "
        "(last audit)"
    )
