"""A folder of updates that were made before: a card in JSON, and files of rows. Reading one runs no
code.

``card.json`` (`UpdateCard`) says what updates belong to, and lists the files, one of each
round. A file of safetensors holds::

    update (n, d)           trained parameters less those that training began from
    count (n,)              samples behind each row
    parameters (n_model, D) models that training began from
"""

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fl.data.sample_files import blame_source
from netsim.columns import MAX_STATIONS
from netsim.errors import BadInput
from netsim.part import Part
from netsim.safe import open_regular, read_content
from netsim.units import FloatArray, FloatPair, IntPair

CARD = "card.json"
_MAX_CARD_BYTES = 1 << 28
_MAX_BYTES = 1 << 33


def require(fits: object, path: Path, problem: str) -> None:
    """Raise BadInput with a path and a problem, unless it fits."""
    if not fits:
        raise BadInput(f"{path}: {problem}")


class UpdateFile(Part):
    """A file of n rows, as the card lists it."""

    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """its name, in the folder"""
    sha256: str
    """SHA-256 of its content"""
    round: int | None = Field(None, ge=1)
    """number of the round; none: that in which time_s lies"""
    time_s: float = Field(0.0, ge=0)
    """when UEs trained, seconds of the world"""
    rows: tuple[tuple[str, Annotated[int, Field(ge=0, lt=MAX_STATIONS)]], ...]
    """name of the UE and number of the model, from 0, of each row (n,)"""
    numbers: int
    """numbers of a row (d)"""
    models: IntPair
    """shape of the models (n_model, D)"""

    def read(self, folder: Path) -> dict[str, FloatArray]:
        """Its arrays, finite and of the shapes that the card says; the header is checked before
        they are read. Raises BadInput.
        """
        from safetensors import safe_open

        path = folder / self.file
        n = len(set(self.rows))
        expected = {"update": [n, self.numbers], "count": [n], "parameters": [*self.models]}
        with (
            blame_source(path),
            open_regular(path, _MAX_BYTES, is_ours=True) as file,
            safe_open(path, "np") as tensors,
        ):
            shapes = {name: tensors.get_slice(name).get_shape() for name in expected}
            require(shapes == expected, path, f"has {shapes}, and the card says {expected}")
            digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            require(digest == self.sha256, path, "has another SHA-256 than the card says")
            arrays = {name: tensors.get_tensor(name).astype(float) for name in expected}
        is_finite = all(np.isfinite(array).all() for array in arrays.values())
        require(is_finite, path, "holds numbers that are not finite; leave out such rows")
        return arrays


class UpdateCard(Part):
    """What updates belong to, and the files that hold them."""

    format: Literal[1] = 1
    """version of this format"""
    about: dict[str, Any] = Field(default_factory=dict)
    """module, optimiser and more, for people"""
    same: dict[str, Any] = Field(default_factory=dict)
    """what must be the same now: area_m, west, south, east and north end of the world, and keys of
    the learner `of`"""
    constants: dict[Literal["centre_m", "scale_m"], FloatPair] = Field(default_factory=dict)
    """centre and scale of standardised positions; none: those of the learner `of`"""
    rounds: int
    """rounds that there were; in one without a file no UE trained"""
    files: tuple[UpdateFile, ...]
    """the files"""

    @classmethod
    def read(cls, path: Path) -> "UpdateCard":
        """The card in a file. Raises BadInput."""
        with blame_source(path):
            return cls.model_validate_json(read_content(path, _MAX_CARD_BYTES), strict=True)
