"""The answer of a comparison in three lines: what is known of users, what prevents it, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.folder import STUDY
from scenarios.app.results.gathered import Gathered
from scenarios.app.results.glance import attacker
from scenarios.app.results.lists import list_verdict
from scenarios.app.results.model_text import central_failed
from scenarios.app.results.standing import (
    Leakage,
    Runs,
    Utility,
    Way,
    largest_epsilon,
    mean,
    measure_of,
    utility,
)
from scenarios.app.results.statistics import figure_text
from scenarios.app.study.yaml_document import read

MOST_NAMED = 3  # labels in a sentence
_NO_GUARANTEE = 1000.0  # epsilon above which its value says nothing
_RADIO = (  # of a radio study: what is asked, its key, what it is, its unit
    ("Signal and interference", "radio.sinr_db.median", "median SINR", "dB"),
    ("Coverage", "radio.rsrp_dbm.q05", "RSRP that 95 % of samples exceed", "dBm"),
    ("Handovers", "handover.per_ue_hour", "handovers", "a UE and hour"),
)

Lines = list[tuple[str, str]]
"""what is asked, in a word or two, and the answer"""


def answer_of(of: Gathered) -> Lines:
    """The answer of a comparison, read from its runs."""
    labels: dict[str, list[Mapping[str, Any]]] = {}
    for label, summary in of.summaries:
        labels.setdefault(label, []).append(summary)
    return answer(labels, attacker(read(of.runs[0][1] / STUDY).data))


def answer(labels: Mapping[str, Runs], who: str = "the server") -> Lines:
    """Three lines; the first label is what the others are compared with.

    who : the attacker.
    """
    if any(key.startswith("radio.") for runs in labels.values() for run in runs for key in run):
        return radio_answer(labels)
    models = {label: one for label, runs in labels.items() if (one := utility(runs)) is not None}
    measured = measure_of(labels)
    if measured is None:
        return [("What is known", "Nothing was attacked, so nothing is said of leakage."), *_models(labels, models)]
    measure, found = measured
    first = next(iter(labels))
    return [
        ("What is known", _known(measure, found, labels, first, who)),
        *([("What prevents it", _prevents(measure, found, models, first))] if len(labels) > 1 else []),
        *([("What it costs", cost)] if (cost := _cost(found, models, labels, first)) else []),
        *(("List", f"“{label}”: {told}.") for label, runs in labels.items() if (told := list_verdict(runs))),
    ]


def _known(measure: Way, found: Mapping[str, Leakage], labels: Mapping[str, Runs], first: str, who: str) -> str:
    """What the strongest attack found with the first label."""
    if first not in found:
        label, of = next(iter(found.items()))
        return f"With “{first}” nothing was measured; with “{label}” {_asks(measure, of, labels[label], who)}."
    return f"With “{first}” {_asks(measure, found[first], labels[first], who)}."


def _asks(measure: Way, of: Leakage, runs: Runs, who: str) -> str:
    near_m = mean(runs, keys.NEAR.of())
    day = "" if np.isnan(of.since_day) else f", half of them since day {figure_text(of.since_day)}"
    more = "; no more than chance" if of.prevented else ""
    return f"{who} {measure.ask(of, near_m)}{day} ({measure.chance} {of.chance}{more})"


def _prevents(measure: Way, found: Mapping[str, Leakage], models: Mapping[str, Utility], first: str) -> str:
    """The labels that leave no more than chance: those that keep a model, then the others."""
    others = {label: of for label, of in found.items() if label != first}
    if not others:
        return "No other variant was attacked."

    def told(label: str) -> str:
        of, model = others[label], models.get(label)
        figure = f"“{label}” ({of.figure}{f' {measure.unit}' if measure.unit else ''}"
        if model is None:
            return f"{figure})"
        worth = model.figure if model.kept else f"but {model.figure}: no better than a constant"
        return f"{figure}, {worth})"

    by_amount = sorted(others, key=lambda label: others[label].amount)
    good = [label for label in by_amount if others[label].prevented]
    useful = [label for label in good if label not in models or models[label].kept]
    useless = [label for label in good if label not in useful]
    if not good:
        least = by_amount[0]
        chance = others[least].chance
        return f"None of the other variants: least is found with {told(least)}; {measure.chance} {chance}."
    texts = [_listed([told(label) for label in useful])] if useful else []
    if useless:
        if not any(model.kept for model in models.values()):
            lead = "No variant has a useful model, and those that find no more than chance are"
        else:
            lead = "Without a useful model" if useful else "Only without a useful model"
        texts.append(f"{lead}: {_listed([told(label) for label in useless])}")
    if not useful:
        kept = [label for label in by_amount if label in models and models[label].kept]
        texts += [f"Of useful models least is found with {told(kept[0])}"] if kept else []
    return ". ".join(texts) + "."


def _cost(found: Mapping[str, Leakage], models: Mapping[str, Utility], labels: Mapping[str, Runs], first: str) -> str:
    """The model of the first label, and those of the labels that find least."""
    if first not in models:
        return ""
    own = models[first]
    central, constant = (mean(labels[first], key.of()) for key in (keys.CENTRAL_RMSE, keys.CONSTANT_RMSE))
    how = "central training failed:" if central_failed(central, constant) else "trained centrally"
    also = "" if np.isnan(central) else f", {how} {figure_text(central)} dB"
    text = f"“{first}”: {'' if own.kept else 'no useful model, '}{own.figure} (a constant: {own.constant}{also})"
    rest = [n for n in found if n != first and n in models]
    rest.sort(key=lambda n: (not found[n].prevented, not models[n].kept, found[n].amount))
    chosen = [n for n in rest if found[n].prevented] or rest[:1]
    prices = [f"“{name}”: {_price(models[name], own)}{_spent(labels[name])}" for name in chosen]
    return f"{text}. {_listed(prices, '; ')}." if prices else f"{text}."


def _price(model: Utility, own: Utility) -> str:
    """How much worse or better a model is than that of the first label."""
    if not model.kept:
        return "no useful model" if own.kept else f"no useful model either ({model.figure})"
    if own.error <= 0 or not np.isfinite(own.error):  # an accuracy or a correlation, which is given as it is
        return model.figure
    percent = round(100 * (model.error / own.error - 1))
    return "the same error" if percent == 0 else f"{abs(percent)} % {'more' if percent > 0 else 'less'} error"


def _spent(runs: Runs) -> str:
    spent = [value for run in runs if (value := largest_epsilon(run)) is not None]
    if not spent:
        return ""
    value = float(np.mean(spent))
    return f", epsilon {figure_text(value)}" if value <= _NO_GUARANTEE else ", no finite epsilon of use"


def _listed(texts: Sequence[str], sign: str = ", ") -> str:
    """The first of several, and how many more there are."""
    more = len(texts) - MOST_NAMED
    return sign.join(texts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _models(labels: Mapping[str, Runs], models: Mapping[str, Utility]) -> Lines:
    """The best and the worst model."""
    if not models:
        return [("The models", "Nothing was held out, so nothing is said of them.")]
    best, worst = min(models, key=lambda n: models[n].error), max(models, key=lambda n: models[n].error)
    useless = [f"“{label}”" for label, model in models.items() if not model.kept]
    text = f"Best with “{best}”: {models[best].figure} (a constant: {models[best].constant})"
    if models[best].error < models[worst].error:
        text += f"; worst with “{worst}”: {models[worst].figure}"
    lines = [("The models", f"{text}.")]
    return [*lines, ("Not better than a constant", f"{_listed(useless)}.")] if useless else lines


def radio_answer(labels: Mapping[str, Runs]) -> Lines:
    """Of radio studies: where signal and interference are best and worst, and where UEs change cells most."""
    lines = []
    for asked, key, what, unit in _RADIO:
        found = {label: value for label, runs in labels.items() if not np.isnan(value := mean(runs, key))}
        if not found:
            continue
        most, least = max(found, key=lambda n: found[n]), min(found, key=lambda n: found[n])
        high, low = (f"{figure_text(found[label], unit)} {unit}" for label in (most, least))
        if len(found) == 1:
            text = f"“{most}”: {what} {high}"
        elif high == low:
            text = f"{what} {high} with every label"
        else:
            text = f"{what} highest with “{most}” ({high}), lowest with “{least}” ({low})"
        lines.append((asked, f"{text[0].upper()}{text[1:]}."))
    return lines
