"""surfaces.npz: the map that a run of densities ended with, its references, and one UE's answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.checkpoint import read_arrays
from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import SURFACES
from scenarios.app.study.yaml_document import one_line

MAPS = ("estimate", "exact", "law", "answer")

Surfaces = dict[str, NDArray[Any]]
"""x_m (P,), y_m (Q,), and those of MAPS that there are, (P, Q) each; answer_at_m (2,)."""


def read_surfaces(folder: Path) -> Surfaces:
    """What was written, checked; nothing where nothing was."""
    path = folder / SURFACES
    if not what_is(path):
        return {}
    try:
        arrays = {name: np.asarray(array, dtype=np.float64) for name, array in read_arrays(path).items()}
        shape = (len(arrays["x_m"]), len(arrays["y_m"]))
        if any(arrays[name].shape != shape for name in MAPS if name in arrays):
            raise ValueError("its maps do not fit the grid")
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(one_line(f"{path}: cannot be read ({error}); run the study again")) from None
    return arrays
