"""The figures that compare runs: a curve or a point per label, over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray
from scenarios.app.report.figures.accuracy import series
from scenarios.app.report.figures.radio import uplink_series
from scenarios.app.report.figures.radio_map import comparison_panel
from scenarios.app.report.plot import GREY, Cell, Figure, Look, Panel, line, looks, mosaic, numbers, plain
from scenarios.app.report.series import (
    FLOOR,
    GUESS,
    Series,
    attack_tracks,
    diagonal_m,
    drawable,
    home_tracks,
    median_line,
    unfound,
    wide,
)
from scenarios.app.results.over_seeds import over_seeds
from scenarios.app.results.run import Run, part
from scenarios.app.results.statistics import carried, figure_text, quantile
from scenarios.app.results.summary_text import ACCURACY, classifies

FEWEST_LABELS = 3  # without which a point per label is no picture


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
_OF_TRACKS, _OF_UES = ("sw1_m", "floor_sw1_m", "guess_sw1_m"), ("home_m", "home_named_m", "guess_home_m")
_CARRIED = _OF_TRACKS + _OF_UES
_ENDLESS = ("error_m", "home_m", "home_named_m")  # which may be infinite


def member(label: str, run: Run) -> Member:
    """The run's trends; its tables are let go."""
    trends: dict[tuple[str, str], Series] = {}
    for look, tracks in attack_tracks(run, looks(run.attacks)):
        grids = {"error_m": tracks.error_m()} | {name: tracks.so_far(name) for name in _OF_TRACKS}
        for name, grid in grids.items():
            trends[look.name, name] = run.requested_s(tracks.round), quantile(grid, 0.5)
    for look, tracks in home_tracks(run, looks(run.attacks)):
        for name in _OF_UES:
            trends[look.name, name] = run.requested_s(tracks.round), quantile(unfound(tracks.so_far(name)), 0.5)
    rounds = run.rows("rounds")
    for name in ("rmse_db", "constant_rmse_db", "epsilon_max"):
        trends["", name] = run.requested_s(rounds["round"]), rounds[name]
    right = series(run, ACCURACY)
    trends["", ACCURACY] = run.requested_s(right["round"]), right["value"]
    trends |= {("", name): found for name, found in uplink_series(run).items()}
    return Member(label, run.manifest, run.summary, run.study, run.attacks, run.near_m, trends, run.grid)


def labels_of(members: Sequence[Member]) -> dict[str, list[Mapping[str, Any]]]:
    """Label -> the summaries of its runs."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for m in members:
        found.setdefault(m.label, []).append(m.summary)
    return found


def comparison_panels(members: Sequence[Member], attacks: Sequence[str], points: bool = True) -> list[Panel]:
    """Leakage over time for each attack, then utility and what was spent; `points`: then a point per label."""
    labels = list(labels_of(members))
    unit, seconds = _time_unit(members)
    x_axis = {"title": {"text": f"simulated time ({unit})"}, "rangemode": "tozero"}
    painter = _Painter(members, looks(labels), seconds)
    leakage = [_leakage(painter, name, k, x_axis) for k, name in enumerate(attacks)]
    placed = not all(classifies(m.summary) for m in members)
    points = points and placed and len(labels) >= FEWEST_LABELS
    grids = {m.label: m.grid for m in reversed(members)}  # the first run of each label
    maps = comparison_panel({label: grids[label] for label in labels})
    return [
        *leakage,
        _gain(painter, x_axis),
        *_uplink(painter, x_axis),
        *maps,
        *(_exchange(members, attacks) if points else []),
    ]


def _time_unit(members: Sequence[Member]) -> tuple[str, float]:
    longest = max((float(t.max()) for m in members for t, _ in m.trends.values() if len(t)), default=0.0)
    units: Mapping[str, float] = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}
    return next(((u, s) for u, s in units.items() if longest >= 3 * s), ("seconds", 1.0))


@dataclass(frozen=True)
class _Painter:
    """Draws one quantity of all runs: a curve per label, over its seeds."""

    members: Sequence[Member]
    own: Sequence[Look]
    second: float

    def curves(self, attack: str, column: str, unit: str, legend: bool = False, **more: Any) -> list[Figure]:
        found = []
        for look in self.own:
            time_s, grid = self._grid([m for m in self.members if m.label == look.name], attack, column)
            if column in _ENDLESS:
                grid = drawable(grid)
                more["most"] = max(diagonal_m(m.manifest) for m in self.members)
            found += median_line(look, numbers(time_s / self.second), grid, unit, showlegend=legend, **more)
        return found

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


def _leakage(painter: _Painter, attack: str, k: int, x_axis: Figure) -> Panel:
    title = f"What {attack} finds out over time"
    near_m = painter.members[0].near_m
    error = painter.curves(attack, "error_m", "m", legend=True)
    cells = [
        Cell("centroid error (m)", error, "Centroid error of the round", log=True),
        Cell("SW1 so far (m)", painter.curves(attack, "sw1_m", "m"), "SW1 of everything so far"),
        Cell("distance (m)", painter.curves(attack, "home_m", "m"), "Home to the nearest estimate", line_at=near_m),
        Cell("distance (m)", painter.curves(attack, "home_named_m", "m"), "Home to a named place", line_at=near_m),
    ]
    cells = [c for c in cells if c.traces]
    if not cells:
        return Panel(f"leakage-{k}", title, f"{attack} produced no estimate inside the area in any run.")
    caption = (
        "One line per label: the median over seeds, its band their quartiles; each run counts with its median over "
        "UEs, at the time of the server's request. The error is missing where the median estimate diverged. SW1 that "
        "is no lower than that of random guesses (grey, dotted) gives nothing away; a perfect attacker reaches the "
        "dashed line."
    )
    return Panel(f"leakage-{k}", title, caption, mosaic(_referenced(cells, painter, attack), x_axis, 300))


def _referenced(cells: Sequence[Cell], painter: _Painter, attack: str) -> list[Cell]:
    """SW1 and the nearest estimate say something only beside what guessing reaches."""
    extra = {
        "SW1 of everything so far": [
            *painter.reference(attack, "guess_sw1_m", GUESS), *painter.reference(attack, "floor_sw1_m", FLOOR)
        ],
        "Home to the nearest estimate": painter.reference(attack, "guess_home_m", GUESS, legend=False),
    }  # fmt: skip
    return [Cell(c.y_title, [*c.traces, *extra.get(c.title, [])], c.title, c.log, c.line_at) for c in cells]


def _gain(painter: _Painter, x_axis: Figure) -> Panel:
    title = "What the model is worth over time, and what privacy was spent"
    constant = Look("a constant", GREY, dash="dot")
    error = painter.curves("", "rmse_db", "dB", legend=True)
    right = painter.curves("", ACCURACY, "%", legend=not error)
    spent = painter.curves("", "epsilon_max", "", legend=not (error or right))
    if not (error or right or spent):
        return Panel("utility", title, "No run recorded an error of its model or noise that it drew.")
    values = np.concatenate([m.trends["", "rmse_db"][1] for m in painter.members])
    cells = []
    if error:
        shown = [*error, *painter.reference("", "constant_rmse_db", constant)]
        cells.append(Cell("rmse (dB)", shown, "Error of the model", log=wide(values)))
    if right:
        cells.append(Cell("accuracy (%)", right, "Held-out images classified right"))
    if spent:
        cells.append(
            Cell("epsilon", spent, "Largest epsilon of any UE so far (unit, relation and delta: on each run's page)")
        )
    caption = (
        "On held-out samples: medians over seeds, bands their quartiles. A model that does not beat a constant has "
        "learnt nothing" + ("." if spent else "; no run drew noise, so no epsilon was spent.")
    )
    return Panel("utility", title, caption, mosaic(cells, x_axis))


def _uplink(painter: _Painter, x_axis: Figure) -> list[Panel]:
    """What the uplink costs, where labels differ in their radio."""
    if not _radios_differ(painter.members):
        return []
    what = (
        ("heard_percent", "UEs (%)", "Updates heard in time", "%"),
        ("sinr_db", "SINR (dB)", "Uplink SINR, median over UEs", "dB"),
        ("delay_s", "turn (s)", "Delay of a turn, median over UEs", "s"),
        ("energy_j", "energy (J)", "Energy of the round", "J"),
    )
    cells: list[Cell] = []
    for column, y_title, title, unit in what:
        traces = painter.curves("", column, unit, legend=not cells)
        values = np.concatenate([np.zeros(0), *(m.trends.get(("", column), _NONE)[1] for m in painter.members)])
        log = column in ("delay_s", "energy_j") and wide(values)
        if traces:
            cells.append(Cell(y_title, traces, title, log=log, percent=unit == "%"))
    if not cells:
        return []
    caption = (
        "Each UE's turn lasts from the server's request to its last bit; energy is that of all uplinks and of all "
        "training of the round. Medians over seeds, bands their quartiles."
    )
    return [Panel("uplink", "What the radio costs: the uplink, label by label", caption, mosaic(cells, x_axis, 250))]


# -- a point per label


def _exchange(members: Sequence[Member], attacks: Sequence[str]) -> list[Panel]:
    """Centroid error against the error of the model: what is given away, and what for."""
    title = _exchange_title(members)
    labels, missing = labels_of(members), dict[str, None]()
    cells: list[Cell] = []
    for name in attacks:
        points: list[Figure] = []
        for look in looks(labels):
            drawn = _point(look, labels[look.name], f"attack.{name}.centroid_error_m.median", legend=not cells)
            points += drawn
            if not drawn:
                missing[f"{name} with “{look.name}”"] = None
        if points:
            cells.append(Cell("centroid error (m)", points, name, log=wide(_finite(points))))
    if not cells:
        return [Panel("exchange", title, "No label has both an estimate and an error of its model: nothing to draw.")]
    figure = mosaic(cells, {"title": {"text": "error of the model (dB)"}, "hoverformat": ",.3~r"}, 400)
    figure["layout"]["hovermode"] = "closest"
    caption = (
        "One point per label: medians over seeds, whiskers their quartiles. Left is a better map, low is a user more "
        "exposed. The larger a point, the larger the share of updates that the server heard in time."
        + (f" Not drawn, for want of a finite figure: {', '.join(missing)}." if missing else "")
    )
    return [Panel("exchange", title, caption, figure)]


def _exchange_title(members: Sequence[Member]) -> str:
    """Whether it is the radio in which the labels differ."""
    what = "What the radio changes" if _radios_differ(members) else "What the choice changes"
    return f"{what}: how far off the attacker is, and how good the map"


def _radios_differ(members: Sequence[Member]) -> bool:
    """Whether runs differ in powers, base stations or radio."""
    radios = []
    for world, power in ((part(m.study, "world"), m.study.get("power")) for m in members):
        radios.append([power, world.get("radio"), world.get("base_stations"), part(world, "ues").get("max_power_dbm")])
    return any(r != radios[0] for r in radios)


def _point(look: Look, runs: Sequence[Mapping[str, Any]], key: str, legend: bool) -> list[Figure]:
    """A label's point with its whiskers, or nothing where a median is not finite."""
    x, y = over_seeds(runs, "utility.rmse_db"), over_seeds(runs, key)
    if not np.isfinite([x[1], y[1]]).all():
        return []
    heard = over_seeds(runs, "updates.decoded_percent")[1]
    size = 6 + 14 * np.sqrt(np.clip(heard, 0, 100) / 100) if np.isfinite(heard) else 13.0
    text = (
        f"{plain(look.name)}<br>map {figure_text(x[1])} dB, attacker {figure_text(y[1])} m<br>"
        f"{figure_text(heard)} % of updates heard, {len(runs)} seed{'s' * (len(runs) > 1)}"
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


def _whisker(look: Look, quartiles: tuple[float, float, float]) -> Figure:
    """From quartile to quartile; one that is infinite is left out."""
    low, mid, high = quartiles
    return {
        "type": "data", "symmetric": False, "color": look.color, "thickness": 1.2, "width": 3,
        "array": numbers([high - mid if np.isfinite(high) else 0.0]),
        "arrayminus": numbers([mid - low if np.isfinite(low) else 0.0]),
    }  # fmt: skip


def _finite(points: Sequence[Figure]) -> FloatArray:
    return np.array([y for p in points for y in p["y"]], dtype=float)
