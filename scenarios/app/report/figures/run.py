"""The figures of a run's learning, drawn from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.figures.accuracy import accuracy
from scenarios.app.report.figures.density import run_panels as density_panels
from scenarios.app.report.figures.named import named_panels
from scenarios.app.report.figures.parts import part_metrics, weights
from scenarios.app.report.figures.radio import radio, service
from scenarios.app.report.figures.radio_map import run_panel
from scenarios.app.report.figures.tracking import tracking_chapter
from scenarios.app.report.figures.uplink import transmissions
from scenarios.app.report.figures.uploads import uploads_chapter
from scenarios.app.report.findings import leakage_findings, privacy_findings
from scenarios.app.report.html import Chapter, paragraphs
from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, band, line, looks, mosaic, plain
from scenarios.app.report.series import (
    DATES,
    GUESS,
    SMALLEST_M,
    TRUE_CENTROIDS,
    TimeGrid,
    attack_grids,
    diagonal_m,
    drawable,
    home_grids,
    median_line,
    model_error_db,
    over_ues,
    unfound,
    wide,
)
from scenarios.app.results.model_text import classifies, is_density
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import count, figure_text, quantile

_ELSEWHERE = frozenset({"rmse_db", "constant_rmse_db", "raw_upload_rmse_db", "rank_correlation", "accuracy_percent"})
"""metrics that have a figure of their own"""


def run_chapters(run: Run) -> list[Chapter]:
    """All figures of a run by what they are about; without places there is no error of attacks."""
    own = looks(run.attacks)
    if classifies(run.summary):
        leaks, model, method = [], [accuracy(run)], []
    else:
        leaks = [*named_panels(run, own), home(run, own), errors(run, own), distribution(run, own)]
        model = [ranks(run)] if is_density(run.summary) else [utility(run)]
        method = [*run_panel(run.grid), *(density_panels(run.surfaces) if is_density(run.summary) else [])]
    return [
        Chapter("leakage", "Leakage", [paragraphs(leakage_findings(run), "says"), *leaks]),
        tracking_chapter(run),
        Chapter("utility", "Model", model),
        Chapter("privacy", "Privacy spent", [paragraphs(privacy_findings(run), "says"), epsilon(run)]),
        Chapter("radio-figures", "Radio", [service(run), transmissions(run), radio(run)]),
        uploads_chapter(run),
        Chapter("method", "Method", [*method, weights(run), part_metrics(run, _ELSEWHERE)]),
    ]


def errors(run: Run, own: Sequence[Look]) -> Panel:
    """Centroid error over time."""
    key, title = "errors", "Centroid error of every attack"
    traces: list[Figure] = []
    crosses: list[Figure] = []
    for k, (look, grid) in enumerate(attack_grids(run, own)):
        x, error_m = run.dates(grid.time_s), grid.error_m()
        traces += median_line(look, x, drawable(error_m), most=diagonal_m(run.manifest))
        crosses += _crosses(look, x, grid.lay(grid.diverged.astype(float)), 0.985 - 0.045 * k)
    if not traces:
        return Panel(key, title, "No attack made an estimate inside the area, so there is no error to draw.")
    figure = mosaic([Cell("centroid error (m)", [*traces, *crosses], log=True)], DATES, 360)
    figure["layout"]["yaxis9"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    caption = (
        "Distance between the attack's estimate and the mean of all points that the UE measured in the round: the "
        f"lower, the more is known. {over_ues(run)}Errors below {SMALLEST_M} m are drawn at {SMALLEST_M} m. "
        "A cross at the top edge marks a round with a diverged estimate (outside the area, or not finite)."
    )
    return Panel(key, title, caption, figure)


def _crosses(look: Look, x: Sequence[Any], diverged: FloatArray, height: float) -> list[Figure]:
    """Crosses at the top edge, more opaque for a larger share of diverged tracks."""
    n, of = np.nansum(diverged, axis=1).astype(int), count(diverged)
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
    """SW1 over time, with its baselines."""
    key, title = "distribution", "Sliced Wasserstein distance (SW1) of every attack"
    traces: list[Figure] = []
    every = attack_grids(run, own)
    for look, grid in every:
        traces += median_line(look, run.dates(grid.time_s), grid.so_far("sw1_m"))
    if not traces:
        return Panel(key, title, "No attack made an estimate inside the area, so there is no distance to draw.")
    grid = next((g for _, g in every if np.isfinite(g.rows["guess_sw1_m"]).any()), every[0][1])
    x = run.dates(grid.time_s)
    centroids, guess, low, high = (
        quantile(grid.so_far(name), 0.5)
        for name in ("true_centroids_sw1_m", "guess_sw1_m", "guess_sw1_m_q05", "guess_sw1_m_q95")
    )
    baselines = [
        band(GUESS, x, low, high, f"{GUESS.name}, 5 % to 95 %", showlegend=True),
        line(GUESS, x, guess, f"{GUESS.name}, mean", mode="lines", hovertemplate="%{y:,.3~r} m"),
        line(
            TRUE_CENTROIDS,
            x,
            centroids,
            mode="lines",
            text=[f"{figure_text(v, 'm')} m" for v in centroids],
            hovertemplate="%{text}",
        ),
    ]
    caption = (
        "Sliced Wasserstein distance between all points measured so far and all estimates so far: the lower, the more "
        "the attacker knows of where the user was. An attack inside the grey band is no better than the same number of "
        "random guesses. The dashed line is the SW1 of answering the true centroid of every batch; it is no bound: "
        "estimates that scatter as the points do lie below it. " + over_ues(run)
    )
    return Panel(key, title, caption, mosaic([Cell("SW1 (m)", [*baselines, *traces])], DATES, 350))


def home(run: Run, own: Sequence[Look]) -> Panel:
    """Distance to home over time, and the share of UEs whose home is found."""
    key, title = "home", "Distance from home to the estimates of every attack"
    distances: list[Figure] = []
    shares: list[Figure] = []
    every = home_grids(run, own)
    for look, grid in every:
        x, several = run.dates(grid.time_s), len(grid.ue) > 1
        for column, name, dash in (
            ("home_m", "nearest estimate", "solid"),
            ("home_named_m", "nearer named place", "dash"),
        ):
            mine = Look(f"{look.name}: {name}", look.color, look.symbol, dash)
            so_far = unfound(grid.so_far(column))
            lines = median_line(mine, x, drawable(so_far), most=diagonal_m(run.manifest))
            distances += lines[-1 if column == "home_named_m" else 0 :]  # one band is enough
            if several and np.isfinite(so_far).any():
                share = 100.0 * np.maximum.accumulate(so_far <= run.near_m, axis=0).mean(axis=1)
                shares.append(line(mine, x, share, hovertemplate="%{y:.3~r} %", showlegend=False))
        worst = quantile(unfound(grid.so_far("home_m")), 0.0)
        if several and np.isfinite(worst).any():
            exposed = Look(f"{look.name}: nearest estimate, most exposed UE", look.color, look.symbol, "dashdot")
            distances.append(line(exposed, x, drawable(worst), mode="lines", hovertemplate="%{y:,.3~r} m"))
    if not distances:
        return Panel(key, title, "No UE has a known home, or no attack made an estimate.")
    for look, grid in every:
        guess = Look(f"baseline: random guesses, as many as {look.name}", look.color, look.symbol, "dot")
        distances += median_line(guess, run.dates(grid.time_s), grid.so_far("guess_home_m"), mode="lines")[-1:]
    cells = [Cell("distance to home (m)", distances, line_at=run.near_m)]
    if shares:
        cells = [
            Cell("distance to home (m)", distances, "Distance", line_at=run.near_m),
            Cell("share of UEs (%)", shares, f"UEs found within {run.near_m:g} m so far", percent=True),
        ]
    caption = (
        "Distance from the true home to what the attack says of the UE: the lower, the more is known, but only below "
        "the random guesses. Solid: the nearest of all estimates of the UE so far. It can only shrink as estimates are "
        "added, so compare it with the same number of random guesses (dotted). Dashed: the nearer of the places that "
        "the attack names of the UE, at most two. "
        + ("Lines are medians over the UEs that have a home, the band their quartiles. " if shares else "")
    )
    return Panel(key, title, caption, mosaic(cells, DATES, 350))


def utility(run: Run) -> Panel:
    """Error of the model over time."""
    key, title = "utility", "Model: RMSE on held-out measurements"
    rows = run.rows("rounds")
    x = run.dates(rows["time_s"])
    lines = (
        ("rmse_db", Look("model", DARK)),
        ("constant_rmse_db", Look("baseline: constant (mean of the training labels)", GREY, dash="dot")),
        ("raw_upload_rmse_db", Look("baseline: raw upload (nearest neighbour)", GREY, "square", "longdash")),
    )
    error_db = {name: model_error_db(run, name) for name, _ in lines}
    traces = [
        line(look, x, error_db[name], hovertemplate="%{y:,.3~r} dB")
        for name, look in lines
        if np.isfinite(error_db[name]).any()
    ]
    if not traces:
        return Panel(key, title, "No error was recorded: nothing was held out, or no round was played.")
    log = wide(np.concatenate([*error_db.values()]))
    caption = (
        "Root mean square error of the signal map on held-out measurements: the lower, the better. A model that is no "
        "better than the constant has learned nothing, and low leakage then proves nothing. Raw upload is the map of a "
        "server that receives all measurements. Rounds are scored on at most 2,000 measurements held out so far, "
        "the last one on all of them."
    )
    return Panel(key, title, caption, mosaic([Cell("RMSE (dB)", traces, log=log)], DATES))


def ranks(run: Run) -> Panel:
    """Rank correlation of a density over time."""
    key, title = "utility", "Model: rank correlation of the density map"
    names = (
        ("rank_correlation", Look("with the exact kernel density of all places", DARK)),
        ("truth_rank_correlation", Look("with the true distribution of UEs", GREY, dash="dash")),
    )
    traces = []
    for name, look in names:
        rows = run.rows("metrics", "name", name)
        if np.isfinite(rows["value"]).any():
            traces.append(line(look, run.dates(rows["time_s"]), rows["value"]))
    if not traces:
        return Panel(key, title, "No round had an answer, so there is no map.")
    caption = "Spearman's rank correlation over all points of the grid."
    return Panel(key, title, caption, mosaic([Cell("rank correlation", traces)], DATES, 300))


def epsilon(run: Run) -> Panel:
    """Privacy spent over time."""
    key, title = "epsilon", "Privacy spent: epsilon of every mechanism so far"
    names = dict.fromkeys(map(str, run.tables["spends"]["mechanism"]))
    if not names:
        return Panel(key, title, "No mechanism spent epsilon, so there is no differential privacy.")
    traces, known, deltas = [], [np.zeros(0)], []
    for look in (Look(name, DARK, style.symbol, style.dash) for name, style in zip(names, looks(names), strict=True)):
        rows = run.rows("spends", "mechanism", look.name)
        grid = TimeGrid.of(rows)
        spent = grid.so_far("epsilon")
        if np.isfinite(spent).any():
            traces += [line(look, run.dates(grid.time_s), quantile(spent, 1.0), f"{look.name}, max over UEs")]
            known.append(spent.ravel())
            deltas.append(f"{look.name} {rows['delta'][0]:g} ({rows['unit'][0]}, {rows['relation'][0]})")
    if not traces:
        return Panel(key, title, "Noise was drawn, but epsilon is infinite: it guarantees nothing.")
    how = "All rounds composed, by RDP where UEs are sampled and exactly otherwise; smaller is more private."
    caption = f"{how} Delta: {'; '.join(deltas)}."
    return Panel(key, title, caption, mosaic([Cell("epsilon", traces, log=wide(np.concatenate(known)))], DATES, 300))
