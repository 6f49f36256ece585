"""Notices as lines and by key."""

from __future__ import annotations

from netsim.notice import list_doubts
from scenarios.app.results.read import Manifest


def lines(notices):
    """What they say, with their remedies."""
    return [notice.line for notice in notices]


def doubts(notices):
    """What those say by which figures may mislead."""
    return list_doubts(notices)


def by_key(notices):
    """Key -> the last line of it."""
    return {notice.key: notice.line for notice in notices}


def of_run(folder):
    """Those of the manifest of a run."""
    return Manifest.from_folder(folder).notices
