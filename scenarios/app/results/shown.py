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

from netsim.errors import BadInput, format_count, to_one_line
from scenarios.app.results.folder import SWEEP, Row
from scenarios.app.results.read import (
    Table,
    get_section,
    iterate_cells,
    read_sweep_value,
    select_rows,
)
from scenarios.app.results.statistics import (
    Quartiles,
    compute_quartiles,
    format_figure,
    group_by_label,
)
from scenarios.app.results.summary_keys import find_measure, read_value
from scenarios.app.results.table import (
    AT_CHANCE,
    FEW,
    FEW_UES,
    FOUND,
    INCONCLUSIVE,
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
Answers = list[tuple[str, str]]
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
MOST_FIGURES = 2  # of a headline; of further results it has the names


def build_headline(run_lines: Lines, learning: Record, summary: Summary | None = None) -> Answers:
    """Say what a run found, a sentence each: the model, what attacks find, what protects updates.

    learning : that section of the scenario; of a radio study it is empty. summary : counts of the
    run that no line has.
    """
    summary = summary or {}
    if not learning:
        samples = format_count(summary.get("radio.samples") or 0, "sample")
        shown = [line for line in run_lines if line.name in ("RSRP", "SINR")]
        medians = ", ".join(f"{line.name} {line.amount}" for line in shown)
        if medians:
            medians = f", medians: {medians}"
        return [("radio", f"{samples} of the radio{medians}.")]
    attacked = bool(learning.get("attacks") or learning.get("membership"))
    leakage = _describe_leakage(run_lines, attacked) + _describe_homeless(run_lines, summary)
    return [
        ("model", _describe_model(run_lines, summary)),
        ("leakage", leakage),
        ("protection", _describe_protection(run_lines, list_protections(learning))),
    ]


def _describe_model(run_lines: Lines, summary: Summary) -> str:
    """Name the verdict on the model, with its score and that of guessing."""
    model = find_model_line(run_lines)
    if model is None or not model.verdict:
        return "The model was not scored: no data were held out by the last round that was scored."
    noun = {"dB": "map", "%": "classifier"}.get(model.unit, "density map")
    is_useful = is_useful_verdict(model.verdict)
    praise = f"{model.verdict} {noun}" if is_useful else f"{noun} {model.verdict}"
    guess = ""
    if model.baseline_values:
        _, value = model.baseline_values[0]
        guess = f"; guessing {replace(model, value=value).amount}"
    if model.verdict == INCONCLUSIVE:
        guess += f"; held-out blocks: {summary['utility.held_out.blocks']:g}, fewer than 12"
    places = [line for line in run_lines if line.key == "utility.rmse_db.place" and line.verdict]
    if places and is_useful and not is_useful_verdict(places[0].verdict):
        guess += f"; where nobody trained {places[0].amount}, {places[0].verdict}"
    return f"{praise.capitalize()} ({model.name.removeprefix('map ')} {model.amount}{guess})."


def _describe_leakage(run_lines: Lines, attacked: bool) -> str:
    """Name what attacks find, the first results with figures.

    Then what is inconclusive, and what is at chance; of one UE with figures too.
    """
    if not attacked:
        return "No attack was played."
    sentences = list[str]()
    for verdict, word in _VERDICTS.items():
        judged = [line for line in run_lines if line.attack and line.verdict_text == verdict]
        texts = [line.plain.partition(" within")[0] for line in judged]
        # of one UE a word alone says nothing
        if verdict in (FEW, FOUND) or (not sentences and any(line.n == 1 for line in judged)):
            texts[:MOST_FIGURES] = map(_describe_result, judged[:MOST_FIGURES])
        if texts:
            sentences.append(f"{word}: {', '.join(texts)}")
    if not sentences:
        return "No result of an attack can be judged."
    text = f"{'; '.join(sentences)}."
    if text.startswith(FOUND):
        return text.replace(FOUND, FOUND.capitalize(), 1)
    return f"No attack has found anything; {text}"


_VERDICTS = {
    FEW: f"{FOUND}, of few UEs",
    FOUND: FOUND,
    INCONCLUSIVE: INCONCLUSIVE,
    AT_CHANCE: AT_CHANCE,
}


def _describe_homeless(run_lines: Lines, summary: Summary) -> str:
    """Say why UEs of a trace have no home, where their place of most time counts instead."""
    n_none = summary.get("homes.none") or 0
    n_few = summary.get("homes.few_nights") or 0
    if not n_none or not any(".densest_located." in line.key for line in run_lines):
        return ""
    reasons = []
    if n_few:
        reasons.append(f"{n_few} with fewer than 3 nights")
    if n_none != n_few:
        reasons.append(f"{n_none - n_few} without a place of most nights")
    text = f" No home: {format_count(n_none, 'UE')} ({', '.join(reasons)})"
    text += "; the place of most time counts instead"
    if not any(".work_located." in line.key for line in run_lines):
        text += ", and no workplace is scored"
    return f"{text}."


def _describe_result(line: Line) -> str:
    """Name a result with what chance, or its first baseline, has."""
    name = line.plain.partition(" within")[0]
    if line.n:
        return f"{name} {line.hits} of {line.n} ({line.chance.replace('chance', 'chance at most')})"
    text = f"{name} {line.amount}"
    for baseline, value in [*line.baselines.items()][:1]:
        text += f" ({baseline} {value} {line.unit}".rstrip() + ")"
    return text


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


def _describe_protection(run_lines: Lines, kinds: Sequence[str]) -> str:
    """Name epsilon, where noise was accounted for; else that nothing bounds what updates reveal."""
    if spent := [line for line in run_lines if line.key.startswith("privacy.")]:
        figures = ", ".join(f"{line.name} {line.amount}" for line in spent)
        guarantee = "No meaningful" if any(line.verdict for line in spent) else "Privacy"
        return f"{guarantee} guarantee: {figures}."
    if kinds:
        return f"No privacy guarantee: only {', '.join(kinds)}."
    return "Nothing protects the updates."


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
    texts = []
    for cells in zip(*worst.values(), strict=True):
        row = dict(zip(worst, cells, strict=True))
        row["epsilon"] = format_figure(np.nan_to_num(row["epsilon"], nan=inf))
        row["draws"] = format_count(int(row["draws"]), "draw")
        texts.append(_ACCOUNT.format_map(row))
    return texts


_ACCOUNT = (
    "{mechanism}: epsilon {epsilon} at delta {delta:g}, unit {unit}, {relation}; {accountant} over "
    "{draws} of noise"
)


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
    exceptions = []
    if n := summary.get("rounds.empty"):
        exceptions.append(f"{n} without data")
    if n := summary.get("rounds.held_out"):
        exceptions.append(f"{n} with all data held out")
    if summary.get("rounds.stopped_by_budget"):
        exceptions.append("the next would have exceeded learning.privacy_budget")
    rounds = format_count(summary.get("rounds.played") or 0, "round")
    if exceptions:
        rounds += f" ({', '.join(exceptions)})"
    ues = format_count(summary.get("ues.count") or 0, "UE")
    noun = "sample" if "utility.accuracy_percent" in summary else "measurement"
    text = f"{rounds}, {ues}, {format_count(summary.get('samples.count') or 0, noun)}"
    decoded = summary.get("updates.decoded.percent")
    if decoded is None:
        return text
    return f"{text}; {format_figure(decoded)} % of updates decoded"


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


MOST_LISTED = 6
"""labels of a verdict that are named"""


def answer_comparison(lines_by_label: LinesByLabel) -> Answers:
    """Say what models are scored by, and for each line with verdicts where a share is least.

    Of the first also the labels by verdict: `found with A (39/40); prevented with B`.
    """
    judged: dict[str, list[_Judged]] = {}
    for label, label_lines in lines_by_label.items():
        model = find_model_line(label_lines)
        for line in label_lines:
            if line.verdict and line.attack:
                judged.setdefault(line.plain, []).append((label, line, model))
    answers = _compare_models(lines_by_label)
    first_label = next(iter(lines_by_label), "")
    for k, name in enumerate(sorted(judged, key=lambda name: not name.startswith("homes"))):
        texts = _describe_reduction(judged[name], first_label, lines_by_label)
        if k == 0:
            texts += _list_verdicts(judged[name])
        if texts:
            answers.append((name, "; ".join(texts)))
    return answers


def _list_verdicts(judged: Sequence[_Judged]) -> list[str]:
    """List the labels of each verdict, with their figures."""
    labels = group_by_label(
        (line.verdict_text, f"“{label}” ({line.amount})") for label, line, _ in judged
    )
    texts = []
    for verdict, listed in labels.items():
        text = f"{verdict} with {', '.join(listed[:MOST_LISTED])}"
        if len(listed) > MOST_LISTED:
            text += f" and {len(listed) - MOST_LISTED} more"
        texts.append(text)
    return texts


def _compare_models(lines_by_label: LinesByLabel) -> Answers:
    """Say what the models are scored by, and the labels with the smallest and the largest value."""
    models = []
    for label, label_lines in lines_by_label.items():
        line = find_model_line(label_lines)
        if line is not None and line.verdict:
            models.append((label, line))
    if len(models) < 2:
        return []
    models.sort(key=lambda model: model[1].value)
    lowest, low = models[0]
    highest, high = models[-1]
    if low.amount == high.amount:
        return [(low.name, f"{low.amount} with all")]
    return [(low.name, f"{low.amount} with “{lowest}”, {high.amount} with “{highest}”")]


_Judged = tuple[str, Line, Line | None]
"""a label, its line of a figure, and that of its model"""


def _describe_reduction(
    judged: Sequence[_Judged], first: str, lines_by_label: LinesByLabel
) -> list[str]:
    """Name the share of the first label, the label with the least, and that of useful models.

    With what each costs the model; nothing of anything but shares. Of labels with the same share
    it is the first by `rank_at_tie`. A reduction is proven where the 95 % intervals do not overlap.
    """
    (label, base, before), *rest = judged
    if label != first or not base.n or not rest:
        return []
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
    sentence = f"{base.hits} of {base.n} with “{first}”"
    if not fewer:
        sentence += ", and no variant hides more"
    sentences = [sentence]
    for word, (label, line, model) in zip(
        ("fewest", "fewest of useful models"), best, strict=False
    ):
        texts = [f"{line.hits} of {line.n}"]
        if model and before:
            cost = f"{model.name} {model.amount}"
            if model.amount != before.amount:
                cost += f" instead of {before.amount}"
            if label not in useful:
                cost += f", {model.verdict}"
            texts.append(cost)
        if line.high >= base.low:
            texts.append("not proven, the 95 % intervals overlap")
        if line.n < FEW_UES:
            texts.append(f"few: {format_count(line.n, 'UE')}")
        sentences.append(f"{word} with “{label}” ({'; '.join(texts)})")
    label, highest, _ = max(rest, key=lambda item: item[1].value)
    if highest.value > base.value:
        sentences.append(f"most with “{label}” ({highest.hits} of {highest.n})")
    return sentences


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
    remarks = []
    if len(present) < len(runs):
        remarks.append(f"{len(present)} of {len(runs)}")
    if n := present.count(inf):
        remarks.append(f"∞ in {n} of {len(present)}")
    text = f"{median} [{low}, {high}]"
    if remarks:
        text += f" ({', '.join(remarks)})"
    return text
