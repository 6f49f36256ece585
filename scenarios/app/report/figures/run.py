"""The figures of a run's learning: from its tables to panels of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.figures.accuracy import accuracy
from scenarios.app.report.figures.density import run_panels as density_panels
from scenarios.app.report.figures.map import town
from scenarios.app.report.figures.radio import radio, service
from scenarios.app.report.figures.radio_map import run_panel
from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, band, line, looks, mosaic, plain
from scenarios.app.report.series import (
    DATES,
    FLOOR,
    GUESS,
    SMALLEST_M,
    Tracks,
    attack_tracks,
    diagonal_m,
    drawable,
    home_tracks,
    median_line,
    over_ues,
    unfound,
    wide,
)
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import count, quantile
from scenarios.app.results.summary_text import classifies


def run_panels(run: Run) -> list[Panel]:
    """All figures of a run; without places there is no map and nothing to find on it."""
    if classifies(run.summary):
        return [accuracy(run), radio(run), service(run), epsilon(run)]
    own = looks(run.attacks)
    found = [errors(run, own), distribution(run, own), home(run, own), town(run, own)]
    worth = [ranks(run), *density_panels(run.surfaces)] if density(run.summary) else [utility(run)]
    return [*found, *run_panel(run.grid), radio(run), service(run), *worth, epsilon(run)]


def errors(run: Run, own: Sequence[Look]) -> Panel:
    """Centroid error over time."""
    key, title = "errors", "Where was the user this round? Error of the batch centroid, per attack"
    traces: list[Figure] = []
    crosses: list[Figure] = []
    for k, (look, tracks) in enumerate(attack_tracks(run, own)):
        x, error_m = run.dates(tracks.time_s), tracks.error_m()
        traces += median_line(look, x, drawable(error_m), most=diagonal_m(run.manifest))
        crosses += _crosses(look, x, tracks.lay(tracks.diverged.astype(float)), 0.985 - 0.045 * k)
    if not traces:
        return Panel(key, title, "No attack produced an estimate inside the area, so there is no error to draw.")
    figure = mosaic([Cell("centroid error (m)", [*traces, *crosses], log=True)], DATES, 360)
    figure["layout"]["yaxis9"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    caption = (
        "Distance between the attack's estimate and the mean of all points that the UE measured in the round; errors "
        f"below {SMALLEST_M} m are drawn there. {over_ues(run)}"
        "A cross at the top edge marks rounds with a diverged estimate (outside the area, or not finite)."
    )
    return Panel(key, title, caption, figure)


def _crosses(look: Look, x: Sequence[Any], diverged: FloatArray, height: float) -> list[Figure]:
    """Crosses at the top edge; the fainter, the fewer tracks they stand for."""
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
    """SW1 over time, between the references."""
    key, title = "distribution", "How much of the user's whereabouts is reconstructed so far? SW1, per attack"
    traces: list[Figure] = []
    every = attack_tracks(run, own)
    for look, tracks in every:
        traces += median_line(look, run.dates(tracks.time_s), tracks.so_far("sw1_m"))
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
        "scattered estimates can lie below it. " + over_ues(run)
    )
    return Panel(key, title, caption, mosaic([Cell("SW1 so far (m)", [*references, *traces])], DATES, 350))


def home(run: Run, own: Sequence[Look]) -> Panel:
    """Distance to home over time, and the share of UEs whose home is found."""
    key, title = "home", "Is home found? Distance from home to what the attacker has so far"
    far: list[Figure] = []
    found: list[Figure] = []
    every = home_tracks(run, own)
    for look, tracks in every:
        x, several = run.dates(tracks.time_s), len(tracks.ue) > 1
        for column, what, dash in (("home_m", "nearest estimate", "solid"), ("home_named_m", "named place", "dash")):
            mine = Look(f"{look.name}: {what}", look.color, look.symbol, dash)
            so_far = unfound(tracks.so_far(column))
            drawn = median_line(mine, x, drawable(so_far), most=diagonal_m(run.manifest))
            far += drawn[-1 if column == "home_named_m" else 0 :]  # one band is enough
            if several and np.isfinite(so_far).any():
                share = 100.0 * np.maximum.accumulate(so_far <= run.near_m, axis=0).mean(axis=1)
                found.append(line(mine, x, share, hovertemplate="%{y:.3~r} %", showlegend=False))
        worst = quantile(unfound(tracks.so_far("home_m")), 0.0)
        if several and np.isfinite(worst).any():
            most = Look(f"{look.name}: nearest estimate, the UE exposed most", look.color, look.symbol, "dashdot")
            far.append(line(most, x, drawable(worst), mode="lines", hovertemplate="%{y:,.3~r} m"))
    if not far:
        return Panel(key, title, "No UE has a known home, or no attack produced an estimate: nothing to draw.")
    for look, tracks in every:
        guess = Look(f"as many random guesses as {look.name}", GREY, look.symbol, "dot")
        far += median_line(guess, run.dates(tracks.time_s), tracks.so_far("guess_home_m"), mode="lines")[-1:]
    cells = [Cell("distance to home (m)", far, line_at=run.near_m)]
    if found:
        cells = [
            Cell("distance to home (m)", far, "Distance", line_at=run.near_m),
            Cell("share of UEs (%)", found, f"UEs for which it ever came within {run.near_m:g} m", percent=True),
        ]
    caption = (
        "Solid: the nearest of all estimates of the UE so far, which flatters the attacker as estimates grow (so do "
        "the dotted lines: as many random guesses as the attack has named places). Dashed: the nearer of the two "
        "density peaks of the estimates, the places that an attacker who does not know the truth would name. "
        + ("Lines are medians over the UEs that have a home, the band their quartiles. " if found else "")
    )
    return Panel(key, title, caption, mosaic(cells, DATES, 350))


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
    log = wide(np.concatenate([rows[name] for name, _ in drawn]))
    caption = (
        "Root mean square error of the signal map. A model that does not beat the constant has learnt nothing: that it "
        "gives little away proves nothing, what it gives away is real. Raw upload is what the server would have if "
        "users sent their measurements."
    )
    return Panel(key, title, caption, mosaic([Cell("rmse (dB)", traces, log=log)], DATES))


def density(summary: Mapping[str, Any]) -> bool:
    """Whether a run learnt a density."""
    return "utility.rank_correlation" in summary


def ranks(run: Run) -> Panel:
    """Rank correlation of a density over time."""
    key, title = "utility", "Is the map any good? Its rank correlation with what it should be"
    drawn = (
        ("rank_correlation", Look("with the exact kernel of all places", DARK)),
        ("truth_rank_correlation", Look("with the law by which UEs are where they are", GREY, dash="dash")),
    )
    traces = []
    for name, look in drawn:
        rows = run.rows("figures", "name", name)
        if np.isfinite(rows["value"]).any():
            traces.append(line(look, run.dates(rows["time_s"]), rows["value"]))
    if not traces:
        return Panel(key, title, "No round had an answer, so there is no map to compare.")
    caption = "Spearman's, over all points of the grid: 1 is the same order of places, 0 none in common."
    return Panel(key, title, caption, mosaic([Cell("rank correlation", traces)], DATES, 300))


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
    how = "All rounds composed, by RDP where users are sampled and else exactly; smaller is more private."
    caption = f"{how} Delta: {'; '.join(deltas)}."
    return Panel(key, title, caption, mosaic([Cell("epsilon", traces, log=wide(np.concatenate(seen)))], DATES, 300))
