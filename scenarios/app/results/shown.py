"""Results for a terminal: the answer in one sentence, notices, a table of lines, and where the page
is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import chain
from math import inf
from pathlib import Path
from textwrap import wrap

import numpy as np

from netsim.errors import BadInput, to_one_line
from netsim.units import TextPair
from scenarios.app.results.folder import SWEEP, Row
from scenarios.app.results.read import (
    Table,
    get_section,
    iterate_cells,
    read_sweep_value,
    select_rows,
)
from scenarios.app.results.sentences import read_sentences
from scenarios.app.results.statistics import (
    Quartiles,
    compute_quartiles,
    format_figure,
    group_by_label,
)
from scenarios.app.results.summary_keys import find_measure, read_value
from scenarios.app.results.table import (
    FOUND,
    ByLabel,
    Line,
    Lines,
    Summary,
    build_lines,
    find_model_line,
    find_model_verdict,
    is_useful_verdict,
    judge_prevention,
    rank_at_tie,
)
from scenarios.app.study import Record

LinesByLabel = Mapping[str, Lines]
Answers = list[TextPair]
"""what is asked, and the sentence that answers it"""
COLUMNS = 99
"""of a line of a terminal"""


def draw_text_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    whole: Sequence[int] = (0,),
    widths: Sequence[int] = (),
) -> list[str]:
    """Draw a table as plain lines; empty columns are left out.

    right : columns of figures. whole : those that never wrap. widths : of all columns; those
    without one share what is left of the terminal.
    """
    from rich import table as rich_table
    from rich.console import Console
    from rich.text import Text

    kept = [k for k in range(len(heads)) if any(row[k] for row in rows)]
    table = rich_table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for k in kept:
        width = (widths[k] or None) if widths else None
        table.add_column(
            Text(heads[k]),
            justify="right" if k in right else "left",
            no_wrap=k in whole,
            width=width,
        )
    for row in rows:
        texts = ["\n".join(map(to_one_line, row[k].split("\n"))) for k in kept]
        table.add_row(*(Text(text, overflow="fold") for text in texts))
    drawn = StringIO()
    Console(file=drawn, width=COLUMNS - 2, color_system=None, legacy_windows=False).print(table)
    return [line.rstrip() for line in drawn.getvalue().splitlines()]


def wrap_lines(texts: Sequence[str]) -> list[str]:
    """Break lines at blanks to a number of columns; what goes on is indented."""
    lines = []
    for text in texts:
        lines += wrap(
            text,
            COLUMNS - 2,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return lines


_HIDES = (
    ("observes", "aggregate", "sums of updates"),
    ("observes", "model", "published models alone"),
    ("shuffle", True, "shuffling"),
    ("cells", False, "hidden cells"),
    ("times", False, "hidden arrival times"),
)
"""key of `learning.threat`, the value with which it hides something, and what that is"""


def build_headline(run_lines: Lines, learning: Record, summary: Summary | None = None) -> Answers:
    """Say what a run found, a sentence each: the model, what attacks find, what protects updates.

    learning : that section of the scenario; of a radio study it is empty. summary : counts of the
    run that no line has.
    """
    write = read_sentences()
    summary = summary or {}
    if not learning:
        return [("radio", write.radio(run_lines, summary))]
    judged = {line.key: line for line in run_lines if line.verdict}
    spent = [line for line in run_lines if line.key.startswith("privacy.")]
    is_attacked = bool(learning.get("attacks") or learning.get("membership"))
    keys = " ".join(line.key for line in run_lines)
    by_place = judged.get("utility.rmse_db.place")
    return [
        ("model", write.model(find_model_line(run_lines), by_place, summary)),
        ("leakage", write.leakage(run_lines, is_attacked) + write.homeless(keys, summary)),
        ("protection", write.protection(spent, list_protections(learning))),
    ]


def list_protections(learning: Record) -> list[str]:
    """List what keeps something from the attacker, in words of the scenario.

    Empty where updates are open to it.
    """
    threat = get_section(learning, "threat")
    parts = [get_section(learning, "request_policy")]
    for slot in ("withholding", "curation", "defenses"):
        parts += map(get_section, learning.get(slot) or [])
    kinds = [part.get("kind") for part in parts]
    words = [str(kind) for kind in kinds if kind not in (None, "off")]
    names = get_section(threat, "pseudonyms").get("kind", "permanent")
    if names != "permanent":
        words.append(f"pseudonyms ({names})")
    return words + [word for key, value, word in _HIDES if threat.get(key) == value]


def select_worst_accounts(account: Table) -> Table:
    """Select rows of the table `privacy`: of each account that of the UE that spent most."""
    order = np.argsort(-np.nan_to_num(account["epsilon"], nan=inf), kind="stable")[::-1]
    accounts = list(iterate_cells(account, "mechanism", "unit", "relation", "delta"))
    return select_rows(account, sorted({accounts[k]: k for k in order}.values()))


def select_worst_audits(rows: Table) -> Table:
    """Select rows of the table `audit`.

    Of each half, mechanism, quantity and pair the row nearest to its bound, or beyond it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.fmax(rows["moved"] / rows["sensitivity"], rows["lower"] / rows["upper"])
        is_correlation = np.char.find(rows["quantity"].astype(str), "correlation") >= 0
        is_floor = (rows["half"] == "noise") & ~is_correlation
        near = np.nan_to_num(np.where(is_floor, 1 / near, near))
    order = np.lexsort([near, rows["verdict"] == "caveat", rows["verdict"] == "violated"])
    names = ("half", "mechanism", "quantity", "pair")
    keys = list(iterate_cells(rows, *names))
    kept = sorted({keys[k]: k for k in order.tolist()}.values())
    return {
        name: rows[name][kept]
        for name in (*names, "verdict", "moved", "sensitivity", "lower", "upper")
    }


def describe_accounts(account: Table) -> list[str]:
    """Name what was spent on each account."""
    worst = select_worst_accounts(account)
    worst["epsilon"] = np.nan_to_num(worst["epsilon"], nan=inf)
    rows = (dict(zip(worst, cells, strict=True)) for cells in zip(*worst.values(), strict=True))
    return [read_sentences().account(row) for row in rows]


def draw_figures_table(summary: Summary) -> list[str]:
    """Draw a row for each key of a summary: value and unit."""
    rows = []
    for key, value in summary.items():
        unit = getattr(find_measure(key), "unit", "")
        rows.append([key, format_value(value, unit), unit])
    return draw_text_table(["key", "value", "unit"], rows, right=(1,), whole=(0, 1, 2))


def format_value(value: float | None, unit: str = "") -> str:
    """Format a value of a summary for people; unit: as in format_figure."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return format_figure(value, unit)


def describe_played(summary: Summary) -> str:
    """Say how much was played."""
    return read_sentences().played(summary)


# -- several labels


def build_lines_by_label(labels: ByLabel) -> dict[str, list[Line]]:
    """Build the lines of each label.

    A line at chance, with a useful model, is prevented where another label is found.
    """
    lines_by_label = {label: build_lines(runs) for label, runs in labels.items()}
    found_names = {
        line.name for line in chain.from_iterable(lines_by_label.values()) if line.verdict == FOUND
    }
    for label_lines in lines_by_label.values():
        model = find_model_verdict(label_lines)
        for k, line in enumerate(label_lines):
            label_lines[k] = replace(
                line, verdict=judge_prevention(line.verdict, model, line.name in found_names)
            )
    return lines_by_label


def answer_comparison(lines_by_label: LinesByLabel) -> Answers:
    """Say what models are scored by, and for each line with verdicts where a share is least.

    Of the first also the labels by verdict: `found with A (39/40); prevented with B`.
    """
    judged = group_by_label(
        (line.plain, (label, line, find_model_line(label_lines)))
        for label, label_lines in lines_by_label.items()
        for line in label_lines
        if line.verdict and line.attack
    )
    answers = _compare_models(lines_by_label)
    first_label = next(iter(lines_by_label), "")
    for k, name in enumerate(sorted(judged, key=lambda name: not name.startswith("homes"))):
        texts = [_describe_reduction(judged[name], first_label, lines_by_label)]
        if k == 0:
            by_verdict = group_by_label(
                (line.verdict_text, f"“{label}” ({line.amount})") for label, line, _ in judged[name]
            )
            texts.append(read_sentences().verdicts(by_verdict))
        if any(texts):
            answers.append((name, "; ".join(filter(None, texts))))
    return answers


def _compare_models(lines_by_label: LinesByLabel) -> Answers:
    """Say what the models are scored by, and the labels with the smallest and the largest value."""
    lines = {label: find_model_line(label_lines) for label, label_lines in lines_by_label.items()}
    models = [(label, line) for label, line in lines.items() if line and line.verdict]
    if len(models) < 2:
        return []
    models.sort(key=lambda model: model[1].value)
    _, low = models[0]
    return [(low.name, read_sentences().models(models[0], models[-1]))]


_Judged = tuple[str, Line, Line | None]
"""a label, its line of a figure, and that of its model"""


def _describe_reduction(judged: Sequence[_Judged], first: str, lines_by_label: LinesByLabel) -> str:
    """Name the share of the first label, the label with the least, and that of useful models.

    Empty of anything but shares. Of labels with the same share it is the first by `rank_at_tie`.
    """
    (label, base, _), *rest = judged
    if label != first or not base.n or not rest:
        return ""
    useful = {label for label, _, model in rest if model and is_useful_verdict(model.verdict)}
    fewer = [item for item in rest if item[1].value < base.value]
    # the mean of the same shares over seeds may differ in its last digits
    fewer.sort(
        key=lambda item: (
            round(item[1].value, 6),
            item[0] not in useful,
            rank_at_tie(lines_by_label[item[0]]),
        )
    )
    best = dict.fromkeys(fewer[:1] + [item for item in fewer if item[0] in useful][:1])
    most = max(rest, key=lambda item: item[1].value)
    return read_sentences().reduction(judged[0], best, most, useful)


# -- attackers that were tuned for the rows of a sweep

HEAD = ("variant", "attack", "settings", "goal", "adapted", "second", "as written", "refused")
"""of a row: what the attacker reached on the seed of tuning, beside the best of another kind and
the best as written"""


def read_adapted_rows(folder: Path) -> tuple[list[Row], str]:
    """Read the row of each variant of a sweep by `HEAD`, and how to read them.

    Nothing where no attacker was tuned.
    """
    adapted = read_sweep_value(folder, "adapted")
    if not adapted:
        return [], ""
    try:
        rows = [{key: str(row[key]) for key in HEAD} for row in adapted["rows"]]
        return rows, str(adapted["note"])
    except (KeyError, TypeError) as error:
        raise BadInput(f"{folder / SWEEP}: damaged ({error!r}); start the sweep again") from None


# -- values over seeds


def describe_key(key: str) -> str:
    """Describe what a key says, with its unit; empty for an undeclared one."""
    measure = find_measure(key)
    if measure is None:
        return ""
    if measure.unit:
        return f"{measure.says} ({measure.unit})"
    return measure.says


def compute_seed_quartiles(runs: Sequence[Record], key: str) -> Quartiles:
    """Compute quartiles of a value over the runs that have it; one that is null as it is infinite,
    or never, is infinite.
    """
    return compute_quartiles(read_value(run, key) for run in runs)


def format_seed_values(runs: Sequence[Record], key: str) -> str:
    """Format a value over seeds, with its quartiles where there are several."""
    values = [run.get(key) for run in runs]
    if all(isinstance(v, bool) for v in values):
        if len(values) > 1:
            return f"{values.count(True)} of {len(values)}"
        return format_value(values[0])
    numbers = [read_value(run, key) for run in runs]
    unit = getattr(find_measure(key), "unit", "")
    low, median, high = (format_figure(value, unit) for value in compute_quartiles(numbers))
    present = [value for value in numbers if not np.isnan(value)]
    if len(runs) == 1 or not present:
        return median
    return read_sentences().spread(low, median, high, len(runs), len(present), present.count(inf))
