"""A folder of updates that were made before: a card in JSON, and files of rows. Reading one runs no
code.

``card.json`` (`UpdateCard`) says what updates belong to, and lists files. Each, of safetensors,
holds rows of a round and a phase::

    update (n, d)           trained parameters less those that training began from
    count (n,)              samples behind each row
    parameters (n_model, D) models that training began from; needed in the first file
    constant.NAME           constants of the learner, read from the first file
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from netsim.errors import BadInput
from netsim.part import Part
from netsim.safe import describe_file_kind, open_replacement, read_content

CARD = "card.json"
CONSTANT = "constant."
"""prefix of the names of constants"""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"  # of a file in the same folder
_MAX_CARD_BYTES = 1 << 28
_MAX_BYTES = 1 << 33
Arrays = Mapping[str, NDArray[Any]]


class UpdateFile(Part):
    """A file of n rows, as the card lists it."""

    file: str = Field(pattern=_NAME)
    """its name"""
    sha256: str
    """SHA-256 of its content"""
    round: int | None = Field(None, ge=1)
    """number of the round; none: that in which time_s lies"""
    time_s: float = Field(0.0, ge=0)
    """when UEs trained, seconds of the world"""
    phase: str = "all"
    """phase of the learner"""
    ue: tuple[str, ...]
    """name of the UE of each row (n,)"""
    model: tuple[int, ...]
    """its model (n,), from 0"""
    numbers: int = Field(ge=1)
    """numbers of a row (d)"""

    def read(self, folder: Path) -> Arrays:
        """Its arrays, finite and of the shapes that the card says. Raises BadInput."""
        from safetensors.numpy import load

        path = folder / self.file
        content = read_content(path, _MAX_BYTES, is_ours=True)
        is_same = hashlib.sha256(content).hexdigest() == self.sha256
        require(is_same, path, "is not the file of the card: its SHA-256 is another")
        arrays = load(content)
        for name, array in arrays.items():
            is_finite = np.isfinite(array).all()
            require(is_finite, path, f"{name} is not finite; leave out such rows, as a server does")
        return arrays

    def check(self, folder: Path) -> None:
        """Refuse a file whose header has other shapes than the card says."""
        from safetensors import SafetensorError, safe_open

        path = folder / self.file
        n = len(self.ue)
        expected = {"update": [n, self.numbers], "count": [n], "model": [n]}
        shapes = {"model": [len(self.model)]}
        try:
            require(describe_file_kind(path) == "file", path, "there is no such file")
            with safe_open(path, "np") as stored:
                shapes |= {name: stored.get_slice(name).get_shape() for name in stored.keys()}
        except SafetensorError as error:
            raise BadInput(f"{path}: is no safetensors file ({error})") from None
        for name, shape in expected.items():
            actual = shapes.get(name, "missing")
            require(actual == shape, path, f"{name} is {actual}, and its card says {shape}")


class UpdateCard(Part):
    """What updates belong to, and the files that hold them."""

    format: Literal[1] = 1
    """version of this format"""
    about: dict[str, Any] = {}
    """module, optimiser and more, for people"""
    learner: dict[str, Any] = {}
    """keys that the learner `of` must have"""
    constants: dict[Literal["centre_m", "scale_m"], tuple[tuple[float, float], ...]] = {}
    """centre and scale of standardised positions, per model"""
    area_m: tuple[float, float, float, float] | None = None
    """west, south, east and north end of the area; that of the world"""
    empty_rounds: tuple[int, ...] = ()
    """rounds in which no UE trained"""
    files: tuple[UpdateFile, ...] = Field(min_length=1)
    """the files"""

    @classmethod
    def from_file(cls, path: Path) -> "UpdateCard":
        """The card in a file. Raises BadInput."""
        try:
            return cls.model_validate_json(read_content(path, _MAX_CARD_BYTES), strict=True)
        except OSError as error:
            raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise BadInput(f"{path}: {first['loc']}: {first['msg']}") from None


def write_updates(path: Path, arrays: Arrays, **keys: Any) -> UpdateFile:
    """Write a file of arrays; returns its entry in the card, whose other keys are given."""
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with open_replacement(path) as file:
        file.write(content)
    digest = hashlib.sha256(content).hexdigest()
    return UpdateFile(file=path.name, sha256=digest, **keys)


def require(fits: bool | np.bool_, path: Path, problem: str) -> None:
    """Raise BadInput with the path and the problem, unless it fits."""
    if not fits:
        raise BadInput(f"{path}: {problem}")
