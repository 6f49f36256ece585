"""The figures of a run's radio: received power over distance, and the uplink over rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.report.plot import DARK, Cell, Figure, Look, Panel, line, mosaic, numbers
from scenarios.app.report.series import DATES, Series, median_line, wide
from scenarios.app.results.run import Run, clock_of, part
from scenarios.app.results.statistics import counted, figure_text, quantile

# Tol's colours, distinguishable with colour blindness; no attack has one of them
SEEN, HIDDEN = Look("line of sight", "#44AA99"), Look("no line of sight", "#882255", "diamond")
LOST = Look("late", "#882255", "diamond", "dot")
MOST_LINKS = 2000  # drawn as dots
MOST_ROUNDS = 1_000_000  # no run has more
N_BIN, FEWEST = 14, 8  # distance bins, and links without which a bin says nothing


def radio(run: Run) -> Panel:
    """RSRP and line of sight against distance."""
    key, title = "radio", "Radio links at sampled outdoor places, by distance"
    if run.replayed:
        return Panel(key, title, "The RSRP was read from a trace; no radio was modelled.")
    if "rsrp_dbm" not in run.ground:
        return Panel(key, title, "This run recorded no radio map.")
    names = ("distance_m", "rsrp_dbm", "los")
    every = {name: run.ground[name] for name in names}
    good = np.isfinite(every["rsrp_dbm"]) & (every["distance_m"] > 0)
    if not good.any():
        return Panel(key, title, "There is no outdoor place, so no link was sampled.")
    # whole places are left out, so that each base station keeps its share of the dots
    drawn = good & (np.arange(len(good)) % (-(-good.size // MOST_LINKS)) == 0)[:, None]
    distance, rsrp, los = (every[name][good] for name in names)
    bins = _bins(distance)
    traces: list[Figure] = []
    for look, state in ((SEEN, 1.0), (HIDDEN, 0.0)):
        dots, mine = drawn & (every["los"] == state), los == state
        if mine.any():
            traces.append(_dots(look, every["distance_m"][dots], every["rsrp_dbm"][dots]))
            traces.append(_middle(look, distance, rsrp, bins * mine))
    caption = (
        f"Mean received power without small-scale fading, from {counted(good.shape[1], 'base station')} at "
        f"{counted(len(good), 'place')}. Dots are links; lines are medians over at least {FEWEST} links "
        "in a bin of distance. "
    )
    mixed = bool((los == 1.0).any() and (los == 0.0).any())
    cells = [Cell("RSRP (dBm)", traces, "Received power" if mixed else "")]
    if mixed:
        cells.append(Cell("links (%)", [_share(distance, los, bins)], "Links in line of sight", percent=True))
    else:
        caption += f"All links are {'in' if los[0] == 1.0 else 'without'} line of sight."
    return Panel(key, title, caption, _by_distance(cells, distance, rsrp))


def _bins(distance_m: FloatArray) -> BoolArray:
    """Which links (n_bin, n) lie in each of the bins, evenly wide in the logarithm of distance."""
    edges = np.geomspace(distance_m.min(), distance_m.max() * (1 + 1e-9), N_BIN + 1)
    at = np.clip(np.searchsorted(edges, distance_m, side="right") - 1, 0, N_BIN - 1)
    return np.asarray(np.arange(N_BIN)[:, None] == at)


def _dots(look: Look, distance_m: FloatArray, rsrp_dbm: FloatArray) -> Figure:
    return {
        "type": "scatter", "mode": "markers", "name": look.name, "legendgroup": look.name, "showlegend": False,
        "x": numbers(distance_m), "y": numbers(rsrp_dbm), "hoverinfo": "skip",
        "marker": {"size": 4, "color": look.color, "opacity": 0.3, "symbol": look.symbol},
    }  # fmt: skip


def _middle(look: Look, distance_m: FloatArray, rsrp_dbm: FloatArray, bins: BoolArray) -> Figure:
    """The running median."""
    full = [mine for mine in bins if mine.sum() >= FEWEST]
    x = numbers([np.median(distance_m[mine]) for mine in full])
    y = np.array([np.median(rsrp_dbm[mine]) for mine in full])
    texts = [
        f"median {figure_text(v)} dBm of {counted(int(mine.sum()), 'link')}" for v, mine in zip(y, full, strict=True)
    ]
    drawn = line(look, x, y, mode="lines+markers", text=texts, hovertemplate="%{text}")
    return drawn | {
        "line": {**drawn["line"], "width": 3},
        "marker": {**drawn["marker"], "line": {"width": 1, "color": "#fff"}},
    }


def _share(distance_m: FloatArray, los: FloatArray, bins: BoolArray) -> Figure:
    """Links in line of sight, percent, bin by bin."""
    full = [mine for mine in bins if mine.sum() >= FEWEST]
    y = np.array([100.0 * los[mine].mean() for mine in full])
    texts = [f"{figure_text(v)} % of {counted(int(mine.sum()), 'link')}" for v, mine in zip(y, full, strict=True)]
    x = numbers([np.median(distance_m[mine]) for mine in full])
    return line(SEEN, x, y, mode="lines+markers", text=texts, hovertemplate="%{text}", showlegend=False)


def _by_distance(cells: Sequence[Cell], distance_m: FloatArray, rsrp_dbm: FloatArray) -> Figure:
    """Panels over the same logarithmic axis of distance."""
    low, high = float(distance_m.min()), float(distance_m.max())
    steps = [float(f"{m}e{e}") for e in range(-2, 7) for m in (1, 2, 5)]
    ticks = [step for step in steps if low <= step <= high]
    x_axis = {
        "type": "log", "title": {"text": "distance (m)"}, "tickvals": ticks, "ticktext": [f"{t:,g}" for t in ticks],
        "range": numbers([np.log10(low) - 0.03, np.log10(high) + 0.03]), "hoverformat": ",.0f",
    }  # fmt: skip
    figure = mosaic(cells, x_axis, 340)
    span = float(np.ptp(rsrp_dbm)) or 1.0
    figure["layout"]["yaxis"]["range"] = numbers([rsrp_dbm.min() - 0.04 * span, rsrp_dbm.max() + 0.04 * span])
    return figure


def uplink_series(run: Run, merged: bool) -> dict[str, Series]:
    """Per round: percent decoded in time, median latency, median SINR, energy; empty for an ideal uplink.

    merged : at the times of merges, not of requests.
    """
    links, rounds = run.rows("links"), run.rows("rounds")
    if not np.isfinite(links["sinr_db"]).any():
        return {}
    round_, at = np.unique(links["round"], return_inverse=True)
    time_s = run.moment_s(round_, merged)

    def by_round(column: str) -> FloatArray:
        """A column as (n_round, n_link), NaN where there are fewer."""
        order = np.argsort(at, kind="stable")
        count = np.bincount(at, minlength=len(time_s))
        grid = np.full((len(time_s), int(count.max(initial=0))), np.nan)
        grid[at[order], np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)] = links[column][order]
        return grid

    return {
        "decoded_percent": (time_s, 100.0 * _mean(by_round("decoded"))),
        "sinr_db": (time_s, quantile(by_round("sinr_db"), 0.5)),
        "latency_s": (time_s, quantile(by_round("latency_s"), 0.5)),
        "energy_j": (run.moment_s(rounds["round"], merged), rounds["energy_j"]),
    }


def service(run: Run) -> Panel:
    """Decoded and late updates, latency, energy, SINR and handovers of each round."""
    key, title = "service", "Uplink over rounds: decoded updates, latency, energy, SINR"
    links, moves = run.rows("links"), _handovers(run)
    kind = part(run.study, "world", "radio", "uplink").get("kind")
    idle = kind == "ideal" or not np.isfinite(links["sinr_db"]).any()
    why = "The uplink is ideal: every update arrives at once and without energy. "
    if idle and kind != "ideal":
        why = "No uplink with an SINR was recorded. "
    if idle and not moves:
        return Panel(key, title, why.rstrip())
    figure = mosaic([*([] if idle else _uplink(run, links)), *moves], DATES, 250)
    caption = (
        "What the uplink did in each round: the more updates arrive in time, the more the model learns and the "
        "attacker sees. Latency is from the server's request to the last bit. Energy is that of all uplinks and all "
        "training of the round. The band of the SINR spans its quartiles over UEs."
    )
    if part(run.study, "world", "radio").get("handover") is None:
        caption += " Handover is not modelled: every UE is served by its strongest cell."
    elif not moves:
        caption += " There was no handover."
    return Panel(key, title, why + "Only handovers are drawn." if idle else caption, figure)


def _uplink(run: Run, links: dict[str, Any]) -> list[Cell]:
    time_s, at = np.unique(links["time_s"], return_inverse=True)
    x = run.dates(time_s)

    def laid(column: str) -> FloatArray:
        """A column as (n_round, n_ue)."""
        ue, j = np.unique(links["ue"], return_inverse=True)
        grid = np.full((len(time_s), len(ue)), np.nan)
        grid[at, j] = links[column]
        return grid

    decoded, late = (100.0 * _mean(laid(name)) for name in ("decoded", "late"))
    share = [
        line(Look("decoded in time", DARK), x, decoded, hovertemplate="%{y:.3~r} %"),
        line(LOST, x, late, "late and lost", hovertemplate="%{y:.3~r} %"),
    ]
    latency, (per_s, s) = laid("latency_s"), _unit(links["latency_s"], "s")
    latencies = [
        line(look, x, per_s * quantile(latency, q), hovertemplate=f"%{{y:,.3~r}} {s}")
        for look, q in (
            (Look("latency: median", DARK), 0.5),
            (Look("latency: 90 % quantile", DARK, "diamond", "dash"), 0.9),
        )
    ]
    rounds = run.rows("rounds")
    per_j, j = _unit(rounds["energy_j"], "J")
    spent = [line(Look("energy", DARK), run.dates(rounds["time_s"]), per_j * rounds["energy_j"],
                  hovertemplate=f"%{{y:,.3~r}} {j}", showlegend=False)]  # fmt: skip
    sinr = median_line(Look("SINR", DARK), x, laid("sinr_db"), "dB", showlegend=False)
    return [
        Cell("UEs (%)", share, "Updates decoded and late", percent=True),
        Cell(
            f"latency ({s})", latencies, "Latency", log=wide(np.concatenate([quantile(latency, q) for q in (0.5, 0.9)]))
        ),
        Cell(f"energy ({j})", spent, "Energy of the round", log=wide(rounds["energy_j"])),
        Cell("SINR (dB)", sinr, "Uplink SINR, median"),
    ]


def _mean(grid: FloatArray) -> FloatArray:
    """Mean over UEs (n_round,); NaN of none."""
    known = np.isfinite(grid)
    total = np.where(known, grid, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def _unit(values: FloatArray, unit: str) -> tuple[float, str]:
    """The factor and the name of a unit in which the largest value is at least 1."""
    most = float(np.max(values[np.isfinite(values)], initial=0.0))
    scales = ((1.0, unit), (1e3, f"m{unit}"), (1e6, f"µ{unit}"), (1e9, f"n{unit}"))
    return next(((factor, name) for factor, name in scales if most * factor >= 1.0), scales[0])


def _handovers(run: Run) -> list[Cell]:
    """How many UEs changed their base station in each round, or nothing where none did."""
    time_s, round_s = run.rows("handovers")["time_s"], run.manifest.get("round_s")
    if not len(time_s) or not isinstance(round_s, int | float) or not round_s > 0:
        return []
    # a handover at a deadline belongs to the round that ends there
    clock = clock_of(run.manifest)
    at = np.maximum(clock.round_of(time_s - 1e-6 * round_s, round_s) + 1, 1)
    played = run.tables["rounds"]["round"]
    last = max(float(at.max()), float(np.max(played[np.isfinite(played)], initial=1.0)))
    if last > MOST_ROUNDS:
        return []
    counts = np.bincount(at.astype(int), minlength=int(last) + 1)[1:].astype(float)
    ends_s = clock.ends_s(len(counts), float(round_s))
    drawn = line(Look("handovers", DARK), run.dates(ends_s), counts,
                 hovertemplate="handovers: %{y:,.0f}", showlegend=False)  # fmt: skip
    return [Cell("handovers", [drawn], "Handovers in the round")]
