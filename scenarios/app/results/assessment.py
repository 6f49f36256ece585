"""Rows of defenses that were assessed, and the verdict by a fixed rule.

A row is a run: its suite, label and seed, the command and version that played it, and the figures
of its summary from which tables are made.
"""

import re
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.errors import BadInput
from scenarios.app.results.shown import build_lines_by_label
from scenarios.app.results.statistics import group_by_label
from scenarios.app.results.table import (
    AT_CHANCE,
    FOUND,
    INCONCLUSIVE,
    PREVENTED,
    ByLabel,
    Line,
    Lines,
    average_over_runs,
    find_model_verdict,
    is_useful_verdict,
)
from scenarios.app.study import Fields, Record

if TYPE_CHECKING:
    import pandas

NOTHING = "nothing"
"""label of the row without a defense, with which others are compared"""
REDUCED = "reduced"
NOT_SHOWN = "not shown"
RULE = (
    f"{PREVENTED}: the map useful, and homes and workplaces, which are found with “{NOTHING}”, at "
    "chance (not found, and the 95 % interval ends within five points of it); "
    f"{REDUCED}: the map useful, and each interval below that of “{NOTHING}”, or at chance; "
    f"{INCONCLUSIVE}: neither, and too few UEs or no answers; {NOT_SHOWN}: all else, and defenses "
    "whose server half changes sums of updates, which attackers were not given"
)
PLACES = ("home_located", "work_located", "densest_located")
"""what is found of a UE; the last: its place of most time, where it has no home"""
ROWS = Path(__file__).parents[2] / "assess" / "rows.csv"
"""rows that come with the program"""
_TEXTS = ("suite", "label", "accounts", "command", "version")
_KEPT = re.compile(
    r"utility\.|privacy\.|leakage\.hit|updates\.sent|uplink\.(energy_j|latency)|homes\."
    r"|baseline\.(uniform|others)\.|attack\..*(_located\.(shuffled\.)?percent|\.count)$"
)
"""keys of a summary that a row has"""


def keep_figures(summary: Record, scored_by_place: Record) -> Fields:
    """Keep finite figures that tables show of a run, and the error by place of another."""
    places = {key: value for key, value in scored_by_place.items() if ".place" in key}
    figures = {**summary, **places}.items()
    return {key: value for key, value in figures if _KEPT.match(key) and value is not None}


def read_rows(path: Path) -> "pandas.DataFrame":
    """Read rows, a run each. BadInput: they cannot be read."""
    import pandas

    try:
        return pandas.read_csv(path).astype({name: str for name in _TEXTS} | {"seed": int})
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{path}: no table of assessed rows ({error}); assess them again") from None


def build_assessed_lines(rows: "pandas.DataFrame") -> tuple[ByLabel, dict[str, list[Line]]]:
    """Build runs and lines of each label of one suite, with joules and seconds per upload."""
    records = (row.dropna().to_dict() for _, row in rows.iterrows())
    labels = group_by_label((row["label"], row) for row in records)
    lines_by_label = build_lines_by_label(labels)
    for label, runs in labels.items():
        joules = average_over_runs(runs, "uplink.energy_j")
        joules /= average_over_runs(runs, "updates.sent")
        seconds = average_over_runs(runs, "uplink.latency_s.median")
        lines_by_label[label] += [
            Line("energy per upload", "J", joules, key="upload.joules"),
            Line("latency", "s", seconds, key="upload.seconds"),
        ]
    return labels, lines_by_label


def judge_defense(shown: Lines, nothing: Lines, doubt: str = "") -> str:
    """Judge the lines of a label by RULE, beside those without a defense.

    doubt : why an attacker may know more than was played; empty: nothing says so.
    """
    lines, others = (
        {line.key.split(".")[-2]: line for line in each if line.n} for each in (shown, nothing)
    )
    unseen = Line("", "", nan, verdict=INCONCLUSIVE)
    pairs = [(lines.get(name, unseen), others[name]) for name in PLACES if name in others]
    model = find_model_verdict(shown)
    is_found = [other.verdict == FOUND for _, other in pairs]
    if not pairs or not all(is_found) or model == INCONCLUSIVE:
        return INCONCLUSIVE
    if doubt or not is_useful_verdict(model):
        return NOT_SHOWN
    at_chance = [line.verdict in (AT_CHANCE, PREVENTED) for line, _ in pairs]
    if all(at_chance):
        return PREVENTED
    is_below = [line.high < other.low for line, other in pairs]
    if all(map(max, at_chance, is_below)):
        return REDUCED
    if any(line.verdict == INCONCLUSIVE for line, _ in pairs):
        return INCONCLUSIVE
    return NOT_SHOWN
