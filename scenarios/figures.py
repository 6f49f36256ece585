"""The figures of a report: from the tables of runs to panels of a page.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair or, in a comparison, a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray, IntArray
from scenarios.page import (
    BAR,
    DARK,
    GREY,
    Cell,
    Figure,
    Interval,
    Look,
    Panel,
    axis,
    band,
    base_layout,
    figure_text,
    legend_rows,
    line,
    looks,
    mosaic,
    numbers,
    plain,
    spread,
)

Table = dict[str, NDArray[Any]]
Series = tuple[FloatArray, FloatArray]
"""Times and values (n_time,) each."""

SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero
MOST_POINTS = 3000  # of a kind on the map
WIDE_RANGE = 30.0  # ratio of largest to smallest beyond which an axis is logarithmic
GUESS, FLOOR = Look("random guesses", GREY, dash="dot"), Look("perfect attacker", DARK, dash="dash")


@dataclass(frozen=True)
class Run:
    """All that a page is drawn from: manifest, summary, study and tables of a run folder."""

    manifest: dict[str, Any]
    summary: dict[str, Any]
    study: dict[str, Any]
    tables: dict[str, Table]
    points_m: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))

    @property
    def attacks(self) -> list[str]:
        """Names of the attacks, in the order of the records."""
        said = [k.split(".")[1] for k in self.summary if k.startswith("attack.") and k.count(".") > 1]
        return list(dict.fromkeys([*map(str, self.tables["leakage"]["attack"]), *said]))

    @property
    def near_m(self) -> float:
        """What counts as knowing a place."""
        value: Any = self.study
        for key in ("learning", "leakage", "near_m"):
            value = value.get(key) if isinstance(value, dict) else None
        return float(value) if isinstance(value, int | float) else 100.0

    @property
    def stations(self) -> list[dict[str, Any]]:
        """Base stations that have a place."""
        world = self.study.get("world")
        listed = world.get("base_stations") if isinstance(world, dict) else None
        return [s for s in listed if _placed(s)] if isinstance(listed, list) else []

    def rows(self, table: str, column: str = "", value: str = "") -> Table:
        """Rows of a table that have a time and a UE; those with `value` in a text column."""
        columns = self.tables[table]
        keep = np.isfinite(columns["time_s"])
        if "ue" in columns:
            keep &= np.isfinite(columns["ue"])
        if column:
            keep &= np.array([v == value for v in columns[column]], dtype=bool)
        return {k: v[keep] for k, v in columns.items()}

    def dates(self, time_s: FloatArray) -> list[str]:
        """Simulated local time, as plotly's date axes read it."""
        start = datetime.combine(date.fromisoformat(self.manifest["first_day"]), datetime.min.time())
        return [str((start + timedelta(seconds=float(t))).replace(microsecond=0)) for t in time_s]


def _placed(station: Any) -> bool:
    at = station.get("at_m") if isinstance(station, dict) else None
    return isinstance(at, list) and len(at) == 2 and all(isinstance(v, int | float) for v in at)


@dataclass(frozen=True)
class Tracks:
    """Rows laid out in time: a column of the table becomes (n_time, n_track), NaN where there is no row."""

    rows: Table
    time_s: FloatArray
    ue: FloatArray
    at: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, rows: Table) -> Tracks:
        """One track per (UE, model)."""
        time_s, i = np.unique(rows["time_s"], return_inverse=True)
        keys, j = np.unique(rows["ue"] * 4096 + np.nan_to_num(rows["model"]), return_inverse=True)
        return cls(rows, time_s, keys // 4096, (i, j))

    def lay(self, values: FloatArray) -> FloatArray:
        """Values of the rows as (n_time, n_track)."""
        grid = np.full((len(self.time_s), len(self.ue)), np.nan)
        grid[self.at] = values
        return grid

    def so_far(self, name: str) -> FloatArray:
        """A figure that lasts until the next one (n_time, n_track)."""
        return carried(self.lay(self.rows[name]))

    def error_m(self) -> FloatArray:
        """Centroid errors (n_time, n_track); one that diverged counts as infinite."""
        return self.lay(np.where(self.diverged, np.inf, self.rows["error_m"]))

    @property
    def diverged(self) -> Any:
        """Whether the estimate of a row is outside the area or not finite."""
        return (self.rows["heard"] == 1) & (self.rows["diverged"] == 1)


def carried(grid: FloatArray) -> FloatArray:
    """Each column's last known value (n_time, n_track); NaN before the first."""
    row = np.where(np.isnan(grid), -1, np.arange(len(grid))[:, None])
    last = np.maximum.accumulate(row, axis=0)
    return np.asarray(np.where(last < 0, np.nan, np.take_along_axis(grid, np.maximum(last, 0), axis=0)))


def quantile(grid: FloatArray, q: float) -> FloatArray:
    """Quantile over tracks (n_time,): NaN is left out, infinities take part."""
    if not grid.size:
        return np.full(len(grid), np.nan)
    ordered = np.sort(grid, axis=1)  # NaN comes last
    at = q * np.maximum((~np.isnan(grid)).sum(axis=1) - 1, 0)
    below, above = np.floor(at).astype(int), np.ceil(at).astype(int)
    every = np.arange(len(grid))
    low, high = ordered[every, below], ordered[every, above]
    with np.errstate(invalid="ignore"):  # infinity less infinity; such a quantile is infinite, see below
        between = low + (at - below) * (high - low)
    return np.asarray(np.where(above == below, low, np.where(np.isinf(high), np.inf, between)))


def quartiles(grid: FloatArray) -> Interval:
    """Lower quartile, median, upper quartile over tracks."""
    return quantile(grid, 0.25), quantile(grid, 0.5), quantile(grid, 0.75)


def _count(grid: FloatArray) -> IntArray:
    return np.asarray((~np.isnan(grid)).sum(axis=1))


def _median(look: Look, x: Sequence[Any], grid: FloatArray, unit: str = "m", **more: Any) -> list[Figure]:
    """Median and quartiles over tracks, or nothing where no median is known."""
    values = quartiles(grid)
    return spread(look, x, values, _count(grid), unit, **more) if np.isfinite(values[1]).any() else []


def _drawable(error_m: FloatArray) -> FloatArray:
    """Errors as a logarithmic axis can show them."""
    return np.maximum(error_m, SMALLEST_M)


def _diagonal_m(manifest: Mapping[str, Any]) -> float:
    """The longest distance inside the area."""
    west, south, east, north = manifest["area_m"]
    return float(np.hypot(east - west, north - south))


_DATES: Figure = {
    "type": "date", "title": {"text": "simulated local time"}, "hoverformat": "%a %Y-%m-%d %H:%M",
}  # fmt: skip


# -- one run


def run_panels(run: Run) -> list[Panel]:
    """All figures of a run."""
    own = looks(run.attacks)
    return [errors(run, own), distribution(run, own), home(run, own), town(run, own), utility(run), epsilon(run)]


def _tracks(run: Run, own: Iterable[Look]) -> list[tuple[Look, Tracks]]:
    found = [(look, run.rows("leakage", "attack", look.name)) for look in own]
    return [(look, Tracks.of(rows)) for look, rows in found if len(rows["ue"])]


def _several(run: Run) -> str:
    """What medians are taken over."""
    return "Lines are medians over UEs, bands their quartiles. " if len(run.tables["ues"]["ue"]) > 1 else ""


def errors(run: Run, own: Sequence[Look]) -> Panel:
    """Centroid error over time."""
    key, title = "errors", "Where was the user this round? Error of the batch centroid, per attack"
    traces: list[Figure] = []
    crosses: list[Figure] = []
    for k, (look, tracks) in enumerate(_tracks(run, own)):
        x, error_m = run.dates(tracks.time_s), tracks.error_m()
        traces += _median(look, x, _drawable(error_m), most=_diagonal_m(run.manifest))
        crosses += _crosses(look, x, tracks.lay(tracks.diverged.astype(float)), 0.985 - 0.045 * k)
    if not traces:
        return Panel(key, title, "No attack produced an estimate inside the area, so there is no error to draw.")
    figure = mosaic([Cell("centroid error (m)", [*traces, *crosses], log=True)], _DATES, 360)
    figure["layout"]["yaxis9"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    caption = (
        "Distance between the attack's estimate and the mean of all points that the UE measured in the round; errors "
        f"below {SMALLEST_M} m are drawn there. {_several(run)}"
        "A cross at the top edge marks rounds with a diverged estimate (outside the area, or not finite)."
    )
    return Panel(key, title, caption, figure)


def _crosses(look: Look, x: Sequence[Any], diverged: FloatArray, height: float) -> list[Figure]:
    """Crosses at the top edge; the fainter, the fewer tracks they stand for."""
    n, of = np.nansum(diverged, axis=1).astype(int), _count(diverged)
    at = np.flatnonzero(n)
    if not len(at):
        return []
    return [
        {
            "type": "scatter", "mode": "markers", "yaxis": "y9", "x": [x[int(i)] for i in at], "y": [height] * len(at),
            "marker": {"symbol": "x", "size": 8, "color": look.color,
                       "opacity": [round(0.3 + 0.7 * float(n[i] / of[i]), 2) for i in at]},
            "name": plain(f"{look.name} diverged"), "legendgroup": plain(look.name), "showlegend": False,
            "text": [f"{n[i]} of {of[i]}" for i in at], "hovertemplate": "%{text}",
        }
    ]  # fmt: skip


def distribution(run: Run, own: Sequence[Look]) -> Panel:
    """SW1 over time, between the references."""
    key, title = "distribution", "How much of the user's whereabouts is reconstructed so far? SW1, per attack"
    traces: list[Figure] = []
    every = _tracks(run, own)
    for look, tracks in every:
        traces += _median(look, run.dates(tracks.time_s), tracks.so_far("sw1_m"))
    if not traces:
        return Panel(key, title, "No attack produced an estimate inside the area, so there is no distance to draw.")
    tracks, x = every[0][1], run.dates(every[0][1].time_s)
    mid = {n: quantile(tracks.so_far(f"{n}_sw1_m"), 0.5) for n in ("floor", "guess")}
    low, high = (quantile(tracks.so_far(f"guess_sw1_{n}_m"), 0.5) for n in ("low", "high"))
    references = [
        band(GUESS, x, low, high, "random guesses, 5 % to 95 %", showlegend=True),
        line(GUESS, x, mid["guess"], "random guesses, mean", mode="lines", hovertemplate="%{y:,.3~r} m"),
        line(FLOOR, x, mid["floor"], "perfect attacker (true centroids)", mode="lines", hovertemplate="%{y:,.3~r} m"),
    ]
    caption = (
        "Sliced Wasserstein distance between all points measured so far and all estimates so far: lower means that "
        "the attacker's picture of the user's whereabouts is better. An attack inside the grey band does no better "
        "than as many random guesses; the dashed line is what the true centroids themselves would reach; "
        "scattered estimates can lie below it. " + _several(run)
    )
    return Panel(key, title, caption, mosaic([Cell("SW1 so far (m)", [*references, *traces])], _DATES, 350))


def home(run: Run, own: Sequence[Look]) -> Panel:
    """Distance to home over time, and the share of UEs whose home is found."""
    key, title = "home", "Is home found? Distance from home to what the attacker has so far"
    far: list[Figure] = []
    found: list[Figure] = []
    every = _tracks(run, own)
    for look, tracks in every:
        x = run.dates(tracks.time_s)
        for column, what, dash in (("home_m", "nearest estimate", "solid"), ("home_named_m", "named place", "dash")):
            mine = Look(f"{look.name}: {what}", look.color, look.symbol, dash)
            so_far = tracks.so_far(column)
            far += _median(mine, x, so_far)[-1 if column == "home_named_m" else 0 :]  # one band is enough
            share = _share_near(tracks, so_far, run.near_m)
            if share is not None:
                found.append(line(mine, x, share, hovertemplate="%{y:.3~r} %", showlegend=False))
    if not far:
        return Panel(key, title, "No UE has a known home, or no attack produced an estimate: nothing to draw.")
    tracks, x = every[0][1], run.dates(every[0][1].time_s)
    far += _median(GUESS, x, tracks.so_far("guess_home_m"), mode="lines")[-1:]
    cells = [Cell("distance to home (m)", far, line_at=run.near_m)]
    if found:
        cells = [
            Cell("distance to home (m)", far, "Distance", line_at=run.near_m),
            Cell("share of UEs (%)", found, f"UEs for which it ever came within {run.near_m:g} m", percent=True),
        ]
    caption = (
        "Solid: the nearest of all estimates so far, which flatters the attacker as estimates grow (so does the dotted "
        "line of as many random guesses). Dashed: the nearer of the two density peaks of the estimates, the places "
        "that an attacker who does not know the truth would name. " + _several(run)
    )
    return Panel(key, title, caption, mosaic(cells, _DATES, 350))


def _share_near(tracks: Tracks, so_far: FloatArray, near_m: float) -> FloatArray | None:
    """Percent (n_time,) of the UEs with a home for which a figure ever came within near_m; None for a single UE."""
    known = np.isfinite(tracks.so_far("guess_home_m")).any(axis=0)
    ues = np.unique(tracks.ue[known])
    if len(ues) < 2:
        return None
    hit = np.maximum.accumulate(so_far <= near_m, axis=0)
    per_ue = np.stack([hit[:, tracks.ue == ue].any(axis=1) for ue in ues], axis=1)  # (n_time, n_ue)
    return np.asarray(100.0 * per_ue.mean(axis=1))


def town(run: Run, own: Sequence[Look]) -> Panel:
    """The map."""
    key, title = "map", "The map: where users were, and where the attacks say they were"
    west, south, east, north = run.manifest["area_m"]
    every = -(-len(run.points_m) // MOST_POINTS) or 1
    traces = [_dots("true points", run.points_m[::every])]
    updates = run.rows("updates")
    traces += _by_round(run, Look("true batch centroids", DARK, "cross-thin-open"), updates, 10)
    outside = 0
    for look in own:
        rows = run.rows("estimates", "attack", look.name)
        inside = (rows["x_m"] >= west) & (rows["x_m"] <= east) & (rows["y_m"] >= south) & (rows["y_m"] <= north)
        outside += int((~inside & (rows["what"] == "centroid")).sum())
        for what, size in (("centroid", 10), ("place", 6)):
            mine = inside & (rows["what"] == what)
            named = Look(f"{look.name}: {what}s", look.color, look.symbol)
            traces += _by_round(run, named, {k: v[mine] for k, v in rows.items()}, size)
    traces += _landmarks(run)
    if not any(t["x"] for t in traces):
        return Panel(key, title, "There are no points, estimates or places to draw.")
    caption = (
        f"Fill colour tells the round, shape and outline the attack. Of each kind at most {MOST_POINTS:,} are drawn, "
        "evenly thinned. Places are what an attack names besides the centroid of a batch. "
        + (f"Outside the frame and not drawn: {outside:,} centroids." if outside else "The frame is the area.")
    )
    return Panel(key, title, caption, _map(traces, (west, south, east, north)))


def _dots(name: str, position_m: FloatArray) -> Figure:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": numbers(position_m[:, 0]), "y": numbers(position_m[:, 1]),
        "marker": {"size": 3, "color": "#9a9a9a", "opacity": 0.55},
    }  # fmt: skip


def _by_round(run: Run, look: Look, rows: Table, size: int) -> list[Figure]:
    """Markers that tell their round by colour."""
    known = np.flatnonzero(np.isfinite(rows["x_m"]) & np.isfinite(rows["y_m"]))
    known = known[:: -(-len(known) // MOST_POINTS) or 1]
    if not len(known):
        return []
    names = dict(zip(run.tables["ues"]["ue"].tolist(), run.tables["ues"]["name"], strict=True))
    r = {k: v[known] for k, v in rows.items()}
    thin = look.symbol.endswith("thin-open")  # such a symbol is all outline: it takes the round's colour
    return [
        {
            "type": "scatter", "mode": "markers", "name": plain(look.name),
            "x": numbers(r["x_m"]), "y": numbers(r["y_m"]),
            "marker": {"symbol": look.symbol, "size": size, "color": numbers(r["round"]), "coloraxis": "coloraxis",
                       "line": {"width": 2} if thin else {"width": 1.6, "color": look.color}},
            "text": [f"round {figure_text(n)}, {plain(names.get(u, u))}, {when}"
                     for n, u, when in zip(r["round"], r["ue"], run.dates(r["time_s"]), strict=True)],
            "hovertemplate": "%{text}<br>%{x:,.0f} m east, %{y:,.0f} m north",
        }
    ]  # fmt: skip


def _landmarks(run: Run) -> list[Figure]:
    """Homes, workplaces and base stations."""
    ues, found = run.tables["ues"], []
    for place, symbol in (("home", "star"), ("work", "hourglass")):
        known = np.isfinite(ues[f"{place}_x_m"]) & np.isfinite(ues[f"{place}_y_m"])
        x, y = ues[f"{place}_x_m"][known], ues[f"{place}_y_m"][known]
        names = [f"{place} of {plain(n)}" for n in ues["name"][known]]
        found.append(_pins(place, symbol, "#ffffff", (x, y), names, len(x) <= 3))
    stations = run.stations
    at = np.array([s["at_m"] for s in stations], dtype=float).reshape(-1, 2)
    names = [f"base station {plain(s.get('name'))}" for s in stations]
    return [*found, _pins("base station", "triangle-up", DARK, (at[:, 0], at[:, 1]), names, len(at) <= 3)]


def _pins(
    name: str, symbol: str, fill: str, at_m: tuple[FloatArray, FloatArray], texts: list[str], written: bool
) -> Figure:
    return {
        "type": "scatter", "mode": "markers+text" if written else "markers", "name": name,
        "x": numbers(at_m[0]), "y": numbers(at_m[1]), "hovertext": texts, "hoverinfo": "text",
        "text": [name] * len(texts), "textposition": "top center", "textfont": {"weight": 700},
        "showlegend": bool(texts),
        "marker": {"symbol": symbol, "size": 14, "color": fill, "line": {"width": 1.6, "color": DARK}},
    }  # fmt: skip


def _map(traces: list[Figure], area_m: tuple[float, float, float, float]) -> Figure:
    """Equal scales, the area's frame, and a bar that tells the rounds."""
    west, south, east, north = area_m
    pad_m = 0.03 * max(east - west, north - south, 1.0)
    layout, head = base_layout(), BAR + 22 * legend_rows(traces, aligned=True) + 12
    frame = {"type": "rect", "x0": west, "x1": east, "y0": south, "y1": north,
             "line": {"color": GREY, "width": 1}}  # fmt: skip
    ratio = (north - south + 2 * pad_m) / (east - west + 2 * pad_m)
    bar = {"title": {"text": "round"}, "thickness": 14, "tickformat": "d", "outlinewidth": 0}
    layout |= {
        "hovermode": "closest", "shapes": [frame], "height": int(np.clip(940 * ratio, 380, 860)) + 60 + head,
        "margin": {"l": 70, "r": 20, "t": head, "b": 60},
        "coloraxis": {"colorscale": "Viridis", "colorbar": bar},
        "xaxis": {**axis("east (m)"), "range": [west - pad_m, east + pad_m], "constrain": "domain"},
        "yaxis": {**axis("north (m)"), "range": [south - pad_m, north + pad_m], "constrain": "domain",
                  "scaleanchor": "x"},
    }  # fmt: skip
    layout["legend"]["y"] = 1.01
    return {"data": traces, "layout": layout}


def utility(run: Run) -> Panel:
    """Error of the model over time."""
    key, title = "utility", "Is the map any good? Error of the model on held-out measurements"
    rows = run.rows("rounds")
    x = run.dates(rows["time_s"])
    drawn = (
        ("rmse_db", Look("the model", DARK)),
        ("constant_rmse_db", Look("a constant (mean of the training labels)", GREY, dash="dot")),
        ("raw_upload_rmse_db", Look("raw upload (nearest neighbour)", "#A8A8A8", dash="longdash")),
    )
    traces = [
        line(look, x, rows[name], hovertemplate="%{y:,.3~r} dB")
        for name, look in drawn
        if np.isfinite(rows[name]).any()
    ]
    if not traces:
        return Panel(key, title, "No error was recorded: nothing was held out, or no round was played.")
    log = _wide(np.concatenate([rows[name] for name, _ in drawn]))
    caption = (
        "Root mean square error of the signal map. A model that does not beat the constant has learnt nothing, and "
        "what it gives away says little; raw upload is what the server would have if users sent their measurements."
    )
    return Panel(key, title, caption, mosaic([Cell("rmse (dB)", traces, log=log)], _DATES))


def _wide(values: FloatArray) -> bool:
    """Whether figures span so much that only a logarithmic axis shows them all."""
    positive = values[np.isfinite(values) & (values > 0)]
    return bool(len(positive)) and float(positive.max()) > WIDE_RANGE * float(positive.min())


def epsilon(run: Run) -> Panel:
    """Privacy spent over time."""
    key, title = "epsilon", "What was spent on privacy? Epsilon so far, per mechanism"
    names = dict.fromkeys(map(str, run.tables["spends"]["mechanism"]))
    if not names:
        return Panel(key, title, "No mechanism drew noise in this run: there is no guarantee to account for.")
    traces, seen, deltas = [], [np.zeros(0)], []
    for look in (Look(name, DARK, style.symbol, style.dash) for name, style in zip(names, looks(names), strict=True)):
        rows = run.rows("spends", "mechanism", look.name)
        tracks = Tracks.of(rows)
        spent = tracks.so_far("epsilon")
        if np.isfinite(spent).any():
            traces += [line(look, run.dates(tracks.time_s), quantile(spent, 1.0), f"{look.name}, largest of any UE")]
            seen.append(spent.ravel())
            deltas.append(f"{look.name} {rows['delta'][0]:g} ({rows['unit'][0]}, {rows['relation'][0]})")
    if not traces:
        return Panel(key, title, "Noise was drawn, but no finite epsilon was spent: it guarantees nothing.")
    caption = f"All rounds composed exactly; smaller is more private. Delta: {'; '.join(deltas)}."
    return Panel(key, title, caption, mosaic([Cell("epsilon", traces, log=_wide(np.concatenate(seen)))], _DATES, 300))


# -- many runs


@dataclass(frozen=True)
class Member:
    """What a comparison keeps of a run: (attack, column) -> medians over tracks in time; no attack: utility."""

    label: str
    manifest: dict[str, Any]
    summary: dict[str, Any]
    study: dict[str, Any]
    attacks: list[str]
    near_m: float
    trends: dict[tuple[str, str], Series]


_CARRIED = ("sw1_m", "home_m", "home_named_m", "floor_sw1_m", "guess_sw1_m", "guess_home_m")


def member(label: str, run: Run) -> Member:
    """The run's trends; its tables are let go."""
    trends: dict[tuple[str, str], Series] = {}
    for look, tracks in _tracks(run, looks(run.attacks)):
        grids = {"error_m": tracks.error_m()} | {name: tracks.so_far(name) for name in _CARRIED}
        for name, grid in grids.items():
            trends[look.name, name] = tracks.time_s, quantile(grid, 0.5)
    rounds = run.rows("rounds")
    for name in ("rmse_db", "constant_rmse_db", "epsilon_max"):
        trends["", name] = rounds["time_s"], rounds[name]
    return Member(label, run.manifest, run.summary, run.study, run.attacks, run.near_m, trends)


def comparison_panels(members: Sequence[Member], attacks: Sequence[str]) -> list[Panel]:
    """Leakage over time for each attack, then utility and what was spent."""
    labels = list(dict.fromkeys(m.label for m in members))
    unit, seconds = _time_unit(members)
    x_axis = {"title": {"text": f"simulated time ({unit})"}, "rangemode": "tozero"}
    painter = _Painter(members, looks(labels), seconds)
    return [*(_leakage(painter, name, k, x_axis) for k, name in enumerate(attacks)), _gain(painter, x_axis)]


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
            if column == "error_m":
                grid = _drawable(grid)
                more["most"] = max(_diagonal_m(m.manifest) for m in self.members)
            found += _median(look, numbers(time_s / self.second), grid, unit, showlegend=legend, **more)
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
        series = [m.trends.get((attack, column), (np.zeros(0), np.zeros(0))) for m in members]
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
        "UEs. The error is missing where the median estimate diverged. SW1 that is no lower than that of random "
        "guesses (grey, dotted) gives nothing away; a perfect attacker reaches the dashed line."
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
    title = "What the map is worth over time, and what privacy was spent"
    constant = Look("a constant", GREY, dash="dot")
    error = painter.curves("", "rmse_db", "dB", legend=True)
    spent = painter.curves("", "epsilon_max", "", legend=not error)
    if not error and not spent:
        return Panel("utility", title, "No run recorded an error of its model or noise that it drew.")
    values = np.concatenate([m.trends["", "rmse_db"][1] for m in painter.members])
    cells = []
    if error:
        shown = [*error, *painter.reference("", "constant_rmse_db", constant)]
        cells.append(Cell("rmse (dB)", shown, "Error of the model", log=_wide(values)))
    if spent:
        cells.append(Cell("epsilon", spent, "Largest epsilon of any UE so far"))
    caption = (
        "Error on held-out measurements: medians over seeds, bands their quartiles. A model that does not beat the "
        "constant has learnt nothing" + ("." if spent else "; no run drew noise, so no epsilon was spent.")
    )
    return Panel("utility", title, caption, mosaic(cells, x_axis))
