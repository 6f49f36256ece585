"""Samples of one's own: of a file, or of arrays, data sets and tables of Python."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fl.data import EARLIER_RECORDS, HELD_OUT_PLACES, RECORDS_ALONE, SHARED_MODEL
from fl.data.owned import Counts, Memory, OwnedSamples
from fl.data.partitions import PARTITIONS, Division, Quantity
from fl.data.sample_files import (
    COLUMNS,
    Array,
    blame_source,
    read_sample_file,
    read_table,
    stack_values,
)
from fl.data.samples import Rows, SampleSet
from fl.types import SampleFormat, list_offers
from netsim.columns import split_blocks
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import FILE_NAME
from netsim.safe import read_file_version
from netsim.traces.table import GLOBE, Coordinates
from netsim.units import FloatArray, IntArray, LatLon

_LARGEST = 1e9  # of a number in a checkpoint
_BOUNDS = {
    "time_s": (0.0, 1e12),
    "lat": (-90.0, 90.0),
    "lon": (-180.0, 180.0),
    "x_m": (-_LARGEST, _LARGEST),
    "y_m": (-_LARGEST, _LARGEST),
    "held_out": (0.0, 1.0),
}
_BLOCK = 4096  # samples whose inputs are looked at together

LabelKind = Literal["auto", "classes", "numbers"]


def check_samples(columns: dict[str, Array], source: str, labels: LabelKind) -> SampleSet:
    """The samples of arrays by the names of COLUMNS; places of degrees are left as they are.

    Raises
    ------
    BadInput : one line: what does not fit together, and the first sample that is no number.
    """
    count = columns["y"].shape[:1] if "y" in columns else (0,)
    for name, values in columns.items():
        is_flat = values.ndim == 1 or (name == "x" and values.ndim > 1)
        if values.dtype.kind not in "biufUS" or not is_flat or values.shape[:1] != count:
            raise BadInput(
                f"{source}: {name} is of shape {values.shape} and type {values.dtype}, and there "
                f"are {count[0]:,} labels y; give each label a number here (of ue and y: or a name)"
            )
    numbers = {
        name: _read_numbers(f"{source}: {name}", columns[name], *bounds)
        for name, bounds in _BOUNDS.items()
        if name in columns
    }
    axes = [name for name in ("lat", "lon", "x_m", "y_m") if name in numbers]
    if axes not in ([], ["lat", "lon"], ["x_m", "y_m"]) or not ("x" in columns or axes):
        raise BadInput(
            f"{source}: has places by {axes}; give inputs x, or lat and lon, or x_m and y_m"
        )
    place = np.stack([numbers[name] for name in axes], axis=1) if axes else None
    if "x" not in columns:
        y = _read_numbers(f"{source}: y", columns["y"], -_LARGEST, _LARGEST)
        sample_format = None
        x: Any = place
    else:
        y, classes = _read_labels(f"{source}: y", columns["y"], labels)
        inputs = columns["x"]
        is_bytes = inputs.dtype == np.uint8
        for block in () if is_bytes else split_blocks(len(y), _BLOCK):
            _read_numbers(f"{source}: x", inputs[block], -_LARGEST, _LARGEST, block.start)
        shape = inputs.shape[1:] or (1,)
        sample_format = SampleFormat(shape, classes, 255.0 if is_bytes else 1.0)
        x = Rows(inputs.reshape(len(y), -1), np.arange(len(y)))
    owner = None
    if "ue" in columns:
        owner = _number_owners(f"{source}: ue", columns["ue"])
    held_out = numbers["held_out"] > 0 if "held_out" in numbers else None
    time_s = numbers.get("time_s", np.zeros(len(y)))
    return SampleSet(sample_format, x, y, time_s, held_out, owner, place, "lat" in axes)


def _read_numbers(
    source: str, values: Array, low: float, high: float, first: int = 0
) -> FloatArray:
    """Numbers of samples from `first` on; BadInput for text, and for a number out of bounds."""
    numbers = np.full(values.shape, np.nan) if values.dtype.kind in "US" else values.astype(float)
    bad = np.argwhere(~((numbers >= low) & (numbers <= high)))
    if len(bad):
        value = values[tuple(bad[0])]
        raise BadInput(
            f"{source}: sample {first + bad[0][0]:,} has {str(value)[:60]}, which is no number "
            f"from {low:g} to {high:g}; correct it, or leave the sample out"
        )
    return numbers


def _read_labels(source: str, y: Array, labels: LabelKind) -> tuple[FloatArray, int]:
    """Labels (N,), and the number of classes; 0: they are numbers."""
    if labels == "numbers" or (labels == "auto" and y.dtype.kind == "f"):
        return _read_numbers(source, y, -_LARGEST, _LARGEST), 0
    values, label = np.unique(y, return_inverse=True)
    classes = len(values)
    is_numbered = y.dtype.kind in "US" or np.array_equal(values, np.arange(classes))
    if classes < 2 or not is_numbered:
        raise BadInput(
            f"{source}: {classes} classes from {values[0]} to {values[-1]}; number two or more of "
            "them from 0 without a gap, name them, or set labels: numbers"
        )
    return label.astype(float), classes


def _number_owners(source: str, owner: Array) -> IntArray:
    """Numbers of UEs (N,): those given, or of names their rank."""
    if owner.dtype.kind in "US":
        return np.unique(owner, return_inverse=True)[1]
    return _read_numbers(source, owner, 0, 1e8).astype(int)


@lru_cache(maxsize=2)
def _load_file(
    file: str, version: tuple[int, int], features: tuple[str, ...], label: str, labels: LabelKind
) -> SampleSet:
    """The samples of a file, which is read again when its version is another."""
    return check_samples(read_sample_file(Path(file), features, label), file, labels)


class Samples(OwnedSamples):
    """UEs own samples from a file, or from arrays of Python.

    A file is an .npz of arrays, a Parquet table, or a folder of images. `y` has the label of each
    sample, and `x` what a model reads. Without x samples are signals at places: a model learns RSRP
    `y`, dBm, of places, and attacks look for these. Places beside x divide samples (`partition:
    place`), and no attack is compared with them. Optional arrays: `ue`, who owns each sample;
    `time_s`, the simulated time from which it is there; `held_out`, which are not trained on; and
    places, `lat` and `lon` or `x_m` and `y_m`.

    UEs are given by number, from 0, or by names, which in sorted order are UE 0, 1, and so on. A UE
    learns from the samples that are there at its last radio measurement of the round. Degrees
    become metres around the origin of the world; where that is nowhere on the globe, their median
    lies in the middle of the area. Homes are those of the world's UEs, wherever samples are.

    Without `held_out` a random share of the samples of each UE is held out, drawn once.
    """

    kind: Literal["samples"] = "samples"
    file: Annotated[str, FILE_NAME] | None = Field(None, min_length=1)
    """an .npz, a .parquet, or a folder of images (png, jpg; grey or RGB) below CLASS/ or UE/CLASS/;
    none: arrays of Python alone"""
    features: tuple[str, ...] = ()
    """columns of a table that are inputs x; none: x, or x_0, x_1, and so on"""
    label: str = Field("y", min_length=1)
    """column of a table that is the label y"""
    labels: LabelKind = "auto"
    """what labels beside x are: classes, by number from 0 or by name, or numbers; auto: numbers
    where they are no whole ones"""
    partition: Annotated[Division, PARTITIONS] = Quantity()
    """which samples each UE owns, where `ue` does not say it"""
    samples: Counts = None
    """number of samples of each UE, held-out ones among them; for a list UE k takes entry k mod
    length; none: all are divided"""
    hold_out: float = Field(0.2, ge=0, le=0.9)
    """share of the samples of each UE held out of training for evaluation, where `held_out` does
    not say which"""
    memory: Memory = "all"
    """training data of a UE: samples that came in the round, all so far, or those of the round and
    this many random earlier ones"""
    _given: SampleSet | None = PrivateAttr(None)
    _digest: str = PrivateAttr("")

    reference = "netsim: samples of the user's own"
    example = {"kind": "samples", "file": "samples.npz"}

    @classmethod
    def from_arrays(cls, **values: Any) -> Self:
        """Data of arrays by the names of COLUMNS; other values are keys of the part."""
        with blame_source("arrays"):
            columns = {name: stack_values(values.pop(name)) for name in COLUMNS if name in values}
        return cls(**values)._hold(columns)

    @classmethod
    def from_dataset(cls, dataset: Any, **values: Any) -> Self:
        """Data of pairs (x, y), as of a `torch.utils.data.Dataset`; values as of `from_arrays`."""
        pairs = [dataset[i] for i in range(len(dataset))]
        x, y = map(list, zip(*pairs, strict=True))
        return cls.from_arrays(x=x, y=y, **values)

    @classmethod
    def from_table(cls, table: Any, **values: Any) -> Self:
        """Data of a pandas DataFrame or a table of Hugging Face; values are keys of the part."""
        part = cls(**values)
        with blame_source("table"):
            columns = read_table("table", table, part.features, part.label)
        return part._hold(columns)

    def _hold(self, columns: dict[str, Array]) -> Self:
        part = self.model_copy()
        part._given = check_samples(columns, "samples", self.labels)
        digest = hashlib.sha256()
        for name, values in sorted(columns.items()):
            digest.update(f"{name} {values.dtype} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
        part._digest = digest.hexdigest()
        return part

    @property
    def digest(self) -> str:
        """SHA-256 of arrays of Python, with which a part cannot be written as YAML; empty where a
        file has the samples.
        """
        return self._digest

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """Of samples that cannot be read all that may be: they are refused with the world."""
        always = ("own samples", "labelled samples", SHARED_MODEL, RECORDS_ALONE, EARLIER_RECORDS)
        words = dict.fromkeys(always, True)
        words[RECORDS_ALONE] = not isinstance(self.memory, int)
        words[EARLIER_RECORDS] = self.memory != "round"
        some = ("positions", "signals", "real labels", "class labels")
        try:
            samples = self.load()
        except BadInput:
            return list_offers(words | dict.fromkeys(some, True))
        is_signals = samples.format is None
        has_classes = samples.label is not None
        has = (is_signals, is_signals, not has_classes, has_classes)
        words[HELD_OUT_PLACES] = is_signals and self.hold_out > 0
        return list_offers(words | dict(zip(some, has, strict=True)))

    @property
    def drawn_share(self) -> float:
        return self.hold_out

    @property
    def past(self) -> Memory:
        return self.memory

    def assign_models(self, cells: tuple[str, ...], models: tuple[str, ...]) -> IntArray:
        return np.zeros(len(cells), int)

    def load(self) -> SampleSet:
        if self._given is not None:
            return self._given
        if self.file is None:
            raise BadInput("learning.data.file: arrays of Python are not kept; name a file")
        version = read_file_version(self.file)
        return _load_file(self.file, version, self.features, self.label, self.labels)

    def fit_world(self, area: Area, origin_deg: LatLon | None) -> Self:
        samples = self.load()
        place = samples.place
        x = samples.x
        if place is not None and samples.is_globe:
            place = Coordinates(GLOBE).to_plane(place, origin_deg).xy_m
            if origin_deg is None:
                place = place + area.centre_m
        if samples.format is None and place is not None:
            x = place
            outside = np.flatnonzero(~area.contains(x))
            if len(outside):
                first = outside[0]
                raise BadInput(
                    f"learning.data: {len(outside):,} of {len(x):,} places are outside of the area "
                    f"of the world ({area}), the first at {x[first].round()} (sample {first:,}); "
                    "take a larger area, or leave these samples out"
                )
        part = self.model_copy()
        part._given = replace(samples, place=place, x=x, is_globe=False)
        return part
