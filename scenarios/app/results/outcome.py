"""What a folder says, made once: terminal, page head and JSON only lay it out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

from netsim.errors import format_count
from netsim.notice import Notice
from netsim.safe import describe_file_kind
from netsim.units import TextPair
from scenarios.app.results.folder import PAGE, STUDY, LabelledRuns, find_record_file, read_json
from scenarios.app.results.gathered import Gathered
from scenarios.app.results.goals import FRESH, HONEST, NO_WINNER, read_search_result
from scenarios.app.results.read import Run, get_section
from scenarios.app.results.shown import (
    HEAD,
    LinesByLabel,
    answer_comparison,
    build_headline,
    build_lines_by_label,
    describe_played,
    read_adapted_rows,
)
from scenarios.app.results.statistics import format_figure, group_by_label
from scenarios.app.results.table import (
    AT_CHANCE,
    FOUND,
    GROUPS,
    INCONCLUSIVE,
    PREVENTED,
    Line,
    Lines,
    build_lines,
    find_model_verdict,
    format_group_row,
    is_useful_verdict,
    merge_lines,
)
from scenarios.app.study import Fields
from scenarios.app.study.describe import to_flow_yaml
from scenarios.app.study.notice import notice


@dataclass(frozen=True)
class Mark:
    """A cell that sorts by a value (NaN: last), or whose meaning shows in its look as well as in
    its words.

    kind : class in the style sheet; `word`: words of TERMS in it are explained. aside : after the
    text, where there is room. verdict : below the text, in its look. links : texts, and the files
    beside the page to which they lead.
    """

    text: str = ""
    value: float | None = None
    kind: str = ""
    verdict: str = ""
    links: Sequence[TextPair] = ()
    aside: str = ""

    @property
    def sorts(self) -> str | None:
        """The value for the script that sorts; empty for NaN."""
        if self.value is None:
            return None
        if isnan(self.value):
            return ""
        return f"{self.value:.9g}".replace("inf", "Infinity")


Cell = str | float | Mark
"""what stands in a cell of a table"""
Cells = list[list[Cell]]
"""rows of them"""


def to_mark(cell: Cell) -> Mark:
    """Give a cell its look; a number is written with three digits."""
    if isinstance(cell, Mark):
        return cell
    if isinstance(cell, str):
        return Mark(cell)
    return Mark(format_figure(cell), cell)


@dataclass(frozen=True)
class OutcomeTable:
    """A table of an outcome.

    key : with one a page can filter its rows. narrow : how many of the first columns a terminal
    keeps. drops : of them it leaves out those that do not fit, and names them. foot : baselines of
    each column. notes : below it. as_lines : a terminal writes a sentence for each row, since cells
    are long.
    """

    title: str
    heads: Sequence[str]
    rows: Cells
    key: str = ""
    narrow: int = 99
    drops: bool = False
    foot: Sequence[Mapping[str, str]] = ()
    notes: Sequence[str] = ()
    as_lines: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a folder says. kind : as events call it. scope : what it stands on. values : of its
    event.

    answers : what is asked, and the sentence that answers it.
    """

    kind: str
    title: str
    answers: Sequence[TextPair] = ()
    notices: Sequence[Notice] = ()
    tables: Sequence[OutcomeTable] = ()
    facts: dict[str, str] = field(default_factory=dict)
    scope: str = ""
    values: Fields = field(default_factory=dict)


# -- a run


def build_run_outcome(run: Run) -> Outcome:
    """Build the outcome of a run, or of a radio study."""
    summary = run.summary
    manifest = run.manifest
    run_lines = build_lines([summary])
    learning = get_section(run.study, "learning")
    names = run.attacks if len(run.attacks) > 1 else []
    leading = [pick_leading_line(build_lines([summary], name)) for name in names]
    attack_lines = [line for line in leading if line]
    tables = [
        build_figures_table("Results", run_lines),
        build_figures_table("Every attack, by its strongest result", attack_lines, 0),
    ]
    facts = {name: format_group_row([summary], name) for name in GROUPS}
    return Outcome(
        "radio" if manifest.is_radio else "run",
        manifest.title,
        build_headline(run_lines, learning, summary),
        manifest.notices,
        tables,
        {name: text for name, text in facts.items() if text},
        describe_played(summary) if learning else "",
        {"seed": manifest.seed, "summary": summary},
    )


def pick_leading_line(candidates: Lines) -> Line | None:
    """Pick the line of leakage that matters most: what was found, homes and workplaces before
    distances.
    """
    attacked = [line for line in candidates if line.attack]
    return min(
        attacked,
        key=lambda line: (line.verdict != FOUND, line.n == 0, not line.verdict),
        default=None,
    )


def build_figures_table(title: str, shown: Lines, narrow: int = 99) -> OutcomeTable:
    """Build a table with a row for each line."""
    result = (
        "median [5 %, 95 % of samples]" if shown and shown[0].key.startswith("radio.") else "result"
    )
    rows: Cells = []
    for line in shown:
        name = Mark(line.title, kind="word")
        figure = Mark(line.result, line.value)
        rows.append([name, figure, line.baseline, mark_verdict(line), line.attack])
    return OutcomeTable(title, ["", result, "baseline", "verdict", "attack"], rows, narrow=narrow)


def mark_verdict(line: Line) -> Mark:
    """Show the verdict of a line in a word, and in colour."""
    if not line.verdict:
        return Mark()
    if line.verdict == INCONCLUSIVE:
        kind = "open"
    elif is_useful_verdict(line.verdict) or line.verdict in (AT_CHANCE, PREVENTED):
        kind = "held"
    else:
        kind = "not-held"
    return Mark(line.verdict_text, kind=kind)


# -- several runs


def build_comparison_outcome(
    runs: Gathered, place: Path, kind: str = "comparison", values: Fields | None = None
) -> Outcome:
    """Build the outcome of a sweep, or of runs side by side.

    place : the folder of the page, in which sweep.json lies if there is one.
    """
    lines_by_label = build_lines_by_label(group_by_label(runs.summaries))
    scope = (
        f"{format_count(len(runs.runs), 'run')} of {format_count(len(lines_by_label), 'variant')}"
    )
    notices = [notice("runs-compared", text=text) for text in runs.remarks]
    notices += warn_of_useless_models(lines_by_label)
    rows, note = read_adapted_rows(place)
    tables = [
        build_variants_table(lines_by_label, runs.runs, place),
        *build_search_tables(place),
        OutcomeTable(
            "Adapted attackers",
            HEAD,
            [[*attacker.values()] for attacker in rows],
            as_lines=True,
            notes=[note],
        ),
    ]
    return Outcome(
        kind,
        runs.title,
        answer_comparison(lines_by_label),
        notices,
        tables,
        scope=scope,
        values=values or {},
    )


def warn_of_useless_models(lines_by_label: LinesByLabel) -> list[Notice]:
    """Warn of labels whose models are not useful."""
    bad = []
    for label, label_lines in lines_by_label.items():
        verdict = find_model_verdict(label_lines)
        if verdict and not is_useful_verdict(verdict):
            bad.append(f"“{label}”")
    if bad:
        return [notice("models-not-useful", labels=", ".join(bad))]
    return []


def build_variants_table(
    lines_by_label: LinesByLabel, runs: LabelledRuns, place: Path
) -> OutcomeTable:
    """Build a table with a row for each label.

    A row has the lines of the label, the attacks that find most, and seeds, which lead to the
    pages of its runs. The model, the shares and epsilon come first, and what has no verdict last.
    """
    columns = group_by_label(
        (line.title, line) for label_lines in lines_by_label.values() for line in label_lines
    )
    joined = {title: merge_lines(column) for title, column in columns.items()}
    order = {}
    cells: dict[str, Cell] = {}
    for title, column in columns.items():
        line, _ = joined[title]
        is_judged = any(line.verdict or not line.attack for line in column)
        is_first = line.n or line.key.startswith(("utility.", "privacy."))
        order[title] = not is_judged, not is_first
        cells[title] = Mark("none", nan) if "privacy." in line.key else nan
    heads = sorted(columns, key=order.__getitem__)
    n_judged = sum(not is_last for is_last, _ in order.values())
    rows: Cells = []
    for label, label_lines in lines_by_label.items():
        shown = {line.title: _mark_figure(line, joined[line.title][1]) for line in label_lines}
        row = cells | shown
        figures = [row[title] for title in heads]
        folders = [path for name, path in runs if name == label]
        attacks = ", ".join(dict.fromkeys(line.attack for line in label_lines if line.attack))
        rows.append([label, *figures, attacks, _link_pages(folders, place)])
    foot = [joined[title][0].baselines for title in heads]
    heads = ["variant", *heads, "attack", "seeds"]
    title = "Main figures of every variant"
    return OutcomeTable(title, heads, rows, "variants", 1 + n_judged, True, foot)


def _mark_figure(line: Line, own_chance: bool) -> Mark:
    """Mark a figure with its verdict below it, and its own chance where labels differ in it."""
    below = ", ".join(filter(None, [line.verdict_text, line.chance * own_chance]))
    return Mark(line.figure, line.value, mark_verdict(line).kind, below, aside=line.interval)


def _link_pages(folders: Sequence[Path], place: Path) -> Mark:
    """Name the seeds of runs, as links where their pages are drawn."""
    seeds = [str(read_json(find_record_file(folder)).get("seed")) for folder in folders]
    if not all(describe_file_kind(folder / PAGE) == "file" for folder in folders):
        return Mark(", ".join(seeds))
    pages = [os.path.relpath(folder / PAGE, place) for folder in folders]
    return Mark(links=list(zip(seeds, pages, strict=True)))


def build_search_tables(folder: Path) -> list[OutcomeTable]:
    """Build tables of the trials of a search, the best first, and of the importance of settings.

    Of another sweep there are none.
    """
    search = read_search_result(folder)
    if search is None:
        return []
    trials = [trial for trial in search.trials if not trial.label.endswith(FRESH)]
    finished = sum(trial.failed is None for trial in trials)
    n_seeds = format_count(len(trials[0].seeds), "seed")
    notes = [f"{format_count(len(trials), 'trial')}, {finished} finished; {n_seeds} each"]
    scored = [trial for trial in search.trials if trial.values]
    scored.sort(key=lambda trial: trial.folder not in search.best)
    rows: Cells = []
    for trial in scored:
        rows.append(
            [
                trial.label,
                *map(Mark, trial.texts, map(trial.compute_mean, trial.values)),
                search.describe_trial(trial),
            ]
        )
    if search.best:
        best = search.best[0]
        notes += [
            HONEST,
            f"{best}: {to_flow_yaml(scored[0].settings)}; its scenario: "
            f"{folder}/{best}/seed-*/{STUDY}",
        ]
    else:
        notes.append(NO_WINNER)
    importance = search.importance.values()
    names = dict.fromkeys(name for shares in importance for name in shares)
    title = "Importance: share of the variance over trials that a setting explains"
    return [
        OutcomeTable("Trials", ["trial", *search.heads], rows, "trials", notes=notes),
        OutcomeTable(
            title,
            ["setting", *search.importance],
            [[name, *(shares[name] for shares in importance)] for name in names],
            narrow=0,
        ),
    ]
