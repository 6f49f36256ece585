"""Samples of one's own: of a file, or of arrays, data sets and tables of Python."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fl.data import EARLIER_RECORDS, HELD_OUT_PLACES, RECORDS_ALONE, SHARED_MODEL
from fl.data.owned import Counts, Memory, OwnedSamples
from fl.data.partitions import PARTITIONS, Division, QuantitySkew
from fl.data.sample_files import COLUMNS, blame_source, check_samples, open_table, read_table
from fl.data.samples import SampleSet
from fl.types import list_offers
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import FileName
from netsim.safe import read_file_version
from netsim.traces.table import GLOBE, Coordinates
from netsim.units import IntPair, LatLon, Texts


@lru_cache(maxsize=2)
def _load_file(file: str, version: IntPair, features: Texts, label: str) -> SampleSet:
    """The samples of a file, which is read again when its version is another."""
    with blame_source(file):
        columns = read_table(open_table(Path(file)), features, label)
    return check_samples(file, columns)


class Samples(OwnedSamples, kind="samples"):
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

    Without `held_out`, or where that has none, a random share of the samples of each UE is held
    out, drawn once. Labels beside x are classes where they are whole numbers or names.
    """

    file: FileName | None = None
    """an .npz, a .parquet, or a folder of images (png, jpg; grey or RGB) with a folder per class;
    none: arrays of Python alone"""
    features: Texts = ()
    """columns of a table that are inputs x; none: x"""
    label: str = Field("y", min_length=1)
    """column of a table that is the label y"""
    partition: Annotated[Division, PARTITIONS] = QuantitySkew()
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
        columns = {name: values.pop(name) for name in COLUMNS if name in values}
        return cls.from_table(columns, **values)

    @classmethod
    def from_dataset(cls, dataset: Any, **values: Any) -> Self:
        """Data of pairs (x, y), as of a `torch.utils.data.Dataset`; values as of `from_arrays`."""
        x, y = zip(*map(dataset.__getitem__, range(len(dataset))), strict=True)
        return cls.from_arrays(x=x, y=y, **values)

    @classmethod
    def from_table(cls, table: Any, **values: Any) -> Self:
        """Data of a pandas DataFrame or a table of Hugging Face; values are keys of the part."""
        part = cls(**values)
        with blame_source("samples"):
            columns = read_table(table, part.features, part.label)
        part._given = check_samples("samples", columns)
        for name, array in sorted(columns.items()):
            part._digest += f"{name} {hashlib.sha256(array.tobytes()).hexdigest()} "
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
        is_signals = has_classes = has_numbers = True
        with suppress(BadInput):
            samples = self.load()
            is_signals = samples.format is None
            has_classes = samples.label is not None
            has_numbers = not has_classes
        words = {
            "own samples": True,
            "labelled samples": True,
            "positions": is_signals,
            "signals": is_signals,
            "class labels": has_classes,
            "real labels": has_numbers,
            SHARED_MODEL: True,
            RECORDS_ALONE: not isinstance(self.memory, int),
            EARLIER_RECORDS: self.memory != "round",
            HELD_OUT_PLACES: is_signals and self.hold_out > 0,
        }
        return list_offers(words)

    def load(self) -> SampleSet:
        if self._given is not None:
            return self._given
        if self.file is None:
            raise BadInput("learning.data.file: arrays of Python are not kept; name a file")
        return _load_file(self.file, read_file_version(self.file), self.features, self.label)

    def fit_world(self, area: Area, origin_deg: LatLon | None) -> Self:
        samples = self.load()
        place = samples.place
        if place is None:
            return self
        if samples.is_globe:
            place = Coordinates(GLOBE).to_plane(place, origin_deg).xy_m
            if origin_deg is None:
                place = place + area.centre_m
        part = self.model_copy()
        part._given = replace(samples, place=place, is_globe=False)
        if samples.format is None:
            part._given = replace(part._given, x=place)
            outside = np.flatnonzero(~area.contains(place))
            if len(outside):
                raise BadInput(
                    f"learning.data: {len(outside):,} of {len(place):,} places are outside of the "
                    f"area of the world ({area}), the first that of sample {outside[0]:,}; take a "
                    "larger area, or leave these samples out"
                )
        return part
