"""The runs that a comparison is about, from whatever folders were given: runs, sweeps, or folders
of runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from netsim.errors import BadInput, to_one_line
from netsim.safe import describe_file_kind
from netsim.units import TextPair
from scenarios.app.results.folder import (
    MANIFEST,
    RADIO_STUDY,
    RUNS,
    STUDY,
    TRAINING,
    LabelledRuns,
    check_version,
    find_record_file,
    format_failures,
    get_played_version,
    read_failures,
    read_finished_manifest,
    read_json,
    read_summary,
    refuse_mixed_versions,
)
from scenarios.app.results.read import (
    get_section,
    list_finished_runs,
    list_run_folders,
    read_curves,
    read_sweep_value,
)
from scenarios.app.results.sentences import read_sentences
from scenarios.app.results.statistics import group_by_label
from scenarios.app.study import Fields, Record
from scenarios.app.study.describe import to_flow_yaml
from scenarios.app.study.yaml_document import dump_yaml, read_document


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
    def remarks(self) -> list[str]:
        """What must be known of how the runs came together, and how many are left out."""
        remarks = [*filter(None, self.notes)]
        if self.missing:
            remarks.append(read_sentences().missing(self.missing + len(self.runs), self.missing))
        return remarks

    @property
    def drawn_indices(self) -> list[int]:
        """Places of the runs that are drawn: all, or a sample that is always the same."""
        n = len(self.runs)
        return np.linspace(0, n - 1, min(n, MOST_DRAWN)).round().astype(int).tolist()

    @property
    def is_training(self) -> bool:
        """Whether these are trainings, of a search."""
        return describe_file_kind(self.runs[0][1] / TRAINING) == "file"

    @property
    def is_radio(self) -> bool:
        """Whether these are radio studies."""
        return read_json(self.runs[0][1] / MANIFEST).get("kind") == RADIO_STUDY


def gather_side_by_side(folder: Path) -> Gathered:
    """Gather the runs in a folder that is not a sweep's.

    Which is said unless one command played all of them.
    """
    list_run_folders(folder)  # an unfinished sweep says so itself
    gathered = gather_runs([folder])
    commands = {str(read_json(path / MANIFEST).get("command") or path) for _, path in gathered.runs}
    note = (
        "No sweep played these runs, they only lie in one folder: they may differ in more than one "
        "way (What differs)."
    ) * (len(commands) > 1)
    name = folder.resolve().name
    return replace(
        gathered, name=name, title=f"Comparison of {name}", notes=[note, *gathered.notes]
    )


def gather_sweep(folder: Path) -> Gathered:
    """Gather the finished runs of a sweep."""
    finished = list_finished_runs(folder)
    runs, copies = drop_copies(finished)
    notes = [*format_failures(read_failures(folder)), copies]
    missing = len(list_run_folders(folder)) - len(finished)
    return Gathered(
        folder.resolve().name,
        runs,
        missing,
        read_curves(folder),
        notes,
        read_sweep_value(folder, "title") or "",
    )


def gather_runs(folders: Sequence[Path]) -> Gathered:
    """Gather all runs of the given folders.

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
        if not str(folder) or describe_file_kind(folder) != "folder":
            raise BadInput(f"{folder}: no such folder; give folders of runs or of sweeps")
        if any(any(folder.glob(place + TRAINING)) for place in ("", "seed-*/", "*/seed-*/")):
            raise BadInput(
                f"{folder}: holds a training, which has other figures than a run; netsim report "
                f"{folder} draws its page with all its seeds, and open_training of Python reads it"
            )
    if len(folders) == 1 and describe_file_kind(folders[0] / RUNS):
        return gather_sweep(folders[0])
    singles = []
    swept = []
    missing = 0
    notes = []
    for folder in folders:
        is_sweep = describe_file_kind(folder / RUNS)
        if not is_sweep and describe_file_kind(folder / MANIFEST):
            read_finished_manifest(folder)
            singles.append(folder)
            continue
        finished = list_finished_runs(folder)
        if is_sweep:
            swept += [(folder, label, path) for label, path in finished]
        else:
            singles += [path for _, path in finished]
        missing += len(list_run_folders(folder)) - len(finished)
        if failed := read_failures(folder):
            notes.append(to_one_line(f"{folder}: {' '.join(format_failures(failed))}"))
    sources = [*singles, *dict.fromkeys(folder for folder, _, _ in swept)]
    names = dict(zip(sources, _shorten_paths(sources), strict=True))
    studies = {path: dump_yaml(_drop_seeds(read_document(path / STUDY).data)) for path in singles}
    pooled = [(study, path) for path, study in studies.items()]
    pooled += [(f"{names[folder]}: {label}", path) for folder, label, path in swept]
    kept, copies = drop_copies(pooled)
    runs = _label_runs(kept, studies, names)
    if len(runs) < 2 and not copies:
        raise BadInput(
            f"{folders[0]}: one finished run, and nothing to compare it with; give two runs or "
            "more, or a sweep (netsim report draws the page of one run)"
        )
    name = " and ".join(names.values()) if len(names) < 4 else "runs compared"
    return Gathered(name, runs, missing, notes=[*notes, copies], title=f"Comparison of {name}")


def drop_copies(runs: LabelledRuns) -> tuple[LabelledRuns, str]:
    """Drop copies from runs that may be pooled by label, and name them in words.

    Runs of one label and seed are one. Those that read a file with other content have another
    label, which says so. Refuses radio studies beside runs that learn, and runs of several
    versions of netsim.
    """
    kinds = dict[bool, Path]()
    versions = dict[str, Path]()
    inputs = dict[str, Fields]()
    firsts = dict[TextPair, Path]()
    copies = []
    for label, path in runs:
        manifest = read_json(find_record_file(path))
        check_version(path, manifest)
        kinds.setdefault(manifest.get("kind") == RADIO_STUDY, path)
        versions.setdefault(get_played_version(manifest), path)
        files = get_section(manifest, "files")
        before = inputs.setdefault(label, files)
        name = label
        for file, content in files.items():
            if content != before.get(file):
                name += f", {Path(file).name} with other content ({content!s:.8})"
        first = firsts.setdefault((name, str(manifest.get("seed", path))), path)
        if first != path:
            copies.append(f"{path} is a copy of {first}")
    if len(kinds) > 1:
        raise BadInput(
            f"{kinds[True]} is a radio study and {kinds[False]} trains a model, which have no "
            "figure in common; compare them apart"
        )
    refuse_mixed_versions(versions)
    kept = [(label, path) for (label, _), path in firsts.items()]
    return kept, f"{', '.join(copies)}: one run, which counts once." if copies else ""


def _shorten_paths(paths: Sequence[Path]) -> list[str]:
    """Shorten paths to their ends, as long as they must be to tell all of them apart."""
    parts = [path.resolve().parts for path in paths]
    for k, path in enumerate(paths):
        if parts[k] in parts[:k]:
            raise BadInput(f"{path}: is given twice; give it once")
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(p[-length:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    return []


def _drop_seeds(study: Record) -> Fields:
    """Drop the keys that tell runs of one label apart."""
    return {key: value for key, value in study.items() if key not in _NOT_COMPARED}


def _label_runs(
    kept: LabelledRuns, studies: Mapping[Path, str], names: Mapping[Path, str]
) -> LabelledRuns:
    """Label runs for people.

    Single ones, of `studies`, share a label with their other seeds, unless all do.
    """
    labelled: LabelledRuns = []
    is_one_study = len({*studies.values()}) < 2
    for label, paths in group_by_label(kept).items():
        first = paths[0]
        end = label.removeprefix(studies.get(first, ""))
        if len(paths) > 1 and not is_one_study:
            end = f" and {len(paths) - 1} more of other seeds{end}"
        for path in paths:
            name = label
            if path in studies:
                name = names[path if is_one_study else first] + end
            labelled.append((name, path))
    return labelled


# -- which of very many runs are drawn

MOST_DRAWN = 100  # runs whose tables are read


def describe_sample(n: int, drawn: int) -> list[str]:
    """Describe how many of n runs are drawn; nothing where all are."""
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


def find_differing_keys(studies: Sequence[Record]) -> dict[str, list[str]]:
    """Find the dotted keys in which resolved studies differ, with their values as text.

    "–" where a study has no such key.
    """
    flat = [flatten_keys(_drop_seeds(study)) for study in studies]
    differing = {}
    for key in dict.fromkeys(key for study in flat for key in study):
        texts = [to_flow_yaml(study[key]) if key in study else "–" for study in flat]
        if len(set(texts)) > 1:
            differing[key] = texts
    return differing


def flatten_keys(value: object, path: str = "") -> Fields:
    """Flatten a JSON object: path -> value of everything in it."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {path: value}
    flat: Fields = {}
    for key, item in value.items():
        flat |= flatten_keys(item, f"{path}.{key}".lstrip("."))
    return flat
