"""The figures that compare runs: a curve or a point per label, over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray
from scenarios.app.report.figures.accuracy import learner_metric
from scenarios.app.report.figures.named import share_over_time
from scenarios.app.report.figures.radio import uplink_series
from scenarios.app.report.figures.radio_map import comparison_panel
from scenarios.app.report.plot import GREY, Cell, Figure, Look, Panel, line, looks, mosaic, numbers, plain
from scenarios.app.report.series import (
    GUESS,
    PERFECT,
    Series,
    attack_grids,
    diagonal_m,
    drawable,
    home_grids,
    median_line,
    unfound,
    wide,
)
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.over_seeds import over_seeds
from scenarios.app.results.run import Run, part
from scenarios.app.results.statistics import Quartiles, carried, counted, figure_text, quantile
from scenarios.app.results.summary_text import classifies

FEWEST_LABELS = 3  # of a figure with a point per label


@dataclass(frozen=True)
class Member:
    """What a comparison keeps of a run: (attack, column) -> medians over tracks or UEs in time; no attack: utility.

    Its times are those of the requests, which seeds share; arrivals differ.
    """

    label: str
    manifest: dict[str, Any]
    summary: dict[str, Any]
    study: dict[str, Any]
    attacks: list[str]
    near_m: float
    trends: dict[tuple[str, str], Series]
    grid: dict[str, NDArray[Any]] = field(default_factory=dict)


_NONE: Series = (np.zeros(0), np.zeros(0))
_OF_TRACKS = ("sw1_m", "perfect_attacker_sw1_m", "guess_sw1_m")
_OF_UES = ("home_m", "home_named_m", "guess_home_m")
_ACCURACY = "accuracy_percent"
_NAMED = {"home": "Home", "both": "Both home and work"}
_CARRIED = _OF_TRACKS + _OF_UES + tuple(_NAMED)
_INFINITE = ("error_m", "home_m", "home_named_m")  # columns that may be infinite


def member(label: str, run: Run) -> Member:
    """The run's trends, without its tables."""
    trends: dict[tuple[str, str], Series] = {}
    for look, rows in attack_grids(run, looks(run.attacks)):
        grids = {"error_m": rows.error_m()} | {name: rows.so_far(name) for name in _OF_TRACKS}
        for name, grid in grids.items():
            trends[look.name, name] = run.requested_s(rows.round), quantile(grid, 0.5)
    for look, rows in home_grids(run, looks(run.attacks)):
        for name in _OF_UES:
            trends[look.name, name] = run.requested_s(rows.round), quantile(unfound(rows.so_far(name)), 0.5)
    for attack, of in product(run.attacks, _NAMED):
        number, share = share_over_time(run, attack, of)
        trends[attack, of] = run.requested_s(number), share
    rounds = run.rows("rounds")
    for name in ("rmse_db", "constant_rmse_db", "epsilon_max"):
        trends["", name] = run.requested_s(rounds["round"]), rounds[name]
    accuracy = learner_metric(run, keys.ACCURACY)
    trends["", _ACCURACY] = run.requested_s(accuracy["round"]), accuracy["value"]
    trends |= {("", name): series for name, series in uplink_series(run).items()}
    return Member(label, run.manifest, run.summary, run.study, run.attacks, run.near_m, trends, run.grid)


def labels_of(members: Sequence[Member]) -> dict[str, list[Mapping[str, Any]]]:
    """Label -> the summaries of its runs."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for m in members:
        grouped.setdefault(m.label, []).append(m.summary)
    return grouped


def comparison_panels(members: Sequence[Member], attacks: Sequence[str], points: bool = True) -> list[Panel]:
    """Leakage over time for each attack, then utility and what was spent; `points`: then a point per label."""
    labels = list(labels_of(members))
    unit, seconds = _time_unit(members)
    x_axis = {"title": {"text": f"simulated time ({unit})"}, "rangemode": "tozero"}
    plotter = _Plotter(members, looks(labels), seconds)
    leakage = [_leakage(plotter, name, k, x_axis) for k, name in enumerate(attacks)]
    placed = not all(classifies(m.summary) for m in members)
    points = points and placed and len(labels) >= FEWEST_LABELS
    grids = {m.label: m.grid for m in reversed(members)}  # the first run of each label
    maps = comparison_panel({label: grids[label] for label in labels})
    return [
        *leakage,
        _utility(plotter, x_axis),
        *_uplink(plotter, x_axis),
        *maps,
        *(_points(members, attacks) if points else []),
    ]


def _time_unit(members: Sequence[Member]) -> tuple[str, float]:
    longest = max((float(t.max()) for m in members for t, _ in m.trends.values() if len(t)), default=0.0)
    units: Mapping[str, float] = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}
    return next(((u, s) for u, s in units.items() if longest >= 3 * s), ("seconds", 1.0))


@dataclass(frozen=True)
class _Plotter:
    """Draws one quantity of all runs: a curve per label, over its seeds."""

    members: Sequence[Member]
    own: Sequence[Look]
    second: float

    def curves(self, attack: str, column: str, unit: str, legend: bool = False, **more: Any) -> list[Figure]:
        lines: list[Figure] = []
        for look in self.own:
            time_s, grid = self._grid([m for m in self.members if m.label == look.name], attack, column)
            if column in _INFINITE:
                grid = drawable(grid)
                more["most"] = max(diagonal_m(m.manifest) for m in self.members)
            lines += median_line(look, numbers(time_s / self.second), grid, unit, showlegend=legend, **more)
        return lines

    def reference(self, attack: str, column: str, look: Look, legend: bool = True) -> list[Figure]:
        """One curve for the median of all runs."""
        time_s, grid = self._grid(self.members, attack, column)
        mid = quantile(grid, 0.5)
        if not np.isfinite(mid).any():
            return []
        x = numbers(time_s / self.second)
        return [line(look, x, mid, f"{look.name} (median of all runs)", mode="lines", showlegend=legend)]

    def _grid(self, members: Sequence[Member], attack: str, column: str) -> tuple[FloatArray, FloatArray]:
        """Times of any of the runs, and the figure (n_time, n_run)."""
        series = [m.trends.get((attack, column), _NONE) for m in members]
        time_s = np.unique(np.concatenate([t for t, _ in series]))
        grid = np.full((len(time_s), len(series)), np.nan)
        for j, (t, values) in enumerate(series):
            grid[np.searchsorted(time_s, t), j] = values
        return time_s, carried(grid) if column in _CARRIED else grid


_SW1_TITLE, _HOME_TITLE = "SW1 of all estimates so far", "Home to the nearest estimate"


def _leakage(plotter: _Plotter, attack: str, k: int, x_axis: Figure) -> Panel:
    title = f"Error of {attack} over time"
    near_m = plotter.members[0].near_m
    wanted = [
        ("error_m", "centroid error (m)", "Centroid error of the round"),
        ("sw1_m", "SW1 (m)", _SW1_TITLE),
        ("home_m", "distance (m)", _HOME_TITLE),
        ("home_named_m", "distance (m)", "Home to the nearer named place"),
        *((of, "share of UEs (%)", f"{what} named within {near_m:g} m") for of, what in _NAMED.items()),
    ]
    cells = list[Cell]()
    for column, y_title, heading in wanted:
        traces = plotter.curves(attack, column, "%" if column in _NAMED else "m", legend=not cells)
        at_m = near_m if column in ("home_m", "home_named_m") else None
        if traces:
            cells.append(Cell(y_title, traces, heading, column == "error_m", at_m, column in _NAMED))
    if not cells:
        return Panel(f"leakage-{k}", title, f"{attack} produced no estimate inside the area in any run.")
    caption = (
        "One line per label: median over seeds, the band their quartiles; each run counts with its median over UEs, at "
        "the time of the server's request. The error is missing where the median estimate diverged. An attack whose "
        "sliced Wasserstein distance (SW1) is not below that of random guesses (grey, dotted) reveals nothing; the "
        "dashed line is the SW1 of the true centroids."
    )
    return Panel(f"leakage-{k}", title, caption, mosaic(_referenced(cells, plotter, attack), x_axis, 300))


def _referenced(cells: Sequence[Cell], plotter: _Plotter, attack: str) -> list[Cell]:
    """The cells, with the baselines of SW1 and of the nearest estimate."""
    extra = {
        _SW1_TITLE: [
            *plotter.reference(attack, "guess_sw1_m", GUESS),
            *plotter.reference(attack, "perfect_attacker_sw1_m", PERFECT),
        ],
        _HOME_TITLE: plotter.reference(attack, "guess_home_m", GUESS, legend=False),
    }  # fmt: skip
    return [Cell(c.y_title, [*c.traces, *extra.get(c.title, [])], c.title, c.log, c.line_at, c.percent) for c in cells]


def _utility(plotter: _Plotter, x_axis: Figure) -> Panel:
    title = "Utility of the model, and privacy spent"
    constant = Look("baseline: constant", GREY, dash="dot")
    error = plotter.curves("", "rmse_db", "dB", legend=True)
    accuracy = plotter.curves("", _ACCURACY, "%", legend=not error)
    spent = plotter.curves("", "epsilon_max", "", legend=not (error or accuracy))
    if not (error or accuracy or spent):
        return Panel("utility", title, "No run recorded an error of its model, or drew noise.")
    values = np.concatenate([m.trends["", "rmse_db"][1] for m in plotter.members])
    cells = []
    if error:
        shown = [*error, *plotter.reference("", "constant_rmse_db", constant)]
        cells.append(Cell("RMSE (dB)", shown, "RMSE of the model", log=wide(values)))
    if accuracy:
        cells.append(Cell("accuracy (%)", accuracy, "Accuracy on held-out images"))
    if spent:
        cells.append(
            Cell("epsilon", spent, "Largest epsilon of any UE so far (unit, relation and delta: on each run's page)")
        )
    caption = (
        "On held-out samples: medians over seeds, bands their quartiles. A model that is no better than a constant has "
        "learned nothing" + ("." if spent else "; no run drew noise, so no epsilon was spent.")
    )
    return Panel("utility", title, caption, mosaic(cells, x_axis))


def _uplink(plotter: _Plotter, x_axis: Figure) -> list[Panel]:
    """The uplink, where labels differ in their radio."""
    if not _radios_differ(plotter.members):
        return []
    what = (
        ("decoded_percent", "UEs (%)", "Updates decoded in time", "%"),
        ("sinr_db", "SINR (dB)", "Uplink SINR, median over UEs", "dB"),
        ("latency_s", "latency (s)", "Latency, median over UEs", "s"),
        ("energy_j", "energy (J)", "Energy of the round", "J"),
    )
    cells: list[Cell] = []
    for column, y_title, title, unit in what:
        traces = plotter.curves("", column, unit, legend=not cells)
        values = np.concatenate([np.zeros(0), *(m.trends.get(("", column), _NONE)[1] for m in plotter.members)])
        log = column in ("latency_s", "energy_j") and wide(values)
        if traces:
            cells.append(Cell(y_title, traces, title, log=log, percent=unit == "%"))
    if not cells:
        return []
    caption = (
        "Latency is from the server's request to the last bit; energy is that of all uplinks and all training of the "
        "round. Medians over seeds, bands their quartiles."
    )
    return [Panel("uplink", "Uplink of every label", caption, mosaic(cells, x_axis, 250))]


# -- a point per label


def _points(members: Sequence[Member], attacks: Sequence[str]) -> list[Panel]:
    """Centroid error against the RMSE of the model."""
    title = _points_title(members)
    labels, missing = labels_of(members), dict[str, None]()
    cells: list[Cell] = []
    for name in attacks:
        error, both = keys.ERROR_MEDIAN.of(name), keys.BOTH_NAMED_PERCENT.of(name)
        shown = [key for key in (error, both) if any(m.summary.get(key) is not None for m in members)]
        for key in shown or [error]:
            points: list[Figure] = []
            for look in looks(labels):
                point = _point(look, labels[look.name], key, "m" if key == error else "%", legend=not cells)
                points += point
                if not point:
                    missing[f"{name} with “{look.name}”"] = None
            if points and key == error:
                cells.append(Cell("centroid error (m)", points, name, log=wide(_finite(points))))
            elif points:
                cells.append(Cell("share of UEs (%)", points, f"{name}: home and work named at the end", percent=True))
    if not cells:
        return [Panel("tradeoff", title, "No label has both an estimate and a finite RMSE of its model.")]
    figure = mosaic(cells, {"title": {"text": "RMSE of the model (dB)"}, "hoverformat": ",.3~r"}, 400)
    figure["layout"]["hovermode"] = "closest"
    caption = (
        "One point per label: medians over seeds, whiskers their quartiles. Points further left have a better map, "
        "points further down less privacy; of shares of UEs it is points further up. The size of a point is the share "
        "of updates that the server decoded in time."
        + (f" Not drawn, without a finite value: {', '.join(missing)}." if missing else "")
    )
    return [Panel("tradeoff", title, caption, figure)]


def _points_title(members: Sequence[Member]) -> str:
    """Whether the labels differ in their radio."""
    what = "Effect of the radio" if _radios_differ(members) else "Effect of the setting"
    return f"{what}: error of the attack and RMSE of the map"


def _radios_differ(members: Sequence[Member]) -> bool:
    """Whether runs differ in powers, base stations or radio."""
    radios = []
    for world, power in ((part(m.study, "world"), m.study.get("power")) for m in members):
        radios.append([power, world.get("radio"), world.get("base_stations"), part(world, "ues").get("max_power_dbm")])
    return any(r != radios[0] for r in radios)


def _point(look: Look, runs: Sequence[Mapping[str, Any]], key: str, unit: str, legend: bool) -> list[Figure]:
    """A label's point with its whiskers, or nothing where a median is not finite."""
    x, y = over_seeds(runs, keys.RMSE.of()), over_seeds(runs, key)
    if not np.isfinite([x[1], y[1]]).all():
        return []
    decoded = over_seeds(runs, keys.UPDATES_DECODED.of())[1]
    size = 6 + 14 * np.sqrt(np.clip(decoded, 0, 100) / 100) if np.isfinite(decoded) else 13.0
    text = (
        f"{plain(look.name)}<br>map {figure_text(x[1])} dB, attacker {figure_text(y[1])} {unit}<br>"
        f"{figure_text(decoded)} % of updates decoded, {counted(len(runs), 'seed')}"
    )
    return [
        {
            "type": "scatter", "mode": "markers", "name": plain(look.name), "legendgroup": plain(look.name),
            "x": numbers([x[1]]), "y": numbers([y[1]]), "error_x": _whisker(look, x), "error_y": _whisker(look, y),
            "marker": {"symbol": look.symbol, "size": round(float(size), 1), "color": look.color, "opacity": 0.85,
                       "line": {"width": 1, "color": "#ffffff"}},
            "text": [text], "hovertemplate": "%{text}<extra></extra>", "showlegend": legend,
        }
    ]  # fmt: skip


def _whisker(look: Look, quartiles: Quartiles) -> Figure:
    """From quartile to quartile; one that is infinite is left out."""
    low, mid, high = quartiles
    return {
        "type": "data", "symmetric": False, "color": look.color, "thickness": 1.2, "width": 3,
        "array": numbers([high - mid if np.isfinite(high) else 0.0]),
        "arrayminus": numbers([mid - low if np.isfinite(low) else 0.0]),
    }  # fmt: skip


def _finite(points: Sequence[Figure]) -> FloatArray:
    return np.array([y for p in points for y in p["y"]], dtype=float)
