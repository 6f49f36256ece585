"""Reports: the page of a run, or a page that compares runs; a pure function of run folders.

Simulates nothing, imports no learning library, and reads no clock: the same folder gives the same
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from netsim.errors import BadInput, counted
from netsim.record import write_text
from netsim.safe import OURS_MOST_BYTES, content, remove_parts, what_is
from scenarios.app.report.compare_page import comparison
from scenarios.app.report.plot import GENERATOR
from scenarios.app.report.run_page import single
from scenarios.app.report.training_page import Seeds, train_page
from scenarios.app.results.folder import PAGE, RUNS
from scenarios.app.results.gathered import Gathered, gathered, of_sweep, side_by_side
from scenarios.app.results.kinds import kind_of
from scenarios.app.results.read import Run, of_sweep_file, open_finished, read_whole


def report(folder: Path, pages: bool = False) -> Path:
    """Write `report.html` into the folder of a run, a sweep, a training, or of several runs;
    returns its path.

    pages : of a sweep, also that of every run, to which the page of the sweep then leads.

    Raises
    ------
    BadInput : one line: not such a folder, or a file in it is damaged.
    """
    if not str(folder):
        raise BadInput(
            "report: the name of the folder is empty; give the folder of a run, a sweep "
            "or a training"
        )
    folder = Path(folder)
    if what_is(folder) != "folder":
        raise BadInput(f"{folder}: no such folder; give the folder of a run, a sweep or a training")
    return written(folder / PAGE, PAGES[kind_of(folder)](folder, pages))


def draw_run(run: Run) -> Path:
    """Write the page of a run into its folder; returns its path. BadInput: a file of the run is
    damaged.
    """
    return written(run.folder / PAGE, single(read_whole(run)))


def compare(
    folders: Sequence[Path],
    out: Path,
    command: str = "",
    pages: bool = False,
    reach: float | None = None,
) -> Path:
    """Write a page that compares the runs and sweeps of these folders; returns its path.

    pages : also that of every run, to which this page then leads. reach : RMSE (dB) or accuracy (%)
    whose first time is told.
    """
    check_ours(out)
    of = gathered(folders)
    if pages:
        _each(of)
    return written(out, comparison(of, out.parent, command, reach))


def written(path: Path, text: str) -> Path:
    """A page, kept; what is not a page of ours is left alone."""
    check_ours(path)
    try:
        remove_parts(path.parent, path.name)
        write_text(path, text)
    except OSError as error:
        remedy = "make room, or see that it can be written; the same command goes on"
        raise BadInput(f"{path}: cannot be written ({error.strerror}); {remedy}") from None
    return path


def check_ours(path: Path) -> None:
    """Refuse to write over anything but a page of ours."""
    kind = what_is(path)
    try:
        old = content(path, OURS_MOST_BYTES, own=True) if kind == "file" else None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    if kind == "folder" or (old is not None and GENERATOR.encode() not in old):
        what = (
            "is a folder; give the name of a file"
            if kind == "folder"
            else "is not a page of ours; move it"
        )
        raise BadInput(f"{path}: {what}, and give the command again")


def _swept(folder: Path, pages: bool) -> str:
    """The page of a sweep, or of runs in one folder."""
    of = of_sweep(folder) if what_is(folder / RUNS) else side_by_side(folder)
    if not of.runs:
        raise BadInput(
            f"{folder}: no finished run among {counted(of.missing, 'run')}; start them again"
        )
    if pages:
        _each(of)
    return comparison(of, folder, of_sweep_file(folder, "command") or "")


def _trained(folder: Path, _: bool) -> str:
    seeds = Seeds.of(folder)
    if not seeds.trained:
        raise BadInput(f"{folder}: no training in it is finished; start it again and it goes on")
    return train_page(seeds)


PAGES: dict[str, Callable[[Path, bool], str]] = {
    "training": _trained,
    "sweep": _swept,
    "run": lambda folder, _: single(read_whole(open_finished(folder))),
    "": _swept,
}
"""kind of a folder -> its page"""


def _each(of: Gathered) -> None:
    """The page of every run."""
    for _, path in of.runs:
        report(path)
