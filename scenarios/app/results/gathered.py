"""The runs that a comparison is about, from whatever folders were given: runs, sweeps, or folders
of runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from netsim.errors import BadInput, counted, one_line
from netsim.safe import what_is
from scenarios.app.results.folder import (
    MANIFEST,
    RADIO_STUDY,
    RUNS,
    STUDY,
    TRAINING,
    LabelledRuns,
    check_version,
    failure_lines,
    finished_manifest,
    one_version,
    read_failures,
    read_json,
    read_summary,
    record_of,
    version_of,
)
from scenarios.app.results.read import curves_of, finished, listed, of_sweep_file, part
from scenarios.app.study import Fields, Record
from scenarios.app.study.describe import flow
from scenarios.app.study.yaml_document import as_yaml, read


@dataclass(frozen=True)
class Gathered:
    """Finished runs with their labels, in the order of the figures.

    missing : runs that are listed and not finished. curves : of a sweep that has some, the labels
    along each. notes : what must be known of how they came together. title : of a sweep, that of
    its scenario.
    """

    name: str
    runs: LabelledRuns
    missing: int = 0
    curves: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    title: str = ""

    @cached_property
    def summaries(self) -> list[tuple[str, Fields]]:
        """Label and summary of each run."""
        return [(label, read_summary(path)) for label, path in self.runs]

    @property
    def said(self) -> list[str]:
        """What must be known of how the runs came together, and how many are left out."""
        are = "is" if self.missing == 1 else "are"
        every = counted(self.missing + len(self.runs), "run")
        left_out = (
            f"{self.missing} of {every} {are} not finished and left out." if self.missing else ""
        )
        return [text for text in (*self.notes, left_out) if text]

    @property
    def drawn(self) -> list[int]:
        """Places of the runs that are drawn: all, or a sample that is always the same."""
        n = len(self.runs)
        places: list[int] = np.linspace(0, n - 1, min(n, MOST_DRAWN)).round().astype(int).tolist()
        return places

    @property
    def trained(self) -> bool:
        """Whether these are trainings, of a search."""
        return what_is(self.runs[0][1] / TRAINING) == "file"

    @property
    def radio(self) -> bool:
        """Whether these are radio studies."""
        return all(read_json(path / MANIFEST).get("kind") == RADIO_STUDY for _, path in self.runs)


def side_by_side(folder: Path) -> Gathered:
    """The runs in a folder that is not a sweep's, which is said unless one command played all of
    them.
    """
    listed(folder)  # an unfinished sweep says so itself
    of = gathered([folder])
    commands = {str(read_json(path / MANIFEST).get("command") or path) for _, path in of.runs}
    says = (
        "No sweep played these runs, they only lie in one folder: they may differ in more "
        "than one way (What differs)."
    )
    name = folder.resolve().name
    return replace(
        of,
        name=name,
        title=f"Comparison of {name}",
        notes=[says] * (len(commands) > 1) + [*of.notes],
    )


def of_sweep(folder: Path) -> Gathered:
    """The finished runs of a sweep."""
    every = listed(folder)
    done = finished(folder)
    runs, copies = distinct(done)
    notes = [*failure_lines(read_failures(folder)), copies]
    title = of_sweep_file(folder, "title") or ""
    return Gathered(
        folder.resolve().name, runs, len(every) - len(done), curves_of(folder), notes, title
    )


def gathered(folders: Sequence[Path]) -> Gathered:
    """All runs of the given folders.

    A run is a label, named by as much of its path as tells it apart; runs that differ in nothing
    but their seed share one, unless all do. Of a sweep beside other folders, labels begin with the
    name of its folder.

    Raises
    ------
    BadInput : one line: a folder without runs, of a training, or of another version; a run that is
    given twice or is
        not finished; radio studies beside runs that learn; fewer than two runs.
    """
    for folder in folders:
        _check(folder)
    if len(folders) == 1 and what_is(folders[0] / RUNS):
        return of_sweep(folders[0])
    singles = []
    swept = []
    missing = 0
    notes = []
    for folder in folders:
        if what_is(folder / RUNS):
            swept += [(folder, label, path) for label, path in finished(folder)]
        elif what_is(folder / MANIFEST):
            finished_manifest(folder)
            singles.append(folder)
            continue
        else:
            singles += [path for _, path in finished(folder)]
        missing += len(listed(folder)) - len(finished(folder))
        if failed := read_failures(folder):
            notes.append(one_line(f"{folder}: {' '.join(failure_lines(failed))}"))
    sources = [*singles, *dict.fromkeys(folder for folder, _, _ in swept)]
    names = dict(zip(sources, _names(sources), strict=True))
    of_sweeps = [(f"{names[folder]}: {label}", path) for folder, label, path in swept]
    studies = {path: _study_of(path) for path in singles}
    kept, copies = distinct([*((study, path) for path, study in studies.items()), *of_sweeps])
    runs = _named(kept, studies, names)
    if len(runs) < 2 and not copies:
        raise BadInput(
            f"{folders[0]}: one finished run, and nothing to compare it with; give two runs or "
            "more, or a sweep (netsim report draws the page of one run)"
        )
    name = " and ".join(names.values()) if len(names) < 4 else "runs compared"
    return Gathered(name, runs, missing, notes=[*notes, copies], title=f"Comparison of {name}")


def _check(folder: Path) -> None:
    """Refuse what holds no run."""
    if not str(folder) or what_is(folder) != "folder":
        raise BadInput(f"{folder}: no such folder; give folders of runs or of sweeps")
    if any(
        path for where in (".", "seed-*", "*/seed-*") for path in folder.glob(f"{where}/{TRAINING}")
    ):
        raise BadInput(
            f"{folder}: holds a training, which has other figures than a run; netsim report "
            f"{folder} draws its page with all its seeds"
        )


def distinct(runs: LabelledRuns) -> tuple[LabelledRuns, str]:
    """Runs that may be pooled by label, and copies, in words, that are left out: runs of one label
    and seed are one. Those that read a file with other content have another label, which says so.

    Refuses radio studies beside runs that learn, and runs of several versions of netsim.
    """
    kinds = dict[bool, Path]()
    versions = dict[str, Path]()
    inputs = dict[str, Fields]()
    firsts = dict[tuple[str, str], Path]()
    copies = []
    for label, path in runs:
        manifest = read_json(record_of(path))
        check_version(path, manifest)
        kinds.setdefault(manifest.get("kind") == RADIO_STUDY, path)
        versions.setdefault(version_of(manifest), path)
        files = part(manifest, "files")
        before = inputs.setdefault(label, files)
        other = [
            f", {Path(f).name} with other content ({files[f]!s:.8})"
            for f in files
            if files[f] != before.get(f)
        ]
        first = firsts.setdefault((label + "".join(other), str(manifest.get("seed", path))), path)
        if first != path:
            copies.append(f"{path} is a copy of {first}")
    if len(kinds) > 1:
        raise BadInput(
            f"{kinds[True]} is a radio study and {kinds[False]} trains a model, which have no "
            "figure in common; compare them apart"
        )
    one_version(versions)
    said = f"{', '.join(copies)}: one run, which counts once." if copies else ""
    return [(label, path) for (label, _), path in firsts.items()], said


def _names(paths: Sequence[Path]) -> list[str]:
    """The end of each path, as long as it must be to tell all of them apart."""
    parts = [path.resolve().parts for path in paths]
    for twice in (p for k, p in enumerate(paths) if parts[k] in parts[:k]):
        raise BadInput(f"{twice}: is given twice; give it once")
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(p[-length:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    return []


def _study_of(folder: Path) -> str:
    """What a run has in common with its other seeds."""
    return as_yaml(
        {key: value for key, value in read(folder / STUDY).data.items() if key not in _NOT_COMPARED}
    )


def _named(
    kept: LabelledRuns, studies: Mapping[Path, str], names: Mapping[Path, str]
) -> LabelledRuns:
    """Runs with their labels for people; single ones, of `studies`, share one with their other
    seeds, unless all do.
    """
    places: dict[str, list[Path]] = {}
    for label, path in kept:
        places.setdefault(label, []).append(path)
    found: LabelledRuns = []
    alone = len({*studies.values()}) < 2
    for label, of in places.items():
        if alone or len(of) < 2:
            more = ""
        else:
            more = f" and {len(of) - 1} more of other seeds"
        other = label.removeprefix(studies.get(of[0], ""))
        for path in of:
            if path in studies:
                name = f"{names[path if alone else of[0]]}{more}{other}"
            else:
                name = label
            found.append((name, path))
    return found


# -- which of very many runs are drawn

MOST_DRAWN = 100  # runs whose tables are read


def drawn_sentence(n: int, drawn: int) -> list[str]:
    """How many of n runs are drawn; nothing where all are."""
    if drawn == n:
        return []
    return [
        f"Curves, and tables with a column per label, are of a sample: {drawn:,} of {n:,} runs, "
        "evenly spaced. The table with a row per label is of all runs."
    ]


# -- the keys in which studies differ

_NOT_COMPARED = (
    "seed",
    "vary",
)  # what tells runs of one label apart, and what a sweep is made from


def differences(studies: Sequence[Record]) -> dict[str, list[str]]:
    """Dotted key in which resolved studies differ -> its values as text; "–" where a study has no
    such key.
    """
    flat = [
        flattened({k: v for k, v in study.items() if k not in _NOT_COMPARED}) for study in studies
    ]
    every = dict.fromkeys(key for study in flat for key in study)
    texts = {key: [flow(study[key]) if key in study else "–" for study in flat] for key in every}
    return {key: values for key, values in texts.items() if len(set(values)) > 1}


def flattened(value: object, path: str = "") -> Fields:
    """Path -> value of everything in a JSON object."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else None
    )
    if inner is None:
        return {path: value}
    return {
        k: v for key, one in inner for k, v in flattened(one, f"{path}.{key}".lstrip(".")).items()
    }
