"""Reports: the page of a run, or a page that compares runs; a pure function of run folders.

Simulates nothing, imports no learning library, and reads no clock: the same folder gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import OURS_MOST_BYTES, content, what_is
from scenarios.app.report.compare_page import comparison
from scenarios.app.report.html import GENERATOR
from scenarios.app.report.radio_page import is_radio, of_radio, radio_comparison, radio_single
from scenarios.app.report.run_page import single
from scenarios.app.report.training_page import train_page, trainings
from scenarios.app.results.folder import MANIFEST, PAGE
from scenarios.app.results.read import RUNS, load
from scenarios.app.results.run import Run
from scenarios.app.study.yaml_document import one_line


def report(folder: Path) -> Path:
    """Write `report.html` into the folder of a run, a sweep, several runs, or a training; returns its path.

    Raises
    ------
    BadInput : one line: not such a folder, or a file in it is damaged.
    """
    if not str(folder):
        raise BadInput("report: the name of the folder is empty; give the folder of a run or of a sweep")
    folder = Path(folder)
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run or of a sweep"))
    trained = trainings(folder)
    several = bool(what_is(folder / RUNS)) or not what_is(folder / MANIFEST)
    text = train_page(trained) if trained else _compared(folder) if several else _single(load(folder))
    try:
        old = content(folder / PAGE, OURS_MOST_BYTES, own=True) if what_is(folder / PAGE) == "file" else None
        if old is not None and GENERATOR.encode() not in old:
            raise BadInput(one_line(f"{folder / PAGE}: is not a page of ours; move it, and give the command again"))
        write_text(folder / PAGE, text)
    except OSError as error:
        raise BadInput(one_line(f"{folder / PAGE}: cannot be written ({error.strerror})")) from None
    return folder / PAGE


def _single(run: Run) -> str:
    """The page of one run of any kind."""
    return radio_single(run) if is_radio(run.manifest) else single(run)


def _compared(folder: Path) -> str:
    """The page of several runs."""
    return radio_comparison(folder) if of_radio(folder) else comparison(folder)
