"""A job: one piece of work with its folder. A run and a training are jobs; a sweep is a list.

    job = Job(RUN, study, study.seed, input_digests(study), Path("runs/city/1"))
    summary = do(job)                   # read back where the folder has it, else played
    found = do_all(jobs, engine, at_once, out, ended)    # of `executor`; engine: processes, Ray or
    Slurm

A folder is *done* with the job whose text it holds as `study.yaml` once its record says `finished`;
it is *occupied* by any other text, unless the job replaces it; it *failed* where it has an
`error.txt`. A kind of work is played by a function of the form

    def play(job: Job, watch: Watch) -> Fields:
        world = prepare(job)            # refuses bad input before anything is written
        with job.hold():                # lock, admit, write study.yaml; raises Finished, which `do`
        catches
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
from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import content, file_version, files_below, opened, what_is
from netsim.trace_files.read import files_of
from netsim.traces.source import MOST_FILE_BYTES
from scenarios.app.results.folder import (
    CHECKPOINT,
    ERROR,
    STUDY,
    SUMMARY,
    Mark,
    check_files,
    held,
    is_text,
    ours,
    read_json,
    version_of,
)
from scenarios.app.run.events import Watch, ignore
from scenarios.app.study import Fields, Record, Value
from scenarios.app.study.load import file_fields
from scenarios.app.study.study import Study, study_yaml
from scenarios.app.study.yaml_document import value_at

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


@dataclass(frozen=True)
class JobKind:
    """A kind of work.

    name : in the marker of its folder. files : every name that it may write, but the marker.

    record : the JSON file of these with `finished`, `study` (digest of the text) and the version
    that made it. play : `play(job, watch)` -> plain data; of a module's top level, so that other
    processes find it.
    """

    name: Mark
    files: tuple[str, ...]
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
        return "".join(f"# {line}\n" for line in lines) + study_yaml(self.study)

    @cached_property
    def key(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def played(self, **options: object) -> Job:
        """The same job with other options."""
        return replace(self, options={**self.options, **options})

    def admit(self) -> None:
        """Raise BadInput where the folder is occupied by something else; nothing is written."""
        folder = self.folder
        kind = self.kind
        if not ours(folder, kind.name):
            return
        check_files(folder, lambda name: name in kind.files)
        begun = what_is(folder / STUDY) or what_is(folder / kind.record)
        if not begun or self.is_here():
            return
        file, digest = changed_input(folder / STUDY, self.text)
        if file and not digest:
            raise BadInput(
                f"{file}: cannot be read, and the {kind.name} in {folder} read it; put it back"
            )
        if not self.replace:
            state = "finished" if what_is(folder / SUMMARY) else "unfinished"
            which = (
                f"that read {file} with other content"
                if file
                else "of another study, seed or program version"
            )
            raise BadInput(
                f"{folder}: holds the {state} {kind.name} {which}; add --replace, or "
                f"give --out another folder"
            )

    def done(self) -> Fields | None:
        """The summary, where the folder has it; None where the job is to be played.

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
        version = version_of(record)
        if summary is None or version == __version__:
            return summary
        if self.replace:
            return None
        raise BadInput(
            f"{self.folder}: holds a finished {self.kind.name} of netsim {version}, and this is "
            f"{__version__}; go on with that version, or add --replace to play it again"
        )

    @cached_property
    def seen(self) -> tuple[int, int]:
        """Version of the summary when this was first asked for."""
        return file_version(self.folder / SUMMARY)

    @contextmanager
    def hold(self) -> Generator[bool, None, None]:
        """Lock the folder, admit the job, and write its text; what was there of another text is
        removed, and yields whether there was any.

        Waits for another process that does the same job, and raises Finished where it has ended
        since `do` began.
        """
        self.seen  # noqa: B018 - before the lock is waited for
        with held(self.folder, self.kind.name, self.admit, self.is_here):
            if (
                self.seen != file_version(self.folder / SUMMARY)
                and (done := self.done()) is not None
            ):
                raise Finished(done)
            other = not self.is_here()
            if other:
                self.clear()
                write_text(self.folder / STUDY, self.text)
            yield other

    def is_here(self) -> bool:
        """Whether the folder holds this very job, finished or not."""
        return is_text(self.folder / STUDY, self.text)

    def clear(self) -> None:
        """Remove all results."""
        for name in self.kind.files:
            if name != STUDY:
                (self.folder / name).unlink(missing_ok=True)

    def settle(self) -> None:
        """Remove what finished work does not need: its checkpoint, and the error of a failed
        attempt.
        """
        for name in (CHECKPOINT, ERROR):
            (self.folder / name).unlink(missing_ok=True)

    def fail(self, trace: str) -> None:
        """Write `error.txt`; a summary of earlier work goes. Nothing where the folder is not ours,
        or cannot be had.
        """
        with (
            suppress(BadInput, OSError),
            held(self.folder, self.kind.name, partial(ours, self.folder, self.kind.name)),
        ):
            (self.folder / SUMMARY).unlink(missing_ok=True)
            write_text(self.folder / ERROR, trace)

    def checkpoint(self, **state: object) -> Fields:
        """The tree of a checkpoint with this state, for `save_tree`."""
        return {"key": self.key, "program": __version__, **state}

    def resume(self, restore: Callable[[Fields], Restored]) -> Restored | None:
        """What `restore` makes of the tree of the checkpoint; None where there is none.

        restore : changes nothing; raises one of UNFIT. Raises BadInput for a checkpoint of another
        text or program version, and for one that does not fit; a job that replaces forgets it.
        """
        path = self.folder / CHECKPOINT
        if not what_is(path):
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
            raise self.unfit("the checkpoint does not fit this study", error) from None

    def unfit(self, what: str, error: Exception) -> BadInput:
        """Why the job cannot go on from its checkpoint, in one line."""
        where = self.folder / CHECKPOINT
        why = " ".join(str(error).replace(f"{where}: ", "").split())[:200]
        return BadInput(f"{where}: {what} ({why}); delete it, or add --replace, to start again")


class Finished(Exception):
    """Another process has done the job in the meantime."""

    def __init__(self, summary: Fields) -> None:
        self.summary = summary
        super().__init__()


def do(job: Job, watch: Watch = ignore) -> Value:
    """The result of a job: read back where its folder has it, else played, from its checkpoint
    where there is one.

    A job that another process is doing is waited for, and its result read back.
    """
    job.seen  # noqa: B018 - a summary that is written from here on is of another process
    done = job.done()
    if done is not None:
        job.settle()
        return done
    try:
        return job.kind.play(job, watch)
    except Finished as other:
        return other.summary


def changed_input(path: Path, text: str) -> tuple[str, str]:
    """The first file of which the text in `path` has another digest than `text`, and its digest
    now.

    Empty where the two differ in more than digests, or not at all; an empty digest: the file cannot
    be read.
    """
    try:
        old = content(path, MOST_TEXT_BYTES, own=True).decode("utf-8", "replace")
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


def input_digests(study: Study) -> dict[str, str]:
    """SHA-256 of each file that a study reads, by its path; empty for one that cannot be read.

    Of a folder that of all its files with their names, but for pages, and for files that are no
    trace in a trace.
    """
    data = study.model_dump(mode="json", exclude={"vary", "train"}) | {"seed": 0}
    return {
        file: _digest(file, at[-1] == "trace")
        for at in file_fields(data)
        if (file := str(value_at(data, at)))
    }


def _digest(file: str, is_trace: bool) -> str:
    path = Path(file)
    try:
        if what_is(path) != "folder":
            return _digest_of(path, path.stat().st_mtime_ns)
        inside = map(Path, files_of(file)) if is_trace else files_below(path)
        files = [p for p in inside if p.suffix not in _NO_CONTENT]
        lines = [f"{p.relative_to(path)}\n{_digest_of(p, p.stat().st_mtime_ns)}\n" for p in files]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _digest_of(path: Path, mtime_ns: int) -> str:
    """SHA-256 of a file, which is read once as long as it stays the same: sweeps have many runs of
    large traces.
    """
    with opened(path, MOST_FILE_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto
