"""Notices as lines and by key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from netsim.notice import Notice, doubts_in
from scenarios.app.results.read import Manifest


def lines(notices: Iterable[Notice]) -> list[str]:
    """What they say, with their remedies."""
    return [notice.line for notice in notices]


def doubts(notices: Iterable[Notice]) -> list[str]:
    """What those say by which figures may mislead."""
    return doubts_in(notices)


def by_key(notices: Iterable[Notice]) -> dict[str, str]:
    """Key -> the last line of it."""
    return {notice.key: notice.line for notice in notices}


def of_run(folder: Path) -> list[Notice]:
    """Those of the manifest of a run."""
    return Manifest.of(folder).notices
