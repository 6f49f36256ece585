"""What the runs of a label show, in a form that labels can be set against each other: leakage, utility, price.

Means over seeds. Leakage is prevented where no attack is better than chance: where the share of named homes is at most
five percentage points above the largest kind of chance and Wilson's 95 % interval over all UEs reaches down to it,
where centroids, positions or places are no nearer than those of guesses, where the interval of what training adds to
the AUC of a membership attack reaches 0 (that of its AUC 0.5, where no AUC before training is known). A model is kept
where it is better than a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks, audits
from scenarios.app.results.model_text import good_map
from scenarios.app.results.over_seeds import over_seeds
from scenarios.app.results.statistics import figure_text, share_of
from scenarios.app.results.summary_keys import Measure

Runs = Sequence[Mapping[str, Any]]
"""the summaries of a label's runs"""

MOST_POINTS = 5.0
"""percentage points above chance up to which a share of named homes may be chance"""
FAR_DB = 1000.0
"""an RMSE above it only says that the model is far off"""


@dataclass(frozen=True)
class Leakage:
    """What the strongest attack of a label found.

    amount : grows with leakage, in the measure's own unit. figure, chance : it and its baseline, as text with units.
    since_day : from which day on, NaN where unknown. prevented : whether no attack is better than chance.
    """

    attack: str
    amount: float
    figure: str
    chance: str
    prevented: bool
    since_day: float = np.nan


@dataclass(frozen=True)
class Utility:
    """How good the model of a label is.

    error : smaller is better. figure, constant : the model's measure and that of a constant, as text with units.
    kept : whether it is better than a constant.
    """

    error: float
    figure: str
    constant: str
    kept: bool


@dataclass(frozen=True)
class Way:
    """A way to say what was found: `ask` completes "the server ...", `unit` follows figures in lists.

    chance : what the baseline is called.
    """

    ask: Callable[[Leakage, float], str]
    unit: str
    chance: str
    of: Callable[[Runs], Leakage | None]


def mean(runs: Runs, key: str) -> float:
    """Mean of a value over the runs that have it; NaN of none."""
    values = [float(v) for run in runs if (v := run.get(key)) is not None]
    return float(np.mean(values)) if values else np.nan


SEEDS = " seeds"
"""ends what says over how many seeds a mean is"""


def seeds_text(runs: Runs, value: Callable[[Mapping[str, Any]], Any]) -> str:
    """`2 of 3 seeds`, where only some of the runs have a value; empty where all or none have one."""
    known = sum(value(run) is not None for run in runs)
    return f"{known} of {len(runs)}{SEEDS}" if 0 < known < len(runs) else ""


def _seeds(runs: Runs, key: str) -> str:
    """The same of a key, in brackets."""
    text = seeds_text(runs, lambda run: run.get(key))
    return f" ({text})" if text else ""


def strongest(runs: Runs) -> str:
    """The attack that names both places of most UEs, then home, then work; or with the smallest centroid error."""
    shares = (keys.BOTH_NAMED_PERCENT, keys.HOME_NAMED_PERCENT, keys.WORK_NAMED_PERCENT)

    def strength(name: str) -> tuple[float, ...]:
        error = mean(runs, keys.ERROR_MEDIAN.of(name))
        return (
            *(float(np.mean([run.get(key.of(name)) or 0.0 for run in runs])) for key in shares),
            -np.inf if np.isnan(error) else -error,
        )

    return max(_names(runs, attacks), key=strength, default="")


def nearest(runs: Runs, key: Measure, most: bool = False) -> str:
    """The attack that a measure is shown of: the strongest, or, where it has no value, the one that finds most by it.

    most : whether larger values are those of stronger attacks. Empty where no attack has a value.
    """
    names = list(dict.fromkeys(n for run in runs for k in run if (n := key.name_in(k)) and run[k] is not None))
    best = strongest(runs)
    if best in names or not names:
        return best if names else ""
    return min(names, key=lambda name: (-1 if most else 1) * mean(runs, key.of(name)))


def homes(runs: Runs) -> Leakage | None:
    """By the share of named homes; None where no attacked UE has a home."""
    found = []
    for name in sorted(_names(runs, attacks), key=lambda name: name != strongest(runs)):
        share = mean(runs, keys.HOME_NAMED_PERCENT.of(name))
        kinds = (keys.UNIFORM[0].of(), keys.OTHERS[0].of(), keys.SHUFFLED[0].of(name))
        chance = np.nanmax([0.0, *(mean(runs, key) for key in kinds)])
        if not np.isnan(share):
            day = over_seeds(runs, keys.HOME_NAMED_DAY.of(name))[1]
            few = _seeds(runs, keys.HOME_NAMED_PERCENT.of(name))
            percent = f"{figure_text(round(share))} %{few}", f"{figure_text(round(chance, 1))} %"
            found.append(Leakage(name, share, *percent, _may_be_chance(runs, name, share, chance), day))
    return _of_all(found[0], found) if found else None


def _may_be_chance(runs: Runs, name: str, share: float, chance: float) -> bool:
    """Whether a share of named homes, percent, may be chance; of few UEs a large one could, so it must be near, too."""
    named, of = 0, 0
    for run in runs:
        own, n = run.get(keys.HOME_NAMED_PERCENT.of(name)), run.get(keys.HOMES_COUNT.of(name))
        if own is not None and n:
            named, of = named + round(own * n / 100), of + int(n)
    low = share_of(np.arange(of) < named)[1] if of else share
    return share <= chance + MOST_POINTS and low <= chance


def distances(runs: Runs) -> Leakage | None:
    """By the centroid error, or that of named places; None where no attack can be set against a guess."""
    found = []
    for name in _names(runs, attacks):
        pairs = [
            (over_seeds(runs, key.of(name))[1], mean(runs, baseline.of()))
            for key, baseline in (
                (keys.ERROR_MEDIAN, keys.AREA_CENTRE_ERROR),
                (keys.PLACE_ERROR, keys.ANYWHERE_ERROR),
                (keys.SW1, keys.GUESS_SW1_Q05),
            )
        ]
        known = [(own, guess) for own, guess in pairs if not np.isnan(own) and not np.isnan(guess)]
        if known:
            own, guess = known[0]
            texts = f"{figure_text(own, 'm')} m", f"{figure_text(guess, 'm')} m"
            found.append(Leakage(name, -own, *texts, all(a >= b for a, b in known)))
    return _most(found)


def membership(runs: Runs) -> Leakage | None:
    """By the AUC of membership attacks, held against that before training where it is known; None without any."""
    found = []
    for name in _names(runs, audits):
        auc, low = mean(runs, keys.AUC_LAST.of(name)), mean(runs, keys.AUC_LOW.of(name))
        before, more = mean(runs, keys.AUC_BEFORE.of(name)), mean(runs, keys.AUC_DIFFERENCE_LOW.of(name))
        if not np.isnan(auc):
            prevented = (auc if np.isnan(low) else low) <= 0.5 if np.isnan(more) else more <= 0
            chance = 0.5 if np.isnan(before) else before
            found.append(Leakage(name, auc, f"AUC {figure_text(auc)}", f"AUC {figure_text(chance)}", prevented))
    return _most(found)


def _names(runs: Runs, of: Callable[[Mapping[str, Any]], list[str]]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in of(run)))


def _most(found: Sequence[Leakage]) -> Leakage | None:
    """The attack that found most."""
    most = max(found, key=lambda one: one.amount, default=None)
    return None if most is None else _of_all(most, found)


def _of_all(shown: Leakage, found: Sequence[Leakage]) -> Leakage:
    """What one attack found; leakage is prevented only where that of every attack is."""
    return replace(shown, prevented=all(one.prevented for one in found))


MEASURES = (
    Way(lambda of, m: f"names the home of {of.figure} of UEs within {m:g} m", "of homes", "chance", homes),
    Way(lambda of, _: f"places UEs {of.figure} from where they are, in the median", "off", "a guess:", distances),
    Way(lambda of, _: f"tells members from others with {of.figure}", "", "chance:", membership),
)


def measure_of(labels: Mapping[str, Runs]) -> tuple[Way, dict[str, Leakage]] | None:
    """The first measure that a label has a value of, and the values of all that have one."""
    for measure in MEASURES:
        found = {label: one for label, runs in labels.items() if (one := measure.of(runs)) is not None}
        if found:
            return measure, found
    return None


def utility(runs: Runs) -> Utility | None:
    """The utility of the models; None where nothing was held out, or nothing was learned."""
    rmse, constant = mean(runs, keys.RMSE.of()), mean(runs, keys.CONSTANT_RMSE.of())
    if not np.isnan(constant):
        # a run without an error of a constant measured nothing; one with it alone has a model that is not finite
        measured = [run for run in runs if run.get(keys.CONSTANT_RMSE.of()) is not None]
        diverged = any(run.get(keys.RMSE.of()) is None for run in measured)
        error = np.inf if diverged else rmse
        figure = "not finite" if diverged else f"> {FAR_DB:.0f} dB" if rmse > FAR_DB else f"{figure_text(rmse)} dB"
        few = _seeds(runs, keys.CONSTANT_RMSE.of())
        place, law, law_place = (
            mean(runs, k.of())
            for k in (keys.BY_PLACE[keys.RMSE], keys.PATH_LOSS_RMSE, keys.BY_PLACE[keys.PATH_LOSS_RMSE])
        )
        base = f"{figure_text(constant)} dB"
        if not np.isnan(place):
            few += f", {figure_text(place)} dB by place{', a good map' if good_map(runs) else ''}"
            base += f"; a law of three numbers: {figure_text(law)} dB, {figure_text(law_place)} dB by place"
        return Utility(error, f"RMSE {figure}{few}", base, error < constant)
    accuracy, frequent = mean(runs, keys.ACCURACY.of()), mean(runs, keys.CONSTANT_ACCURACY.of())
    if not np.isnan(accuracy) and not np.isnan(frequent):
        return Utility(
            -accuracy, f"accuracy {figure_text(accuracy)} %", f"{figure_text(frequent)} %", accuracy > frequent
        )
    rank = mean(runs, keys.RANK_CORRELATION.of())
    if not np.isnan(rank):
        useful = [bool(run.get(keys.USEFUL.of())) for run in runs]
        return Utility(-rank, f"rank correlation {figure_text(rank)}", "0", 2 * sum(useful) > len(useful))
    return None


def largest_epsilon(run: Mapping[str, Any]) -> float | None:
    """The largest epsilon of all mechanisms, infinite where one has no finite value; None without noise."""
    spent = [value for key, value in run.items() if keys.EPSILON_MAX.name_in(key) is not None]
    return max((np.inf if value is None else float(value) for value in spent), default=None)
