"""The table `tracks`: where UEs were, in runs of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.record import Recorder
from netsim.trail import Looks, Rows
from netsim.world import World


def follow_ues(world: World) -> dict[str, Any]:
    """Take the tracks of a world that has not moved yet; what the manifest says of them."""
    looks = Looks.of(len(world.ues), world.duration_s, world.tick_s)
    world.follow(looks)
    return {"every_s": looks.every_s, "ues": looks.ues}


def write_tracks(recorder: Recorder, world: World) -> None:
    """Append the rows of tracks since the last call, up to now."""
    world.catch_up()
    rows = [] if world.tracks is None else world.tracks.drain()
    if world.tracks is not None and rows:
        names = np.array([*(station.name for station in world.stations), ""], dtype=object)  # the last one for -1
        pieces = [_columns(each, world.tracks.looks.every_s, names) for each in rows]
        recorder.write("tracks", {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]})


def _columns(rows: Rows, every_s: float, names: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of one look as columns; of an absent UE only index and time."""
    seen, absent = rows.seen, rows.seen.absent
    return {
        "ue": rows.ue,
        "time_s": np.full(len(rows.ue), rows.look * every_s),
        "x_m": seen.at_m[:, 0],
        "y_m": seen.at_m[:, 1],
        "indoor": np.where(absent, np.nan, seen.inside),
        "cell": names[np.where(absent, -1, seen.cell)],
    }
