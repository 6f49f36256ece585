"""Reports: the page of a run, or a page that compares runs; a pure function of run folders.

Simulates nothing, imports no learning library, and reads no clock: the same folder gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import OURS_MOST_BYTES, content, remove_parts, what_is
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Verdict
from scenarios.app.report.compare_page import command_of, comparison
from scenarios.app.report.plot import GENERATOR, Cells, Chapter, Mark, configuration, page, table
from scenarios.app.report.run_page import single
from scenarios.app.report.training_page import train_page
from scenarios.app.results.folder import MANIFEST, PAGE, RUNS, SUMMARY, SWEEP, marked, read_failures
from scenarios.app.results.gathered import Gathered, gathered, of_sweep, side_by_side
from scenarios.app.results.read import load
from scenarios.app.results.trainings import trainings
from scenarios.app.study import Record


def report(folder: Path, pages: bool = False) -> Path:
    """Write `report.html` into the folder of a run, a sweep, a training, or of several runs; returns its path.

    pages : of a sweep, also that of every run, to which the page of the sweep then leads.

    Raises
    ------
    BadInput : one line: not such a folder, or a file in it is damaged.
    """
    if not str(folder):
        raise BadInput("report: the name of the folder is empty; give the folder of a run, a sweep or a training")
    folder = Path(folder)
    if what_is(folder) != "folder":
        raise BadInput(f"{folder}: no such folder; give the folder of a run, a sweep or a training")
    trained = trainings(folder)
    if trained:
        text = train_page(trained, read_failures(folder))
    elif (what_is(folder / MANIFEST) or marked(folder) == "run") and not (
        what_is(folder / RUNS) or what_is(folder / SWEEP)
    ):
        text = single(load(folder))
    else:
        text = _swept(folder, pages)
    return written(folder / PAGE, text)


def compare(
    folders: Sequence[Path], out: Path, command: str = "", pages: bool = False, reach: float | None = None
) -> Path:
    """Write a page that compares the runs and sweeps of these folders; returns its path.

    pages : also that of every run, to which this page then leads. reach : RMSE (dB) or accuracy (%) whose first time is
    told.
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
        what = "is a folder; give the name of a file" if kind == "folder" else "is not a page of ours; move it"
        raise BadInput(f"{path}: {what}, and give the command again")


def _swept(folder: Path, pages: bool) -> str:
    """The page of a sweep, or of runs in one folder, ."""
    of = of_sweep(folder) if what_is(folder / RUNS) else side_by_side(folder)
    if pages:
        _each(of)
    return comparison(of, folder, command_of(folder))


def _each(of: Gathered) -> None:
    """The page of every run."""
    for _, path in of.runs:
        report(path)


def runs_page(top: Path, folders: Sequence[Record]) -> Path:
    """Write a page beside a folder, `runs.html`: a table of what is in it, with links to pages; returns its path."""
    out = Path(f"{top.resolve()}.html")
    heads = ("folder", "kind", "date", "title", "result")
    rows: Cells = []
    for one in folders:
        where = (
            Mark(links=[(one["folder"], os.path.relpath(one["page"], out.parent))]) if one["page"] else one["folder"]
        )
        rows.append([where, *(one[head] for head in heads[1:])])
    found = Chapter("folders", "Folders", [table(str(top), heads, rows, "folders-all")])
    return written(out, page(f"Results in {top}", [found], says=["Without a link: `netsim report` draws the page."]))


# -- claims

_HEADS = ("publication", "where", "claim", "published", "ours", "verdict", "why", "runs", "name")
_LOOKS = {HOLDS: "held", FAILS: "not-held", OPEN: "open"}
_HOW = (
    "A claim holds where the 95 % interval over seeds of every median that its rule looks at lies within the rule's "
    "bounds, and does not hold where one lies outside; else it is undecided, as it is with one seed.",
    "Ours: the median over seeds, in brackets the quartiles, with the label of the sweep that it is of.",
    "Low leakage decides nothing where at least half of the models are not useful; high leakage is real there too.",
)


def claims_page(verdicts: Sequence[Verdict], folders: Mapping[str, Path], place: Path, command: str = "") -> str:
    """The page of claims: what publications print, what our runs give, and whether the two agree.

    folders : scenario -> the folder of its runs, to whose page claims lead where it is drawn. place : the folder in
    which this page will lie.
    """
    title = "Published claims, and whether our runs agree"
    words = [one.verdict for one in verdicts]
    papers = [one.claim.paper for one in verdicts]
    rows: Cells = []
    for one in sorted(verdicts, key=lambda one: papers.index(one.claim.paper)):
        scenario = one.claim.scenario
        page_of = folders.get(scenario, place / "none") / PAGE
        runs = Mark(links=[(scenario, os.path.relpath(page_of, place))]) if what_is(page_of) == "file" else scenario
        stated = [one.row[name] for name in ("paper", "where", "says", "value", "ours")]
        rows.append([*stated, Mark(one.verdict, kind=_LOOKS[one.verdict]), one.reason, runs, one.claim.id])
    there = [name for name, folder in folders.items() if what_is(folder) == "folder"]
    facts = {"command": command or "not recorded", "runs of": ", ".join(there) or "none"}
    chapters = [
        Chapter("claims-all", "All claims", [table(title, _HEADS, rows, "claims")]),
        configuration(facts),
    ]
    counts = ", ".join(f"{words.count(word)} {word}" for word in _LOOKS)
    return page(title, chapters, answers=[(f"{len(verdicts)} claims", f"{counts}.")], says=_HOW)


def claims_report(
    verdicts: Sequence[Verdict], folders: Mapping[str, Path], out: Path, command: str = "", pages: bool = False
) -> Path:
    """Write the page of verdicts; returns its path. pages : also draw the pages of the folders, to which it leads."""
    check_ours(out)
    for folder in dict.fromkeys(folders.values()) if pages else ():
        if what_is(folder / RUNS) or what_is(folder / SUMMARY):
            report(folder)
    return written(out, claims_page(verdicts, folders, out.parent, command))
