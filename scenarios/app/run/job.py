"""A job: one piece of work with its folder. A run and a training are jobs; a sweep is a list.

    job = Job(RUN, study, study.seed, digest_inputs(study), Path("runs/city/1"))
    summary = do_job(job)               # read back where the folder has it, else played
    results = do_jobs(jobs, engine, at_once, out, watch)    # of `executor`

A folder is *done* with the job whose text it holds as `study.yaml` once its record says `finished`;
it is *occupied* by any other text, unless the job replaces it; it *failed* where it has an
`error.txt`. A kind of work is played by a function of the form

    def play(job: Job, watch: Watch) -> Fields:
        world = prepare(job)            # refuses bad input before anything is written
        with job.hold():                # lock, admit, write study.yaml; raises Finished
            going = job.resume(restore)     # the checkpoint, or None
            if going is None:
                job.clear()
            ...                         # write results, the record with `finished`, last the
            summary
            job.settle()                # no checkpoint, no error.txt any more
        return summary
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TypeVar

from netsim import __version__
from netsim.checkpoint import load_tree
from netsim.errors import BadInput, squeeze_text
from netsim.part import split_code_name
from netsim.record import write_text
from netsim.safe import (
    describe_file_kind,
    list_files_below,
    open_regular,
    read_content,
    read_file_version,
)
from netsim.trace_files.read import list_trace_files
from netsim.traces.source import MOST_FILE_BYTES
from netsim.units import IntPair, TextPair, Texts
from scenarios.app.results.folder import (
    CHECKPOINT,
    ERROR,
    STUDY,
    SUMMARY,
    VIEWS,
    Mark,
    get_played_version,
    has_our_marker,
    has_text,
    lock_folder,
    read_json,
    refuse_irregular_files,
    refuse_links,
    remove_files,
    remove_views,
)
from scenarios.app.run.events import Watch, ignore_event
from scenarios.app.study import Fields, Record, Value
from scenarios.app.study.load import find_file_places
from scenarios.app.study.python_values import digest_held_parts
from scenarios.app.study.study import Study, to_study_yaml
from scenarios.app.study.yaml_document import get_value_at

Restored = TypeVar("Restored")
UNFIT = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""what a checkpoint of other types, shapes and sizes raises where it is read"""
_READ = re.compile(r"^# reads (\".*\") (\w*)\n", re.MULTILINE)
_NO_CONTENT = (".html", ".part")
"""ends of names that say nothing of the content of a folder: pages, and files that are being
written"""
MOST_TEXT_BYTES = 2**26
KEEPS_VIEWS = ("keeps views",)
"""notes of a run that keeps what its attacker receives"""


@dataclass(frozen=True)
class JobKind:
    """A kind of work.

    name : in the marker of its folder. files : every name that it may write, but the marker.

    record : the JSON file of these with `finished`, `study` (digest of the text) and the version
    that made it. play : `play(job, watch)` -> plain data; of a module's top level, so that other
    processes find it.
    """

    name: Mark
    files: Texts
    record: str
    play: Callable[[Job, Watch], Value]


@dataclass(frozen=True)
class Job:
    """A piece of work. Two jobs with one text have the same results, byte by byte.

    study : as it was asked for, whatever is written into it when it is played. inputs : file that
    it reads -> its digest. notes : what else decides the results, one line each. label : in tables
    of several jobs. replace : whether a folder of another text may be replaced. options : of
    `play`; they change no result.
    """

    kind: JobKind
    study: Study = field(repr=False)
    seed: int
    inputs: Mapping[str, str]
    folder: Path
    label: str = ""
    replace: bool = False
    notes: Sequence[str] = ()
    options: Record = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """What `study.yaml` holds: notes and inputs as comments, then the study."""
        lines = [
            *self.notes,
            *(f"reads {json.dumps(file)} {digest}" for file, digest in self.inputs.items()),
        ]
        return "".join(f"# {line}\n" for line in lines) + to_study_yaml(self.study)

    @cached_property
    def key(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def with_options(self, **options: object) -> Job:
        """Return the same job with other options."""
        return replace(self, options={**self.options, **options})

    def admit(self) -> None:
        """Raise BadInput where the folder is occupied by something else; nothing is written."""
        folder = self.folder
        kind = self.kind
        if not has_our_marker(folder, kind.name):
            return
        refuse_irregular_files(folder, lambda name: name in kind.files)
        refuse_links(folder, [VIEWS])
        begun = describe_file_kind(folder / STUDY) or describe_file_kind(folder / kind.record)
        if not begun or self.is_here():
            return
        file, digest = find_changed_input_and_digest(folder / STUDY, self.text)
        if file and not digest:
            raise BadInput(
                f"{file}: cannot be read, and the {kind.name} in {folder} read it; put it back"
            )
        if not self.replace:
            state = "finished" if describe_file_kind(folder / SUMMARY) else "unfinished"
            text = (
                f"that read {file} with other content"
                if file
                else "of another study, seed or program version"
            )
            raise BadInput(
                f"{folder}: holds the {state} {kind.name} {text}; add --replace, or "
                f"give --out another folder"
            )

    def find_summary(self) -> Fields | None:
        """Return the summary, where the folder has it; None where the job is to be played.

        Raises BadInput for the result of another version of the program, unless the job replaces
        it.
        """
        if not self.is_here():
            return None
        try:
            record = read_json(self.folder / self.kind.record)
            summary = read_json(self.folder / SUMMARY) if record.get("finished") else None
        except BadInput:
            return None
        version = get_played_version(record)
        if summary is None or version == __version__:
            return summary
        if self.replace:
            return None
        raise BadInput(
            f"{self.folder}: holds a finished {self.kind.name} of netsim {version}, and this is "
            f"{__version__}; go on with that version, or add --replace to play it again"
        )

    @cached_property
    def first_version(self) -> IntPair:
        """Version of the summary when this was first asked for."""
        return read_file_version(self.folder / SUMMARY)

    @contextmanager
    def hold(self) -> Generator[bool]:
        """Lock the folder, admit the job, and write its text; what was there of another text is
        removed, and yields whether there was any.

        Waits for another process that does the same job, and raises Finished where it has ended
        since `do_job` began.
        """
        self.first_version  # noqa: B018 - before the lock is waited for
        with lock_folder(self.folder, self.kind.name, self.admit, self.is_here):
            if (
                self.first_version != read_file_version(self.folder / SUMMARY)
                and (done := self.find_summary()) is not None
            ):
                raise Finished(done)
            is_other = not self.is_here()
            if is_other:
                self.clear()
                write_text(self.folder / STUDY, self.text)
            yield is_other

    def is_here(self) -> bool:
        """Return whether the folder holds this very job, finished or not."""
        return has_text(self.folder / STUDY, self.text)

    def measure_share(self) -> float:
        """Return the share of a run under way that is played; 0 where that is not known."""
        with suppress(BadInput, OSError, LookupError, ValueError):
            last = (self.folder / "rounds.csv").read_text().splitlines()[-1]
            record = read_json(self.folder / self.kind.record)
            return float(last.split(",")[1]) / float(record["duration_s"])
        return 0.0

    def clear(self) -> None:
        """Remove all results."""
        remove_files(self.folder, {*self.kind.files} - {STUDY})
        remove_views(self.folder)

    def settle(self) -> None:
        """Remove what finished work does not need: its checkpoint, and the error of a failed
        attempt.
        """
        remove_files(self.folder, (CHECKPOINT, ERROR))

    def fail(self, trace: str) -> None:
        """Write `error.txt`; a summary of earlier work goes. Nothing where the folder is not ours,
        or cannot be had.
        """
        with (
            suppress(BadInput, OSError),
            lock_folder(
                self.folder, self.kind.name, partial(has_our_marker, self.folder, self.kind.name)
            ),
        ):
            (self.folder / SUMMARY).unlink(missing_ok=True)
            write_text(self.folder / ERROR, trace)

    def to_checkpoint(self, **state: object) -> Fields:
        """Return the tree of a checkpoint with this state, for `save_tree`."""
        return {"key": self.key, "program": __version__, **state}

    def resume(self, restore: Callable[[Fields], Restored]) -> Restored | None:
        """Return what `restore` makes of the tree of the checkpoint; None where there is none.

        restore : changes nothing; raises one of UNFIT. Raises BadInput for a checkpoint of another
        text or program version, and for one that does not fit; a job that replaces forgets it.
        """
        path = self.folder / CHECKPOINT
        if not describe_file_kind(path):
            return None
        try:
            tree = load_tree(path)
            if not isinstance(tree, dict) or tree.get("key") != self.key:
                raise ValueError("it is of another study or seed")
            if (program := str(tree.get("program"))) != __version__:
                raise ValueError(f"it is of netsim {program[:20]}, this is {__version__}")
            return restore(tree)
        except UNFIT as error:
            if self.replace:
                return None
            raise self.explain_unfit("the checkpoint does not fit this study", error) from None

    def explain_unfit(self, problem: str, error: Exception) -> BadInput:
        """Return why the job cannot go on from its checkpoint, in one line."""
        path = self.folder / CHECKPOINT
        reason = squeeze_text(str(error).replace(f"{path}: ", ""), 200)
        return BadInput(
            f"{path}: {problem} ({reason}); delete it, or add --replace, to start again"
        )


class Finished(Exception):
    """Another process has done the job in the meantime."""

    def __init__(self, summary: Fields) -> None:
        self.summary = summary
        super().__init__()


def do_job(job: Job, watch: Watch = ignore_event) -> Value:
    """Return the result of a job: read back where its folder has it, else played, from its
    checkpoint where there is one.

    A job that another process is doing is waited for, and its result read back.
    """
    job.first_version  # noqa: B018 - a summary that is written from here on is of another process
    done = job.find_summary()
    if done is not None:
        job.settle()
        return done
    try:
        return job.kind.play(job, watch)
    except Finished as other:
        return other.summary


def find_changed_input_and_digest(path: Path, text: str) -> TextPair:
    """Return the first file of which the text in `path` has another digest than `text`, and its
    digest now.

    Empty where the two differ in more than digests, or not at all; an empty digest: the file cannot
    be read.
    """
    try:
        old = read_content(path, MOST_TEXT_BYTES, is_ours=True).decode("utf-8", "replace")
    except OSError:
        return "", ""
    before = _READ.findall(old)
    changed = [
        (json.loads(file), digest)
        for file, digest in _READ.findall(text)
        if (file, digest) not in before
    ]
    if changed and _READ.sub("", old) == _READ.sub("", text):
        return changed[0]
    return ("", "")


def digest_inputs(study: Study) -> dict[str, str]:
    """Return SHA-256 of each file that a study reads, by its path; empty for one that cannot be
    read. Parts that live in Python alone are among them, by name.

    Of a folder that of all its files with their names, but for pages, and for files that are no
    trace in a trace.
    """
    data = study.model_dump(mode="json", exclude={"vary", "train"}, warnings=False) | {"seed": 0}
    return {
        file: _digest_input(file, place[-1] == "trace")
        for place in find_file_places(data)
        for text in [get_value_at(data, place)]
        if (file := split_code_name(text)[0] or text)
    } | digest_held_parts(study)


def _digest_input(file: str, is_trace: bool) -> str:
    path = Path(file)
    try:
        if describe_file_kind(path) != "folder":
            return _digest_file(path, path.stat().st_mtime_ns)
        inside = map(Path, list_trace_files(file)) if is_trace else list_files_below(path)
        files = [p for p in inside if p.suffix not in _NO_CONTENT]
        lines = [f"{p.relative_to(path)}\n{_digest_file(p, p.stat().st_mtime_ns)}\n" for p in files]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _digest_file(path: Path, mtime_ns: int) -> str:
    """Return SHA-256 of a file, which is read once as long as it stays the same: sweeps have many
    runs of large traces.
    """
    with open_regular(path, MOST_FILE_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto
