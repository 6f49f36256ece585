"""What happens while a command works, as plain data: the lines of `--json`, and what the terminal shows.

Values that do not exist are left out or None; those that are not finite become None where a line of JSON is written.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scenarios.app.results.failures import Failed

if TYPE_CHECKING:
    from scenarios.app.run.checkpoints import Progress
    from scenarios.app.run.points import SweepPoint
    from scenarios.app.training.on_radio import Recorded
    from scenarios.app.training.search import Tried
    from scenarios.app.training.train import TrainingFailed, TrainingProgress

Event = dict[str, Any]
"""`event` says what it is; `title`, `done` and `of` are in all of them that tell progress."""

SCORES = ("rmse_db", "constant_rmse_db", "accuracy_percent", "rank_correlation")
"""what is told of the model"""


def of_run(title: str, now: Progress) -> Event:
    """A round that was played, or of a radio study a window of time."""
    event = {"event": now.unit, "title": title, "done": now.round, "of": now.rounds}
    event |= {"time_s": now.time_s, "clock": now.clock, "last": now.last}
    if now.unit == "window":
        return event | now.figures
    event |= ({} if now.merge is None else {"merge": now.merge}) | ({"stopped": True} if now.stopped else {})
    return event | (_of_round(now.figures) if now.figures else {"updates": 0, "decoded": 0})


def _of_round(figures: dict[str, Any]) -> Event:
    """What a round with data tells: the model, its updates, leakage by attack, and epsilon where noise was drawn."""
    scores = {name: figures["scores"][name] for name in SCORES if name in figures["scores"]}
    attacks = {
        name: {"centroid_error_m": error_m, "homes_named_percent": figures["homes_named_percent"][name]}
        for name, error_m in figures["leakage"].items()
    }
    spent = {} if figures["epsilon_max"] is None else {"epsilon": figures["epsilon_max"]}
    return {**scores, "updates": figures["sent"], "decoded": figures["decoded"], "attacks": attacks, **spent}


def of_sweep(title: str, done: int, of: int, point: SweepPoint, end: dict[str, Any] | Failed) -> Event:
    """A run of a sweep that ended: its summary, or why it has none."""
    run = {"label": point.label, "seed": point.seed, "folder": point.folder}
    if isinstance(end, Failed):
        return of_failed(title, done, of, end)
    return {"event": "run", "title": title, "done": done, "of": of, **run, "summary": end, "last": done == of}


def of_failed(title: str, done: int, of: int, failed: Failed) -> Event:
    """A run that failed."""
    return {"event": "failed", "title": title, "done": done, "of": of, **asdict(failed), "last": done == of}


def of_search(title: str, now: Tried | Recorded) -> Event:
    """A trial that is finished, or a world that was recorded for all of them."""
    from scenarios.app.training.on_radio import Recorded

    label = "worlds recorded" if isinstance(now, Recorded) else "trials"
    steps = {"done": now.done, "of": now.of, "last": now.done == now.of}
    return {"event": "played", "title": title, **steps, "label": label}


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
