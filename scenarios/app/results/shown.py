"""Results for a terminal: the answer in one sentence, notices, a table of lines, and where the page
is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import Literal

import numpy as np

from netsim.errors import BadInput, counted, one_line
from scenarios.app.results.folder import SWEEP
from scenarios.app.results.read import Table, of_sweep_file, part, where
from scenarios.app.results.statistics import Quartiles, figure_text, quartiles_of
from scenarios.app.results.summary_keys import declaration, value_in
from scenarios.app.results.table import (
    AT_CHANCE,
    FEW,
    FEW_UES,
    FOUND,
    INCONCLUSIVE,
    ByLabel,
    Line,
    Summary,
    is_useful,
    lines,
    model_line,
    model_verdict,
    prevents,
)
from scenarios.app.study import Record

COLUMNS = 99
"""of a line of a terminal"""


def drawn(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    whole: Sequence[int] = (0,),
    widths: Sequence[int] = (),
) -> list[str]:
    """A table as plain lines; right: columns of figures; whole: those that never wrap. Empty ones
    are left out.

    widths : of all columns; those without one share what is left of the terminal.
    """
    from rich import table as of_rich
    from rich.console import Console
    from rich.text import Text

    kept = [k for k in range(len(heads)) if any(of[k] for of in rows)]
    table = of_rich.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for k in kept:
        align: Literal["right", "left"] = "right" if k in right else "left"
        table.add_column(
            Text(heads[k]),
            justify=align,
            no_wrap=k in whole,
            width=(widths[k] or None) if widths else None,
        )
    for of in rows:
        table.add_row(
            *(Text("\n".join(map(one_line, of[k].split("\n"))), overflow="fold") for k in kept)
        )
    text = StringIO()
    Console(file=text, width=COLUMNS - 2, color_system=None, legacy_windows=False).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def fitted(texts: Sequence[str], columns: int = COLUMNS - 2) -> list[str]:
    """Lines broken at blanks to a number of columns; what goes on is indented."""
    broken = (
        wrap(t, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for t in texts
    )
    return [piece for pieces in broken for piece in pieces or [""]]


_HIDES = (
    ("observes", "aggregate", "sums of updates"),
    ("observes", "model", "published models alone"),
    ("shuffle", True, "shuffling"),
    ("cells", False, "hidden cells"),
)
"""key of `learning.threat`, the value with which it hides something, and what that is"""
MOST_FIGURES = 2  # of a headline; of further results it has the names


def headline(
    of: Sequence[Line], learning: Record, summary: Summary | None = None
) -> list[tuple[str, str]]:
    """What a run found, a sentence each: the model, what attacks find, and what protects the
    updates.

    learning : that section of the scenario; of a radio study it is empty. summary : counts of the
    run that no line has.
    """
    if not learning:
        middle = ", ".join(f"{one.what} {one.amount}" for one in of if one.what in ("RSRP", "SINR"))
        samples = counted((summary or {}).get("radio.samples") or 0, "sample")
        return [("radio", f"{samples} of the radio{f', medians: {middle}' if middle else ''}.")]
    attacked = bool(learning.get("attacks") or learning.get("membership"))
    return [
        ("model", _model_said(of)),
        ("leakage", f"{_leakage_said(of, attacked)}{_homeless_said(of, summary or {})}"),
        ("protection", _protection_said(of, protections(learning))),
    ]


def _model_said(of: Sequence[Line]) -> str:
    """The verdict on the model, with its score and that of guessing."""
    model = model_line(of)
    if model is None or not model.verdict:
        return "The model was not scored: no data were held out by the last round that was scored."
    noun = {"dB": "map", "%": "classifier"}.get(model.unit, "density map")
    if is_useful(model.verdict):
        said = f"{model.verdict} {noun}"
    else:
        said = f"{noun} {model.verdict}"
    if model.beside:
        guess = f"; guessing {replace(model, value=model.beside[0][1]).amount}"
    else:
        guess = ""
    place = next((one for one in of if one.key == "utility.rmse_db.place" and one.verdict), None)
    if place is not None and is_useful(model.verdict) and not is_useful(place.verdict):
        guess += f"; where nobody trained {place.amount}, {place.verdict}"
    return f"{said.capitalize()} ({model.what.removeprefix('map ')} {model.amount}{guess})."


def _leakage_said(of: Sequence[Line], attacked: bool) -> str:
    """What attacks find, the first results with figures; then what is inconclusive, and what is at
    chance.
    """
    if not attacked:
        return "No attack was played."
    said = []
    for verdict, most in (
        (FEW, MOST_FIGURES),
        (FOUND, MOST_FIGURES),
        (INCONCLUSIVE, 0),
        (AT_CHANCE, 0),
    ):
        judged = [one for one in of if one.attack and one.told == verdict]
        texts = [
            _figured(one) if k < most else one.plain.partition(" within")[0]
            for k, one in enumerate(judged)
        ]
        said += [f"{_OF_FEW.get(verdict, verdict)}: {', '.join(texts)}"] if texts else []
    if not said:
        return "No result of an attack can be judged."
    nothing = "" if said[0].startswith(FOUND) else "No attack has found anything; "
    return f"{nothing}{'; '.join(said)}.".replace(FOUND, FOUND.capitalize(), not nothing)


_OF_FEW = {FEW: f"{FOUND}, of few UEs"}


def _homeless_said(of: Sequence[Line], summary: Summary) -> str:
    """Why UEs of a trace have no home, where their place of most time counts instead."""
    none, few = (summary.get(f"homes.{key}") or 0 for key in ("none", "few_nights"))
    if not none or not any(".densest_located." in one.key for one in of):
        return ""
    why = {"with fewer than 3 nights": few, "without a place of most nights": none - few}
    reasons = ", ".join(f"{n} {reason}" for reason, n in why.items() if n)
    unscored = (
        "" if any(".work_located." in one.key for one in of) else ", and no workplace is scored"
    )
    return (
        f" No home: {counted(none, 'UE')} ({reasons}); the place of most time counts "
        f"instead{unscored}."
    )


def _figured(one: Line) -> str:
    """A result with what chance, or its first baseline, has."""
    name = one.plain.partition(" within")[0]
    if one.n:
        return f"{name} {one.hits} of {one.n} ({one.chance.replace('chance', 'chance at most')})"
    first = "".join(
        f" ({' '.join(pair)} {one.unit}".rstrip() + ")" for pair in [*one.baselines.items()][:1]
    )
    return f"{name} {one.amount}{first}"


def protections(learning: Record) -> list[str]:
    """What keeps something from the attacker, in words of the scenario; empty where updates are
    open to it.
    """
    threat = part(learning, "threat")
    listed = [
        one for slot in ("withholding", "curation", "defenses") for one in learning.get(slot) or []
    ]
    kinds = [part(one).get("kind") for one in (part(learning, "request_policy"), *listed)]
    names = part(threat, "pseudonyms").get("kind", "permanent")
    words = [str(kind) for kind in kinds if kind not in (None, "off")]
    words += [f"pseudonyms ({names})"] if names != "permanent" else []
    return words + [word for key, value, word in _HIDES if threat.get(key) == value]


def _protection_said(of: Sequence[Line], kinds: Sequence[str]) -> str:
    """Epsilon, where noise was accounted for; else that nothing bounds what updates reveal."""
    spent = [one for one in of if one.key.startswith("privacy.")]
    if spent:
        figures = ", ".join(f"{one.what} {one.amount}" for one in spent)
        return (
            f"{'No meaningful' if any(one.verdict for one in spent) else 'Privacy'} "
            f"guarantee: {figures}."
        )
    if kinds:
        return f"No privacy guarantee: only {', '.join(kinds)}."
    return "Nothing protects the updates."


def worst_accounts(account: Table) -> Table:
    """Rows of the table `privacy`: of each account that of the UE that spent most."""
    order = np.argsort(-np.nan_to_num(account["epsilon"], nan=np.inf), kind="stable")[::-1]
    columns = (account[name].tolist() for name in ("mechanism", "unit", "relation", "delta"))
    accounts = list(zip(*columns, strict=True))
    worst = {accounts[k]: k for k in order}
    return where(account, sorted(worst.values()))


def worst_audits(rows: Table) -> Table:
    """Of the table `audit`: of each half, mechanism, quantity and pair the row nearest to its
    bound, or beyond it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.fmax(rows["moved"] / rows["sensitivity"], rows["lower"] / rows["upper"])
        is_floor = (rows["half"] == "noise") & (
            np.char.find(rows["quantity"].astype(str), "correlation") < 0
        )
        near = np.nan_to_num(np.where(is_floor, 1 / near, near))
    order = np.lexsort([near, rows["verdict"] == "caveat", rows["verdict"] == "violated"])
    shown = (
        "half",
        "mechanism",
        "quantity",
        "pair",
        "verdict",
        "moved",
        "sensitivity",
        "lower",
        "upper",
    )
    keys = [*zip(*(rows[name].tolist() for name in shown[:4]), strict=True)]
    return {
        name: rows[name][sorted({keys[k]: k for k in order.tolist()}.values())] for name in shown
    }


def spent(account: Table) -> list[str]:
    """What was spent on each account."""
    worst = worst_accounts(account)
    rows = (dict(zip(worst, cells, strict=True)) for cells in zip(*worst.values(), strict=True))
    return [
        f"{of['mechanism']}: epsilon {figure_text(np.nan_to_num(of['epsilon'], nan=np.inf))} at "
        f"delta {of['delta']:g}, unit {of['unit']}, {of['relation']}; {of['accountant']} over "
        f"{counted(int(of['draws']), 'draw')} of noise"
        for of in rows
    ]


def every_figure(summary: Summary) -> list[str]:
    """A row for each key of a summary: value and unit."""
    units = ((key, getattr(declaration(key), "unit", "")) for key in summary)
    rows = [[key, value_text(summary[key], unit), unit] for key, unit in units]
    return drawn(["key", "value", "unit"], rows, right=(1,), whole=(0, 1, 2))


def value_text(value: float | None, unit: str = "") -> str:
    """A value of a summary for people; unit: as in figure_text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return figure_text(value, unit)


def played(summary: Summary) -> str:
    """How much was played."""
    aside = [f"{n} without data"] if (n := summary.get("rounds.empty")) else []
    aside += [f"{n} with all data held out"] if (n := summary.get("rounds.held_out")) else []
    aside += (
        ["the next would have exceeded learning.privacy_budget"]
        if summary.get("rounds.stopped_by_budget")
        else []
    )
    samples = "sample" if "utility.accuracy_percent" in summary else "measurement"
    decoded = summary.get("updates.decoded.percent")
    without = f" ({', '.join(aside)})" if aside else ""
    return (
        f"{counted(summary.get('rounds.played') or 0, 'round')}{without}, "
        f"{counted(summary.get('ues.count') or 0, 'UE')}, "
        f"{counted(summary.get('samples.count') or 0, samples)}"
        f"{'' if decoded is None else f'; {figure_text(decoded)} % of updates decoded'}"
    )


# -- several labels


def labels_of(runs: Iterable[tuple[str, Summary]]) -> dict[str, list[Summary]]:
    """Label -> the summaries of its runs."""
    labels: dict[str, list[Summary]] = {}
    for label, summary in runs:
        labels.setdefault(label, []).append(summary)
    return labels


def compared(labels: ByLabel) -> dict[str, list[Line]]:
    """The lines of each label; a line at chance, with a useful model, is prevented where another
    label is found.
    """
    every = {label: lines(runs) for label, runs in labels.items()}
    found = {one.what for of in every.values() for one in of if one.verdict == FOUND}
    return {
        label: [
            replace(one, verdict=prevents(one.verdict, model_verdict(of), one.what in found))
            for one in of
        ]
        for label, of in every.items()
    }


MOST_LISTED = 6
"""labels of a verdict that are named"""


def answers(every: Mapping[str, Sequence[Line]]) -> list[tuple[str, str]]:
    """What models are scored by; for each line with verdicts where a share is least, and of the
    first also the labels by verdict: `found with A (39/40); prevented with B`.
    """
    judged: dict[str, list[_Judged]] = {}
    for label, of in every.items():
        for one in of:
            if one.verdict and one.attack:
                judged.setdefault(one.plain, []).append((label, one, model_line(of)))
    told = dict[str, str]()
    for what in sorted(judged, key=lambda what: not what.startswith("homes")):
        verdicts: dict[str, list[str]] = {}
        for label, one, _ in [] if told else judged[what]:
            verdicts.setdefault(one.told, []).append(f"“{label}” ({one.amount})")
        texts = [
            f"{verdict} with {', '.join(of[:MOST_LISTED])}{f' and {more} more' if more > 0 else ''}"
            for verdict, of in verdicts.items()
            for more in [len(of) - MOST_LISTED]
        ]
        told[what] = "; ".join([*_reduced(judged[what], next(iter(every))), *texts])
    return [*_models(every), *((what, text) for what, text in told.items() if text)]


def _models(every: Mapping[str, Sequence[Line]]) -> list[tuple[str, str]]:
    """What the models are scored by, and the labels with the smallest and the largest value."""
    models = [
        (label, one)
        for label, of in every.items()
        if (one := model_line(of)) is not None and one.verdict
    ]
    if len(models) < 2:
        return []
    models.sort(key=lambda each: each[1].value)
    (least, low) = models[0]
    (most, high) = models[-1]
    same = f"{low.amount} with all" if low.amount == high.amount else ""
    return [(low.what, same or f"{low.amount} with “{least}”, {high.amount} with “{most}”")]


_Judged = tuple[str, Line, Line | None]
"""a label, its line of a figure, and that of its model"""


def _reduced(judged: Sequence[_Judged], first: str) -> list[str]:
    """A share of the first label, the label with the least, and the least of those with useful
    models, with what each costs the model; nothing of anything else. A reduction is proven where
    the 95 % intervals do not overlap.
    """
    (label, base, before), *others = judged
    if label != first or not base.n or not others:
        return []
    useful = {of[0] for of in others if of[2] and is_useful(of[2].verdict)}
    fewer = [of for of in others if of[1].value < base.value]
    fewer.sort(key=lambda of: (of[1].value, of[0] not in useful))
    said = [
        f"{base.hits} of {base.n} with “{first}”{'' if fewer else ', and no variant hides more'}"
    ]
    best = dict.fromkeys(fewer[:1] + [of for of in fewer if of[0] in useful][:1])
    for word, (label, one, model) in zip(("fewest", "fewest of useful models"), best, strict=False):
        texts = [f"{one.hits} of {one.n}"]
        if model and before:
            instead = "" if model.amount == before.amount else f" instead of {before.amount}"
            texts.append(
                f"{model.what} "
                f"{model.amount}{instead}{'' if label in useful else f', {model.verdict}'}"
            )
        texts += ["not proven, the 95 % intervals overlap"] if one.high >= base.low else []
        texts += [f"few: {counted(one.n, 'UE')}"] if one.n < FEW_UES else []
        said.append(f"{word} with “{label}” ({'; '.join(texts)})")
    label, most, _ = max(others, key=lambda of: of[1].value)
    return said + (
        [f"most with “{label}” ({most.hits} of {most.n})"] if most.value > base.value else []
    )


# -- attackers that were tuned for the rows of a sweep

HEAD = ("variant", "attack", "settings", "goal", "adapted", "second", "as written", "refused")
"""of a row: what the attacker reached on the seed of tuning, beside the best of another kind and
the best as written"""


def read_adapted(folder: Path) -> tuple[list[dict[str, str]], str]:
    """The row of each variant of a sweep by `HEAD`, and how to read them; nothing where no attacker
    was tuned.
    """
    said = of_sweep_file(folder, "adapted")
    try:
        if said:
            return (
                [{key: str(row[key]) for key in HEAD} for row in said["rows"]],
                str(said["note"]),
            )
        return ([], "")
    except (KeyError, TypeError) as error:
        raise BadInput(f"{folder / SWEEP}: damaged ({error!r}); start the sweep again") from None


# -- values over seeds


def meaning(key: str) -> str:
    """What a key says, with its unit; empty for an undeclared one."""
    of = declaration(key)
    if of is None:
        return ""
    if of.unit:
        return f"{of.says} ({of.unit})"
    return of.says


def over_seeds(runs: Sequence[Record], key: str) -> Quartiles:
    """Quartiles of a value over the runs that have it; one that is null as it is infinite, or
    never, is infinite.
    """
    return quartiles_of(value_in(run, key) for run in runs)


def cell_text(runs: Sequence[Record], key: str) -> str:
    """A value over seeds, with its quartiles where there are several."""
    values = [run.get(key) for run in runs]
    if all(isinstance(v, bool) for v in values):
        if len(values) > 1:
            return f"{values.count(True)} of {len(values)}"
        return value_text(values[0])
    quartiles = over_seeds(runs, key)
    low, median, high = (
        figure_text(value, getattr(declaration(key), "unit", "")) for value in quartiles
    )
    if len(runs) == 1 or np.isnan(quartiles[1]):
        return median
    known = [value for run in runs if not np.isnan(value := value_in(run, key))]
    if len(known) < len(runs):
        few = [f"{len(known)} of {len(runs)}"]
    else:
        few = []
    few += [f"∞ in {n} of {len(known)}"] if (n := known.count(np.inf)) else []
    return f"{median} [{low}, {high}]" + (f" ({', '.join(few)})" if few else "")
