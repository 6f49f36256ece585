"""Rows of defenses that were assessed, and the verdict by a fixed rule.

A row is a run: its suite, label and seed, the command and version that played it, and the figures
of its summary from which tables are made.
"""

from collections.abc import Sequence
from math import nan
from pathlib import Path

import pandas

from netsim.errors import BadInput
from netsim.safe import describe_file_kind
from scenarios.app.results.shown import build_lines_by_label
from scenarios.app.results.statistics import group_by_label
from scenarios.app.results.table import (
    AT_CHANCE,
    FOUND,
    INCONCLUSIVE,
    PREVENTED,
    Line,
    Lines,
    find_model_verdict,
    is_useful_verdict,
)
from scenarios.app.study import Fields

NOTHING = "nothing"
"""label of the row without a defense, with which others are compared"""
REDUCED = "reduced"
NOT_SHOWN = "not shown"
RULE = (
    "prevented: the map useful, and homes and workplaces, which are found with “nothing”, at "
    "chance (not found, and the 95 % interval ends within five points of it); "
    "reduced: the map useful, and each interval below that of “nothing”, or at chance; "
    "inconclusive: neither, and too few UEs or no answers; not shown: all else, and defenses "
    "whose server half changes sums of updates, which attackers were not given"
)
PLACES = ("home_located", "work_located", "densest_located")
"""what is found of a UE; the last: its place of most time, where it has no home"""
ROWS = Path(__file__).parents[2] / "assess" / "rows.csv"
"""rows that come with the program"""
KEYS = ["suite", "label", "seed"]
"""columns that name a row"""
FIGURES = (
    r"^label$|^seed$|utility\.(?!.*place)|privacy\.|leakage\.hit|homes\.|baseline\.(uniform|others)\."
    r".*_located|attack\..*(_located\.(shuffled\.)?percent|s\.count)$"
)
"""columns of a sweep that a row has"""


def merge_rows(path: str | None, played: Sequence[pandas.DataFrame]) -> pandas.DataFrame:
    """Merge rows with those that are kept, which they replace. BadInput: these cannot be read.

    path : none, or of no file yet: those that come with the program.
    """
    file = Path(path) if path and describe_file_kind(path) else ROWS
    try:
        return pandas.concat([pandas.read_csv(file), *played]).drop_duplicates(KEYS, keep="last")
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{file}: no table of assessed rows ({error}); assess them again") from None


def judge_suite(rows: pandas.DataFrame) -> Fields:
    """Judge every label of a suite: `runs`, `lines` and `verdicts` by label."""
    runs = group_by_label((row["label"], row.dropna().to_dict()) for _, row in rows.iterrows())
    lines = build_lines_by_label(runs)
    nothing = lines.get(NOTHING, ())
    verdicts = {
        label: judge_defense(lines[label], nothing, own[0].get("doubt", ""))
        for label, own in runs.items()
    }
    return {"runs": runs, "lines": lines, "verdicts": verdicts}


def judge_defense(shown: Lines, nothing: Lines, doubt: str = "") -> str:
    """Judge the lines of a label by RULE, beside those without a defense.

    doubt : why an attacker may know more than was played; empty: nothing says so.
    """
    lines, others = ({line.key.split(".")[-2]: line for line in each} for each in (shown, nothing))
    unseen = Line("", "", nan, verdict=INCONCLUSIVE)
    pairs = [(lines.get(name, unseen), others[name]) for name in PLACES if name in others]
    model = find_model_verdict(shown)
    if model == INCONCLUSIVE or {other.verdict for _, other in pairs} != {FOUND}:
        return INCONCLUSIVE
    if doubt or not is_useful_verdict(model):
        return NOT_SHOWN
    above = [pair for pair in pairs if pair[0].verdict not in (AT_CHANCE, PREVENTED)]
    if not above:
        return PREVENTED
    if all(line.high < other.low for line, other in above):
        return REDUCED
    is_open = any(line.verdict == INCONCLUSIVE for line, _ in above)
    return INCONCLUSIVE if is_open else NOT_SHOWN
