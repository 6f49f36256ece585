"""A run in Python: play it, or open a finished one; its summary, tables, figures and page."""

from __future__ import annotations

import html
import os
import sys
import traceback
import webbrowser
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import PAGE
from scenarios.app.results.kinds import kind_of
from scenarios.app.results.read import Frames, Run, listed, open_finished, read_whole
from scenarios.app.run.events import Watch, ignore, interrupted
from scenarios.app.run.how import USUAL, How
from scenarios.app.study import Record

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from scenarios.app.study.study import Study


def show_page(page: Path) -> bool:
    """Open a page in the browser; whether one took it. One in the terminal cannot draw it, and
    would take its place.
    """
    windows = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if sys.platform not in ("darwin", "win32") and not windows:
        return False
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False


def run(
    study: Study,
    out: str | Path,
    watch: Watch = ignore,
    command: str = "",
    replace: bool = False,
    how: How = USUAL,
) -> Result:
    """Run a study into the folder `out`; returns what it found.

    An unfinished run of the very same study in that folder is resumed from its last checkpoint and
    ends in the same bytes; a finished one is read back. With `replace` it is played again; the run
    of another study, which is refused otherwise, is replaced, and a checkpoint that cannot be used
    is forgotten. Everything runs on one thread, so results do not depend on the number of cores;
    sweeps use several processes instead. how : settings that change no result.
    """
    from scenarios.app.run.job import Finished  # here, since what plays loads for long
    from scenarios.app.run.runner import play_job, run_job

    job = run_job(study, out, command=command, replace=replace, how=how)
    job.admit()
    job.seen  # noqa: B018 - a summary that is written from here on is of another process
    try:
        if replace or job.done() is None:
            return Result(play_job(job, watch))
        job.settle()
    except Finished:
        pass
    except Exception as error:
        if not (isinstance(error, BadInput) or interrupted()):
            job.fail(traceback.format_exc())
        raise
    return Result(open_finished(job.folder))


def open_run(folder: str | Path) -> Result:
    """The finished run of a folder.

    Raises BadInput: it holds no run, several, or one that is not finished.
    """
    path = Path(folder)
    if what_is(path) != "folder":
        raise BadInput(f"{path}: no such folder; give the folder of a run")
    if kind_of(path) != "run":
        raise BadInput(
            f"{path}: holds several runs; open one of them, such as {listed(path)[0][1]}"
        )
    return Result(open_finished(path))


class Result(Record):
    """A finished run. As a mapping it is its summary: `result["utility.rmse_db"]`.

    folder : where its records lie. summary : every key of summary.json.
    Tables, figures and the page are read or made when they are first asked for.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.folder = run.folder
        self.summary = dict(run.summary)

    def __getitem__(self, key: str) -> Any:
        return self.summary[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.summary)

    def __len__(self) -> int:
        return len(self.summary)

    def __repr__(self) -> str:
        return f"Result of {self.folder}: {len(self.summary)} keys, tables {', '.join(self.tables)}"

    @cached_property
    def tables(self) -> Frames:
        """Its record tables as pandas frames, by name: `result.tables["leakage"]`."""
        return Frames(self.run)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures of its page as plotly's, by the name that they have there."""
        from plotly.graph_objects import Figure

        from scenarios.app.report.run_page import chapters

        panels = [panel for chapter in chapters(read_whole(self.run)) for panel in chapter.panels]
        return {panel.key: Figure(panel.figure) for panel in panels}

    @property
    def page(self) -> Path:
        """Its page, drawn where there is none yet."""
        from scenarios.app.report.report import draw_run

        page = self.folder / PAGE
        if what_is(page):
            return page
        return draw_run(self.run)

    def show(self) -> Path:
        """Open its page in a browser, where there is one; returns the page."""
        show_page(self.page)
        return self.page

    def _repr_html_(self) -> str:
        """Title and main lines, for a notebook."""
        from scenarios.app.results.screen import run_screen

        heading, *lines = run_screen(self.run, str(self.folder / PAGE))
        text = html.escape("\n".join(lines))
        return (
            f"<p><b>{html.escape(str(self.folder))}</b>{html.escape(heading)}</p><pre>{text}</pre>"
        )
