"""How useful the model is, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import counted, half_width
from scenarios.app.results.summary_values import number_text, text_of, value_of

USELESS = "Low leakage proves nothing here; high leakage is still real."
"""what leakage means where the model is not useful"""
NO_WORSE_DB = 0.2
"""by which a good map may exceed the law of three numbers by place"""
FAR = 10.0
"""ratio of errors above which it is no longer told"""


def model_text(summary: Mapping[str, Any]) -> str:
    """How useful the model is, beside its baselines, in the terms of its kind."""
    if admits_no_round(summary):
        return "not trained: learning.privacy_budget admits no round"
    if is_density(summary):
        return density_text(summary)
    return accuracy_text(summary) if classifies(summary) else signals_text(summary)


def admits_no_round(summary: Mapping[str, Any]) -> bool:
    """Whether a run ended before its first round, which would have exceeded its privacy budget."""
    return bool(value_of(summary, keys.ROUNDS_STOPPED)) and value_of(summary, keys.ROUNDS_PLAYED) == 0


def good_map(runs: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether the maps of a label are good: better than the law of three numbers, and by place no worse.

    Of several runs that have all four figures, both 95 % intervals of the mean paired difference must lie below 0 and
    NO_WORSE_DB; not good where one lies above. None: neither, or a figure is missing.
    """
    pairs = ((keys.RMSE, keys.PATH_LOSS_RMSE), (keys.BY_PLACE[keys.RMSE], keys.BY_PLACE[keys.PATH_LOSS_RMSE]))
    figures = [[run.get(key.of()) for pair in pairs for key in pair] for run in runs]
    known = np.array([four for four in figures if None not in four], dtype=np.float64).reshape(-1, 4)
    known = known[np.isfinite(known).all(axis=1)]
    if not len(known):
        return None
    margin_db = known[:, [0, 2]] - known[:, [1, 3]] - [0.0, NO_WORSE_DB]
    wide = np.array([half_width(column) for column in margin_db.T]) if len(known) > 1 else np.zeros(2)
    mean = margin_db.mean(axis=0)
    if (mean - wide > 0).any():
        return False
    return True if (mean + wide <= 0).all() else None


def _unmeasured(summary: Mapping[str, Any]) -> str:
    """Why a map of signals has no error."""
    if value_of(summary, keys.SAMPLES_COUNT) and not value_of(summary, keys.SAMPLES_SELECTED):
        held_out = value_of(summary, keys.ROUNDS_HELD_OUT) == value_of(summary, keys.ROUNDS_PLAYED)
        return f"not trained: {'every measurement was held out, and ' if held_out else ''}no update was sent"
    return "not measured: nothing was held out in the rounds that were played"


def signals_text(summary: Mapping[str, Any]) -> str:
    """How good a map of signals is."""
    rmse, constant, raw = (value_of(summary, key) for key in (keys.RMSE, keys.CONSTANT_RMSE, keys.RAW_UPLOAD_RMSE))
    if constant is None:
        return _unmeasured(summary)
    if rmse is None:
        return f"NOT useful. The model is not finite. {USELESS}"
    gain = 1 - rmse / constant if constant > 0 else 0.0
    if not value_of(summary, keys.USEFUL):
        worth = "NOT useful"
    elif summary.get(keys.GOOD.of()):
        worth = "a good map"
    else:
        worth = "useful" if gain > 0 else "hardly useful, no better than a constant"
    better = f", {100 * gain:.0f} % better than a constant" if gain > 0 else ""
    central = value_of(summary, keys.CENTRAL_RMSE)
    failed = central_failed(central, constant)
    above = "" if not central or failed else f", {_above(rmse / central)} the same net trained centrally"
    text = f"{worth}: RMSE {number_text(rmse)} dB{better}{above}; baselines: constant {number_text(constant)} dB"
    text += "" if central is None or failed else f", central {number_text(central)} dB"
    text += "" if raw is None else f", raw upload {number_text(raw)} dB"
    for name, key in _LAWS.items():
        text += "" if (value := summary.get(key.of())) is None else f", {name} {number_text(value)} dB"
    if failed:
        text += f"; central training failed: {number_text(central)} dB, worse than the constant {number_text(constant)}"
    text += _place_text(summary) + _grid_text(summary)
    return text if value_of(summary, keys.USEFUL) else f"{text}. The model has not learned the map. {USELESS}"


_LAWS = {"law of three numbers": keys.PATH_LOSS_RMSE, "kriging": keys.KRIGING_RMSE}


def _place_text(summary: Mapping[str, Any]) -> str:
    """How good a map is where no UE trained, beside its references; whether it adds anything there."""
    if keys.PLACE_BLOCKS.of() not in summary:
        return ""
    rmse = summary.get(keys.BY_PLACE[keys.RMSE].of())
    blocks = f"{counted(value_of(summary, keys.PLACE_BLOCKS), 'block')} without training samples"
    if rmse is None:
        return f"; not scored by place: {blocks} held out"
    names = {"constant": keys.CONSTANT_RMSE, **_LAWS}
    known = [(name, summary.get(keys.BY_PLACE[key].of())) for name, key in names.items()]
    beside = [f"{name} {number_text(value)} dB" for name, value in known if value is not None]
    law = summary.get(keys.BY_PLACE[keys.PATH_LOSS_RMSE].of())
    nothing = ", so the network adds nothing there" if law is not None and rmse > law + NO_WORSE_DB else ""
    return f"; by place ({blocks}): RMSE {number_text(rmse)} dB{nothing}; baselines: {', '.join(beside)}"


def central_failed(central_db: float | None, constant_db: float) -> bool:
    """Whether training in one place gave a map that is worse than a constant: then it is no measure of any other."""
    return central_db is not None and central_db > constant_db


def _above(ratio: float) -> str:
    """A ratio of errors as a percentage above or below; beyond ten times it only says that."""
    if ratio > FAR:
        return f"more than {FAR:.0f} times"
    return f"{100 * abs(ratio - 1):.0f} % {'above' if ratio >= 1 else 'below'}"


def _grid_text(summary: Mapping[str, Any]) -> str:
    """The errors of a map of obstacles; the first is that of the model before the last step."""
    if keys.NEW_STATIONS_MAE.of() not in summary:
        return ""
    links = {
        "training links (before the last step)": value_of(summary, keys.METRIC_LAST, "learner.mae_links_db"),
        "new links": value_of(summary, keys.NEW_LINKS_MAE),
        "new base stations": value_of(summary, keys.NEW_STATIONS_MAE),
        "new positions": value_of(summary, keys.NEW_POSITIONS_MAE),
    }
    return "; mean absolute error " + ", ".join(
        f"{number_text(v)} dB on {k}" for k, v in links.items() if v is not None
    )


def is_density(summary: Mapping[str, Any]) -> bool:
    """Whether the model of a run is a density."""
    return keys.RANK_CORRELATION.of() in summary


def density_text(summary: Mapping[str, Any]) -> str:
    """How good a density is, and how many bands its waves leave."""
    worth = "useful" if value_of(summary, keys.USEFUL) else "NOT useful"
    text = f"{worth}: rank correlation {text_of(summary, keys.RANK_CORRELATION)} with the exact kernel density"
    exact = value_of(summary, keys.KDE_TRUTH_RANK_CORRELATION)
    if exact is not None:
        text += (
            f", {text_of(summary, keys.TRUTH_RANK_CORRELATION)} with the true distribution (baseline: exact kernel "
            f"density {number_text(exact)})"
        )
    sure = value_of(summary, keys.METRIC_LAST, "query.bands_probability")
    if sure is not None:
        bands = value_of(summary, keys.METRIC_LAST, "query.bands")
        text += f"; {counted(int(bands), 'band')} across the area with probability {number_text(sure)} (Lemma 3)"
    return text if value_of(summary, keys.USEFUL) else f"{text}. {USELESS}"


def classifies(summary: Mapping[str, Any]) -> bool:
    """Whether the model of a run is a classifier."""
    return keys.ACCURACY.of() in summary


def accuracy_text(summary: Mapping[str, Any]) -> str:
    """How good a classifier is."""
    accuracy, constant = value_of(summary, keys.ACCURACY), value_of(summary, keys.CONSTANT_ACCURACY)
    if accuracy is None or constant is None:
        return "not measured: nothing was held out"
    text = f"accuracy {accuracy:.1f} % on held-out images; baseline: most frequent class {constant:.1f} %"
    return f"useful: {text}" if value_of(summary, keys.USEFUL) else f"NOT useful: {text}"
