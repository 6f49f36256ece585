"""surfaces.npz: the map that a run of densities ended with, its references, and one UE's answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.learners.base import SurfaceLearner
from fl.round import Carry, Setup
from fl.types import Local
from netsim.checkpoint import read_arrays
from netsim.errors import BadInput
from netsim.safe import replacing, what_is
from netsim.units import FloatArray
from netsim.world import World
from scenarios.document import one_line
from scenarios.folder import SURFACES

MAPS = ("estimate", "exact", "law", "answer")

Surfaces = dict[str, NDArray[Any]]
"""x_m (P,), y_m (Q,), and those of MAPS that there are, (P, Q) each; answer_at_m (2,)."""


def write_surfaces(folder: Path, setup: Setup, carry: Carry, world: World) -> None:
    """Of the first model at the first bandwidth; nothing for a learner without surfaces, or where nobody was heard."""
    learner, model = setup.learning.learner, carry.model
    if not isinstance(learner, SurfaceLearner) or not len(carry.held_out) or not model.parameters[0].any():
        return
    grid = learner.grid_m(model)
    found: dict[str, FloatArray] = {
        "x_m": model.constants["x_m"],
        "y_m": model.constants["y_m"],
        "estimate": learner.surfaces(model, model.parameters[:1])[0, 0],
        "exact": learner.reference_map(model, carry.held_out),
    }
    law = world.mobility.density(grid.reshape(-1, 2))
    if law is not None:
        found["law"] = law.reshape(grid.shape[:2])
    if not setup.learning.curation:  # which would have changed what the UE answered about
        found |= _answer(setup, carry, learner)
    with replacing(folder / SURFACES) as file:
        np.savez_compressed(file, **found)  # type: ignore[arg-type]


def _answer(setup: Setup, carry: Carry, learner: SurfaceLearner) -> dict[str, FloatArray]:
    """What the UE nearest to the middle of the area answered in the last round, before any defense, made again."""
    away = np.linalg.norm(carry.held_out.x - setup.public.area.centre_m, axis=1)
    i = int(np.argmin(away))
    ue, zero, phase = carry.held_out.ue[i : i + 1], np.zeros(1, dtype=np.int64), learner.phases[0]
    place = carry.held_out.x[i : i + 1]
    data = Local(ue, zero, np.array([0, 1]), place, None, np.zeros(1))
    made = learner.local(carry.model, phase, data, setup.streams.at(f"learner.{phase}", carry.round))
    return {"answer": learner.surfaces(carry.model, made.rows(slice(None)))[0, 0], "answer_at_m": place[0]}


def read_surfaces(folder: Path) -> Surfaces:
    """What was written, checked; nothing where nothing was."""
    path = folder / SURFACES
    if not what_is(path):
        return {}
    try:
        found = {name: np.asarray(array, dtype=np.float64) for name, array in read_arrays(path).items()}
        shape = (len(found["x_m"]), len(found["y_m"]))
        if any(found[name].shape != shape for name in MAPS if name in found):
            raise ValueError("its maps do not fit the grid")
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(one_line(f"{path}: cannot be read ({error}); run the study again")) from None
    return found
