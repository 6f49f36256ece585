"""What all kinds of run share: progress, the checkpoint of an interrupted one, the table of UEs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from netsim import __version__
from netsim.checkpoint import load_tree
from netsim.errors import BadInput
from netsim.record import Recorder
from netsim.safe import what_is
from netsim.world import World
from scenarios.app.results.folder import CHECKPOINT


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


Watch = Callable[[Progress], None]


def unfinished(recorder: Recorder, text: str, replace: bool) -> Any:
    """The checkpoint of an interrupted run of the same study, or None.

    Raises BadInput for one that cannot be used, which `replace` forgets.
    """
    path = recorder.folder / CHECKPOINT
    if not what_is(path):
        return None
    try:
        tree = load_tree(path)
        if not isinstance(tree, dict) or tree.get("study") != text or tree.get("program") != __version__:
            return None
        recorder.resume(tree.get("tables"))
    except ValueError as error:
        if replace:
            return None
        raise BadInput(f"{error}; it cannot go on: add --replace to start again") from None
    return tree


def open_tables(recorder: Recorder, world: World) -> None:
    """Create all tables, and write the UEs."""
    recorder.open()
    home, work = world.places.home_m, world.places.work_m
    recorder.write(
        "ues",
        {
            "ue": np.arange(len(world.ues)), "name": world.ues,
            "home_x_m": home[:, 0], "home_y_m": home[:, 1],
            "work_x_m": work[:, 0], "work_y_m": work[:, 1],
        },
    )  # fmt: skip


def cut_tables(recorder: Recorder) -> None:
    """Cut all tables back to the checkpoint."""
    try:
        recorder.cut()
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}, and the run goes on") from None


def damaged(recorder: Recorder, error: Exception) -> BadInput:
    """The complaint about a checkpoint without its parts."""
    path, said = recorder.folder / CHECKPOINT, " ".join(str(error).split())[:120]
    return BadInput(f"{path}: cannot be gone on with ({said}); delete it to start again")
