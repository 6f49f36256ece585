"""What happens while a command works, as plain data: the lines of `--json`, and what the terminal shows.

Values that do not exist are left out or None; those that are not finite become None where a line of JSON is written.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scenarios.app.results.failures import Failed

if TYPE_CHECKING:
    from scenarios.app.training.on_radio import Recorded
    from scenarios.app.training.train import TrainingFailed, TrainingProgress

Event = dict[str, Any]
"""`event` says what it is; `title`, `done` and `of` are in all of them that tell progress."""


def of_failed(title: str, done: int, of: int, failed: Failed) -> Event:
    """A run that failed."""
    return {"event": "failed", "title": title, "done": done, "of": of, **asdict(failed), "last": done == of}


def of_training(title: str, now: TrainingProgress | Recorded | TrainingFailed) -> Event:
    """An evaluation of the policy that is trained, a world that was recorded or judged for it, or that it failed."""
    from scenarios.app.training.on_radio import Recorded
    from scenarios.app.training.train import TrainingFailed

    if isinstance(now, TrainingFailed):
        return of_failed(title, now.done, now.of, now.failed)

    if isinstance(now, Recorded):
        return {
            "event": "world", "title": title, "done": now.done, "of": now.of, "label": now.what,
            "last": now.done == now.of,
        }  # fmt: skip
    steps = {"done": now.point.step, "of": now.steps, "last": now.last}
    return {"event": "step", "title": f"{title}, seed {now.seed}", **steps, "seed": now.seed, "cost": now.point.score}


def of_seed(title: str, done: int, of: int, seed: int, failed: Failed | None) -> Event:
    """A training of several that ended."""
    if failed is not None:
        return of_failed(title, done, of, failed)
    return {"event": "played", "title": title, "done": done, "of": of, "label": f"seed {seed}", "last": done == of}


def of_claims(scenario: str, done: int, of: int, what: str) -> Event:
    """A run of a scenario that is played because of its claims is finished."""
    return {"event": "played", "title": scenario, "done": done, "of": of, "label": what, "last": done == of}
