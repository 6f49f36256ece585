"""Files that are written once, at the end of a run: true points, surfaces."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from fl.learners.base import SurfaceLearner
from fl.round.setup import Setup
from fl.round.state import RoundState
from fl.round.streams import RoundStreams
from fl.types import Local
from netsim.columns import no_places
from netsim.safe import replacing
from netsim.units import FloatArray
from netsim.world import World
from scenarios.app.results.folder import (
    POINTS,
    SURFACES,
)


def write_points(folder: Path, state: RoundState) -> None:
    """True points of every track, thinned: what the report's map draws."""
    tracks = [(ue, track.points) for (ue, _), track in state.leakage.items()]
    ue = np.concatenate([np.full(len(points), ue) for ue, points in tracks] or [np.zeros(0)])
    points = np.concatenate([points for _, points in tracks] or [no_places()])
    with replacing(folder / POINTS) as file:
        np.savez_compressed(file, ue=ue.astype(np.int64), position_m=points)


def write_surfaces(folder: Path, setup: Setup, state: RoundState, world: World) -> None:
    """Of the first model at the first bandwidth; nothing for a learner without surfaces, or where nobody was heard."""
    model = state.model
    if "surfaces" not in setup.learning.learner.offers or not len(state.held_out) or not model.parameters[0].any():
        return
    learner = cast(SurfaceLearner, setup.learning.learner)
    grid = learner.grid_m(model)
    arrays: dict[str, FloatArray] = {
        "x_m": model.constants["x_m"],
        "y_m": model.constants["y_m"],
        "estimate": learner.surfaces(model, model.parameters[:1])[0, 0],
        "exact": learner.reference_map(model, state.held_out.whole.usual),
    }
    law = world.mobility.density(grid.reshape(-1, 2))
    if law is not None:
        arrays["law"] = law.reshape(grid.shape[:2])
    if not setup.learning.curation:  # which would have changed what the UE answered about
        arrays |= _answer(setup, state, learner)
    with replacing(folder / SURFACES) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _answer(setup: Setup, state: RoundState, learner: SurfaceLearner) -> dict[str, FloatArray]:
    """What the UE nearest to the middle of the area answered in the last round, before any defense, made again."""
    held_out = state.held_out.whole
    away = np.linalg.norm(held_out.x - setup.public.area.centre_m, axis=1)
    i = int(np.argmin(away))
    ue, zero, phase = held_out.ue[i : i + 1], np.zeros(1, dtype=np.int64), learner.phases[0]
    place = held_out.x[i : i + 1]
    data = Local(ue, zero, np.array([0, 1]), place, None, np.zeros(1))
    made = learner.local(state.model, phase, data, RoundStreams(setup.streams, state.round).learner(phase))
    return {"answer": learner.surfaces(state.model, made.rows(slice(None)))[0, 0], "answer_at_m": place[0]}
