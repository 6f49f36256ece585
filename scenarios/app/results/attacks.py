"""Which attacks a summary speaks of, and of what kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.summary_values import by_name, value_of


def attacks(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks on location in a summary, in order."""
    return [name for name, _ in by_name(summary, keys.ERROR_MEDIAN)]


def estimates_centroids(summary: Mapping[str, Any], name: str) -> bool:
    """Whether an attack estimated the centroid of a batch, right or wrong."""
    return any(value_of(summary, key, name) is not None for key in (keys.ERROR_MEDIAN, keys.DIVERGED))


def made_estimates(summary: Mapping[str, Any], name: str) -> bool:
    """Whether an attack estimated centroids or places, besides its answers."""
    return estimates_centroids(summary, name) or value_of(summary, keys.PLACES, name) is not None


def audits(summary: Mapping[str, Any]) -> list[str]:
    """Names of the membership attacks in a summary, in order."""
    return [name for name, _ in by_name(summary, keys.AUC_LAST)]
