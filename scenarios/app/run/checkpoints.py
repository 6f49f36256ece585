"""What all kinds of run share: progress, the checkpoint of an interrupted one, the table of UEs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from netsim import __version__
from netsim.checkpoint import load_tree
from netsim.errors import BadInput
from netsim.record import Recorder
from netsim.safe import what_is
from netsim.world import World
from scenarios.app.results.folder import CHECKPOINT
from scenarios.app.study.yaml_document import one_line

Restored = TypeVar("Restored")
Played = TypeVar("Played")
UNFIT = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""what values of other types, shapes and sizes make of those who read them"""


@dataclass(frozen=True)
class Progress:
    """What a round looked like, for whoever watches; of a radio study, what was received in a window of time."""

    round: int
    rounds: int
    time_s: float
    clock: str
    figures: dict[str, Any]
    last: bool
    unit: Literal["round", "window"] = "round"
    merge: int | None = None
    """number of the merge, of a server without rounds: then `round` and `rounds` count windows"""
    stopped: bool = False
    """whether the round was not played, since it would have exceeded the privacy budget"""


Watch = Callable[[Progress], None]


def with_scores(last: Progress, summary: Mapping[str, Any]) -> Progress:
    """The last round with the summary's scores of the model, on all held-out samples instead of some of them."""
    scores = last.figures.get("scores", {})
    final = {name: value for name in scores if (value := summary.get(f"utility.{name}")) is not None}
    return replace(last, figures=last.figures | {"scores": scores | final}) if final else last


def unfinished(recorder: Recorder, text: str, replace: bool, restore: Callable[[Any], Restored]) -> Restored | None:
    """What `restore` makes of the checkpoint of an interrupted run of this study; None where there is none.

    restore : turns the tree of a checkpoint into values; it changes nothing. Raises BadInput for a checkpoint of
    another study or program version, and for one that does not fit; `replace` forgets it.
    """
    path = recorder.folder / CHECKPOINT
    if not what_is(path):
        return None
    try:
        return _restored(path, recorder, text, restore)
    except BadInput:
        if replace:
            return None
        raise


def _restored(path: Path, recorder: Recorder, text: str, restore: Callable[[Any], Restored]) -> Restored:
    try:
        tree = load_tree(path)
        if not isinstance(tree, dict) or tree.get("study") != text:
            raise BadInput(f"{path}: is of another study or seed; delete it, or add --replace, to start again")
        if (program := tree.get("program")) != __version__:
            raise BadInput(
                f"{path}: is of netsim {one_line(str(program))[:20]}, this is {__version__}; go on with that version, "
                "or add --replace to start again"
            )
        recorder.resume(tree.get("tables"))
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(f"{error}; it cannot go on: add --replace to start again") from None
    try:
        return restore(tree)
    except UNFIT as error:
        said = one_line(" ".join(str(error).split()))[:120]
        raise BadInput(
            f"{path}: the checkpoint does not fit this study ({said}); delete it, or add --replace, to start again"
        ) from None


def within(name: str, number: float, most: float) -> float:
    """A counter or time of a checkpoint. Raises ValueError where it is not from 0 to `most`."""
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {number:g}, and this study holds 0 to {most:g}")
    return number


class Unplayable(BadInput):
    """A checkpoint that fits its study, and from which the run cannot go on."""


def played_anew(play: Callable[[], Played], folder: Path, replace: bool) -> Played:
    """What `play` returns; with `replace` it plays once more without a checkpoint from which it cannot go on."""
    try:
        return play()
    except Unplayable:
        if not replace:
            raise
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return play()


def unplayable(recorder: Recorder, tables: Any, error: Exception) -> Unplayable:
    """The complaint about a checkpoint from which a run went on, and failed; the tables are cut back to it.

    tables : the marks of the checkpoint; None where the run has written another one since.
    """
    if tables is not None:
        recorder.resume(tables)
        cut_tables(recorder)
    said = one_line(" ".join(str(error).split()))[:120]
    return Unplayable(
        f"{recorder.folder / CHECKPOINT}: the run cannot go on from it ({type(error).__name__}: {said}); delete it, or "
        "add --replace, to start again"
    )


def open_tables(recorder: Recorder, world: World) -> None:
    """Create all tables, and write the UEs."""
    recorder.open()
    home, work, densest = world.places.home_m, world.places.work_m, world.places.densest()
    nights = world.places.nights
    recorder.write(
        "ues",
        {
            "ue": np.arange(len(world.ues)), "name": world.ues,
            "home_x_m": home[:, 0], "home_y_m": home[:, 1],
            "work_x_m": work[:, 0], "work_y_m": work[:, 1],
            "densest_x_m": densest[:, 0], "densest_y_m": densest[:, 1],
            "nights": np.full(len(home), np.nan) if nights is None else nights.astype(float),
        },
    )  # fmt: skip


def cut_tables(recorder: Recorder) -> None:
    """Cut all tables back to the checkpoint."""
    try:
        recorder.cut()
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}, and the run goes on") from None
