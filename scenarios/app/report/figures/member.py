"""What a comparison keeps of a run: its summary, and its figures over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from numpy.typing import NDArray

from scenarios.app.report.figures.accuracy import learner_metric
from scenarios.app.report.figures.named import share_over_time
from scenarios.app.report.figures.radio import uplink_series
from scenarios.app.report.plot import looks
from scenarios.app.report.series import Series, attack_grids, home_grids, unfound
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import quantile

OF_TRACKS = ("sw1_m", "true_centroids_sw1_m", "guess_sw1_m")
OF_UES = ("home_m", "home_named_m", "guess_home_m")
ACCURACY = "accuracy_percent"
NAMED = {"home": "Home", "both": "Both home and work"}


@dataclass(frozen=True, eq=False)
class Member:
    """(attack, column) -> medians over tracks or UEs in time; no attack: utility.

    Times are those of the requests, which seeds share; where uploads take their time, those of the merges.
    """

    label: str
    manifest: dict[str, Any]
    summary: dict[str, Any]
    study: dict[str, Any]
    attacks: list[str]
    near_m: float
    trends: dict[tuple[str, str], Series]
    grid: dict[str, NDArray[Any]] = field(default_factory=dict)


def member(label: str, run: Run, merged: bool = False) -> Member:
    """The run's trends, without its tables; merged: at the times of merges, not of requests."""
    trends: dict[tuple[str, str], Series] = {}
    for look, rows in attack_grids(run, looks(run.attacks)):
        grids = {"error_m": rows.error_m()} | {name: rows.so_far(name) for name in OF_TRACKS}
        for name, grid in grids.items():
            trends[look.name, name] = run.moment_s(rows.round, merged), quantile(grid, 0.5)
    for look, rows in home_grids(run, looks(run.attacks)):
        for name in OF_UES:
            trends[look.name, name] = run.moment_s(rows.round, merged), quantile(unfound(rows.so_far(name)), 0.5)
    for attack, of in product(run.attacks, NAMED):
        number, share = share_over_time(run, attack, of)
        trends[attack, of] = run.moment_s(number, merged), share
    rounds = run.rows("rounds")
    for name in ("rmse_db", "constant_rmse_db", "epsilon_max"):
        trends["", name] = run.moment_s(rounds["round"], merged), rounds[name]
    accuracy = learner_metric(run, keys.ACCURACY)
    trends["", ACCURACY] = run.moment_s(accuracy["round"], merged), accuracy["value"]
    trends |= {("", name): series for name, series in uplink_series(run, merged).items()}
    return Member(label, run.manifest, run.summary, run.study, run.attacks, run.near_m, trends, run.grid)


def labels_of(members: Sequence[Member]) -> dict[str, list[Mapping[str, Any]]]:
    """Label -> the summaries of its runs."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for m in members:
        grouped.setdefault(m.label, []).append(m.summary)
    return grouped
