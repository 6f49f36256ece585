"""Reports: the page of a run, or a page that compares runs; a pure function of run folders.

Simulates nothing, imports no learning library, and reads no clock: the same folder gives the same
bytes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from netsim.errors import BadInput, format_count
from netsim.safe import (
    OURS_MOST_BYTES,
    describe_file_kind,
    open_replacement,
    read_content,
    remove_parts,
)
from scenarios.app.report.compare_page import build_comparison_page
from scenarios.app.report.plot import GENERATOR
from scenarios.app.report.run_page import build_run_page
from scenarios.app.results.folder import PAGE, RUNS
from scenarios.app.results.gathered import Gathered, gather_runs, gather_side_by_side, gather_sweep
from scenarios.app.results.kinds import detect_kind
from scenarios.app.results.read import Run, open_finished_run, read_all_files, read_sweep_value


def write_report(folder: Path, pages: bool = False) -> Path:
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
    if describe_file_kind(folder) != "folder":
        raise BadInput(f"{folder}: no such folder; give the folder of a run, a sweep or a training")
    return write_page(folder / PAGE, PAGES[detect_kind(folder)](folder, pages))


def write_run_page(run: Run) -> Path:
    """Write the page of a run into its folder; returns its path. BadInput: a file of the run is
    damaged.
    """
    return write_page(run.folder / PAGE, build_run_page(read_all_files(run)))


def write_comparison(
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
    refuse_foreign_page(out)
    gathered = gather_runs(folders)
    if pages:
        _write_run_pages(gathered)
    return write_page(out, build_comparison_page(gathered, out.parent, command, reach))


def write_page(path: Path, content: str | bytes, mark: str = GENERATOR) -> Path:
    """Write a page, or another kind of file with its mark, kept; what is not ours is left alone."""
    refuse_foreign_page(path, mark)
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    try:
        remove_parts(path.parent, path.name)
        with open_replacement(path) as file:
            file.write(content)
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be written ({error.strerror}); make room, or see that it can be "
            "written; the same command goes on"
        ) from None
    return path


def refuse_foreign_page(path: Path, mark: str = GENERATOR) -> None:
    """Refuse to write over anything but a page of ours, or another kind of file with its mark."""
    kind = describe_file_kind(path)
    try:
        old = read_content(path, OURS_MOST_BYTES, is_ours=True) if kind == "file" else None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    if kind == "folder" or (old is not None and mark.encode() not in old):
        reason = (
            "is a folder; give the name of a file"
            if kind == "folder"
            else "is not a file of ours; move it"
        )
        raise BadInput(f"{path}: {reason}, and give the command again")


def _render_sweep(folder: Path, pages: bool) -> str:
    """Render the page of a sweep, or of runs in one folder."""
    gathered = (
        gather_sweep(folder) if describe_file_kind(folder / RUNS) else gather_side_by_side(folder)
    )
    if not gathered.runs:
        raise BadInput(
            f"{folder}: no finished run among {format_count(gathered.missing, 'run')}; "
            f"start them again"
        )
    if pages:
        _write_run_pages(gathered)
    return build_comparison_page(gathered, folder, read_sweep_value(folder, "command") or "")


def _render_training(folder: Path, _: bool) -> str:
    # here, since no other page needs Gymnasium
    from scenarios.app.report.training_page import Seeds, build_training_page

    seeds = Seeds.from_folder(folder)
    if not seeds.trained:
        raise BadInput(f"{folder}: no training in it is finished; start it again and it goes on")
    return build_training_page(seeds)


PAGES: dict[str, Callable[[Path, bool], str]] = {
    "training": _render_training,
    "sweep": _render_sweep,
    "run": lambda folder, _: build_run_page(read_all_files(open_finished_run(folder))),
    "": _render_sweep,
}
"""kind of a folder -> its page"""


def _write_run_pages(gathered: Gathered) -> None:
    """Write the page of every run."""
    for _, path in gathered.runs:
        write_report(path)
