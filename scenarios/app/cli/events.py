"""What happens while a command works, as plain data: the lines of `--json`, and what the terminal shows.

Values that do not exist are left out or None; those that are not finite become None where a line of JSON is written.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scenarios.app.results.failures import Failed

Event = dict[str, Any]
"""`event` says what it is; `title`, `done` and `of` are in all of them that tell progress."""


def of_failed(title: str, done: int, of: int, failed: Failed) -> Event:
    """A run that failed."""
    return {"event": "failed", "title": title, "done": done, "of": of, **asdict(failed), "last": done == of}


def of_claims(scenario: str, done: int, of: int, what: str) -> Event:
    """A run of a scenario that is played because of its claims is finished."""
    return {"event": "played", "title": scenario, "done": done, "of": of, "label": what, "last": done == of}
