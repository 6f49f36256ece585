"""A run folder: where it lies, what may be replaced, and its tables read back."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.record import unguarded

TEXT_COLUMNS = {
    "attack",
    "part",
    "phase",
    "what",
    "status",
    "name",
    "base_station",
    "source",
    "target",
    "mechanism",
    "unit",
    "step",
    "relation",
    "accountant",
    "sees",
}
MANIFEST, SUMMARY, STUDY, CHECKPOINT = "manifest.json", "summary.json", "study.yaml", "checkpoint.npz"
LOCK = ".writing"


def prepare(folder: Path, study: str, replace: bool) -> None:
    """Create a run folder, if it may be written (see `admit`)."""
    admit(folder, study, replace)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be created ({error.strerror}); give --out another place") from None


def admit(folder: Path, study: str, replace: bool) -> None:
    """Refuse a folder that a run of this study (its text) may not have; nothing is written.

    An earlier run of the same study is welcome. The run of another study, finished or not, is only replaced when asked;
    anything else is left alone.
    """
    if any(name != LOCK for name in inside(folder)) and not _is_run(folder):
        raise BadInput(f"{folder}: exists and holds something that is not a run; give --out an empty or new folder")
    if not replace and _is_run(folder) and _text(folder / STUDY) != study:
        state = "finished" if (folder / SUMMARY).exists() else "unfinished"
        raise BadInput(
            f"{folder}: holds the {state} run of another study, seed or program version; add --replace, "
            "or give --out another folder"
        )


def admit_several(folder: Path, names: Collection[str], what: str) -> None:
    """Refuse a folder for several runs that holds anything but these names; `what` it should be."""
    foreign = sorted(set(inside(folder)) - set(names))
    if foreign:
        raise BadInput(
            f"{folder}: exists and holds {foreign[0]!r}, which does not belong to {what}; give --out an empty or new "
            "folder"
        )


def inside(folder: Path) -> list[str]:
    """Names in a folder; none where there is none yet. Raises BadInput for what is no folder, or cannot be read."""
    try:
        return [p.name for p in folder.iterdir()]
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise BadInput(f"{folder}: is a file; give --out another name") from None
    except OSError as error:
        raise BadInput(f"{folder}: cannot be read ({error.strerror}); give --out another place") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _is_run(folder: Path) -> bool:
    """Whether a manifest of ours lies there."""
    try:
        manifest = read_json(folder / MANIFEST)
    except BadInput:
        return False
    return {"schema", "seed", "versions", "models"} <= set(manifest)


@contextmanager
def locked(folder: Path) -> Generator[None, None, None]:
    """Only one process writes a run folder; the lock of a process that is gone is taken over."""
    lock = folder / LOCK
    try:
        owner = int(lock.read_text())
        os.kill(owner, 0)
    except (OSError, ValueError):
        owner = os.getpid()  # nobody's, or of a process that is gone
    if owner != os.getpid():
        raise BadInput(f"{folder}: process {owner} is writing this run; wait for it, or give --out another folder")
    lock.write_text(str(os.getpid()))
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a run folder."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; is {path.parent} the folder of a finished run?") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise BadInput(f"{path}: not a JSON object")
    return value


def read_table(folder: Path, table: str) -> dict[str, np.ndarray]:
    """A record table as columns: text as it is, everything else float64 with NaN for empty cells."""
    path = folder / f"{table}.csv"
    try:
        with path.open(newline="", encoding="utf-8") as f:
            header, *lines = list(csv.reader(f))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); is {folder} a run folder?") from None
    columns = list(zip(*lines, strict=True)) if lines else [()] * len(header)
    return {name: _column(path, name, values) for name, values in zip(header, columns, strict=True)}


def _column(path: Path, name: str, values: Any) -> np.ndarray:
    if name in TEXT_COLUMNS:
        return np.array([unguarded(v) for v in values], dtype=object)
    try:
        return np.array([float(v or "nan") for v in values], dtype=np.float64)
    except ValueError as error:
        raise BadInput(f"{path}: column {name}: {error}") from None
