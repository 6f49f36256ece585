"""Which attacks a summary speaks of, and of what kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isnan
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.summary_values import by_name, value_of


def attacks(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks on location in a summary, in order."""
    return list(_in(tuple(summary)))


@lru_cache(maxsize=1024)
def _in(names: tuple[str, ...]) -> tuple[str, ...]:
    """The attacks among the keys of a summary; the runs of a sweep have the same keys, and are asked often."""
    return tuple(name for name, _ in by_name(dict.fromkeys(names), keys.ERROR_MEDIAN))


def named_share(summary: Mapping[str, Any], name: str) -> float | None:
    """Mean of the shares in percent of homes, of workplaces, and of UEs without a home of their places of most time
    that an attack names at the end; None where there is no place to name.
    """
    shares = (keys.HOME_NAMED_PERCENT, keys.WORK_NAMED_PERCENT, keys.DENSEST_NAMED_PERCENT)
    known = [value for key in shares if (value := value_of(summary, key, name)) is not None and not isnan(value)]
    return sum(known) / len(known) if known else None


def estimates_centroids(summary: Mapping[str, Any], name: str) -> bool:
    """Whether an attack estimated the centroid of a batch, right or wrong."""
    return any(value_of(summary, key, name) is not None for key in (keys.ERROR_MEDIAN, keys.DIVERGED))


def made_estimates(summary: Mapping[str, Any], name: str) -> bool:
    """Whether an attack estimated centroids or places, besides its answers."""
    return estimates_centroids(summary, name) or value_of(summary, keys.PLACES, name) is not None


def audits(summary: Mapping[str, Any]) -> list[str]:
    """Names of the membership attacks in a summary, in order."""
    return [name for name, _ in by_name(summary, keys.AUC_LAST)]
