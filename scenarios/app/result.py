"""A run in Python: play it, or open a finished one; its summary, tables, figures and page."""

from __future__ import annotations

import html
import json
import os
import re
import sys
import traceback
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import describe_file_kind
from scenarios.app.results.folder import PAGE, RUNS, STUDY
from scenarios.app.results.kinds import detect_kind
from scenarios.app.results.read import (
    Frames,
    Run,
    list_run_folders,
    open_finished_run,
    read_all_files,
)
from scenarios.app.results.statistics import compute_ci95_half_width
from scenarios.app.results.summary_keys import NAME, read_value
from scenarios.app.run.events import Watch, ignore_event, was_interrupted
from scenarios.app.run.how import DEFAULT_RESOURCES, Resources
from scenarios.app.study import Fields
from scenarios.app.study.python_values import refuse_held_parts
from scenarios.app.study.yaml_document import read_file_text

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from scenarios.app.results.shown import LinesByLabel
    from scenarios.app.results.table import ByLabel
    from scenarios.app.study.study import Study


def show_page(page: Path) -> bool:
    """Open a page in the browser; whether one took it. One in the terminal cannot draw it, and
    would take its place.
    """
    windows = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    with suppress(webbrowser.Error):
        if windows or sys.platform in ("darwin", "win32"):
            return webbrowser.open(page.resolve().as_uri())
    return False


def run(
    study: Study,
    out: str | Path,
    watch: Watch = ignore_event,
    command: str = "",
    replace: bool = False,
    resources: Resources = DEFAULT_RESOURCES,
    views: bool = False,
) -> Result:
    """Run a study into the folder `out`; returns what it found.

    An unfinished run of the very same study in that folder is resumed from its last checkpoint and
    ends in the same bytes; a finished one is read back. With `replace` it is played again; the run
    of another study, which is refused otherwise, is replaced, and a checkpoint that cannot be used
    is forgotten. Everything runs on one thread, so results do not depend on the number of cores;
    sweeps use several processes instead. resources : settings that change no result. views :
    whether the folder keeps what the attacker receives.
    """
    from scenarios.app.run.job import Finished  # here, since what plays loads for long
    from scenarios.app.run.runner import build_run_job, play_job

    job = build_run_job(study, out, "", command, replace, resources, views)
    job.admit()
    job.first_version  # noqa: B018 - a summary that is written from here on is of another process
    try:
        if replace or job.find_summary() is None:
            return Result(play_job(job, watch))
        job.settle()
    except Finished:
        pass
    except Exception as error:
        if not (isinstance(error, BadInput) or was_interrupted()):
            job.fail(traceback.format_exc())
        raise
    return Result(open_finished_run(job.folder))


def open_run(folder: str | Path) -> Result:
    """Return the finished run of a folder.

    Raises BadInput: it holds no run, several, or one that is not finished.
    """
    path = Path(folder)
    if describe_file_kind(path) != "folder":
        raise BadInput(f"{path}: no such folder; give the folder of a run")
    kind = detect_kind(path)
    if kind == "training":
        raise BadInput(f"{path}: holds a training and no run; open it by open_training")
    if kind != "run":
        raise BadInput(
            f"{path}: holds several runs; open one of them, such as {list_run_folders(path)[0][1]}"
        )
    return Result(open_finished_run(path))


def open_sweep(*folders: str | Path) -> Results:
    """Return what the runs of a sweep or a tuning found, or of the folders of a comparison.

    Raises BadInput: a folder holds a single run, a training, nothing of ours, or is not finished.
    """
    import pandas

    from scenarios.app.report.compare_page import build_comparison_page
    from scenarios.app.results.gathered import gather_runs
    from scenarios.app.results.shown import build_lines_by_label
    from scenarios.app.results.statistics import group_by_label

    paths = [Path(folder) for folder in folders]
    gathered = gather_runs(paths)
    runs = pandas.DataFrame([{"label": label, **run} for label, run in gathered.summaries])
    if len(paths) == 1 and describe_file_kind(paths[0] / RUNS):
        runs = pandas.read_csv(paths[0] / RUNS)
    labels = group_by_label(gathered.summaries)
    figures = tabulate_figures(labels, build_lines_by_label(labels))
    return Results(
        {"runs": runs, "figures": pandas.DataFrame(figures)},
        lambda: build_comparison_page(gathered, paths[0]),
    )


def open_training(folder: str | Path) -> Results:
    """Return what the trainings of a folder did, one or several seeds.

    Raises BadInput: it holds none that is finished.
    """
    import pandas

    from scenarios.app.report.training_page import Seeds, build_training_page

    seeds = Seeds.from_folder(Path(folder))
    if not seeds.trained:
        raise BadInput(f"{folder}: holds no finished training; give the folder of a training")
    tables = {
        name: pandas.concat({t.manifest.seed: getattr(t, name) for t in seeds.trained})
        for name in ("curve", "evaluations")
    }
    return Results(tables, lambda: build_training_page(seeds))


def tabulate_figures(labels: ByLabel, lines_by_label: LinesByLabel) -> list[Fields]:
    """Tabulate the lines of each label with 95 % intervals of their means over seeds."""
    figures = []
    for label, lines in lines_by_label.items():
        for line in lines:
            values = [read_value(run, line.key) for run in labels[label]]
            half = compute_ci95_half_width([*filter(isfinite, values)])
            if isfinite(half) and not line.n and not line.key.startswith(_OWN_INTERVALS):
                low = max(-1.0 if "correlation" in line.key else 0.0, line.value - half)
                high = min(100.0 if line.unit == "%" else inf, line.value + half)
                line = replace(line, low=low, high=high)
            pattern = line.key.replace(f".{line.attack}.", f".{NAME}.")
            figures.append(
                {
                    "label": label,
                    "seeds": len(values),
                    **vars(line),
                    "pattern": pattern,
                    "result": line.result,
                    "baseline": line.baseline,
                }
            )
    return figures


_OWN_INTERVALS = ("privacy.", "radio.", "membership.")
"""how keys begin whose intervals are not of a mean over seeds"""


@frozen
class Results:
    """Several runs, or trainings.

    tables : frames by name. Of runs `runs`, a row each: what a sweep varied, and every figure; and
    `figures`, the main ones of each label with 95 % intervals, of attacks that of the strongest.
    Of trainings `curve` and `evaluations`, by seed.
    """

    tables: Mapping[str, DataFrame]
    build_page: Callable[[], str]

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures of the page as plotly's, by the name that they have there."""
        from plotly.graph_objects import Figure

        drawn = self.build_page().partition(' id="drawn">')[2].partition("</script>")[0]
        return {key: Figure(figure) for key, figure in json.loads(drawn).items()}


class Result(Fields):
    """A finished run. As a mapping it is its summary: `result["utility.rmse_db"]`.

    folder : where its records lie. summary : every key of summary.json.
    Tables, figures and the page are read or made when they are first asked for.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.folder = run.folder
        self.summary = dict(run.summary)
        super().__init__(self.summary)

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

        from scenarios.app.report.run_page import build_chapters

        return {
            panel.key: Figure(panel.figure)
            for chapter in build_chapters(read_all_files(self.run))
            for panel in chapter.panels
        }

    @property
    def page(self) -> Path:
        """Its page, drawn where there is none yet."""
        from scenarios.app.report.report import write_run_page

        page = self.folder / PAGE
        return page if describe_file_kind(page) else write_run_page(self.run)

    def save(self, path: str | Path) -> None:
        """Write its study as a scenario, with every default, for `netsim run`.

        Raises BadInput: a part of it lives in Python alone.
        """
        text = read_file_text(self.folder / STUDY)
        refuse_held_parts(text, path)
        write_text(Path(path), re.sub("^#.*\n", "", text, flags=re.MULTILINE))

    def show(self) -> Path:
        """Open its page in a browser, where there is one; returns the page."""
        show_page(self.page)
        return self.page

    def _repr_html_(self) -> str:
        """Return title and main lines, for a notebook."""
        from scenarios.app.results.screen import lay_out_run

        texts = lay_out_run(self.run, str(self.folder / PAGE))
        name, heading, *lines = map(html.escape, [str(self.folder), *texts])
        return f"<p><b>{name}</b>{heading}</p><pre>{chr(10).join(lines)}</pre>"
