"""The figures that compare runs over time: a curve per label, over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.app.report.figures.member import ACCURACY, NAMED, Member, labels_of
from scenarios.app.report.figures.plotter import NONE, POSITIVE, Plotter, time_unit
from scenarios.app.report.figures.radio_map import comparison_panel
from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, looks, mosaic
from scenarios.app.report.series import GUESS, TRUE_CENTROIDS, wide
from scenarios.app.results.model_text import central_failed
from scenarios.app.results.run import part
from scenarios.app.results.standing import Runs, mean, nearest, strongest
from scenarios.app.results.summary_keys import (
    AREA_CENTRE_ERROR,
    CENTRAL_RMSE,
    CONSTANT_RMSE,
    ERROR_MEDIAN,
    OTHERS,
    UNIFORM,
)

TOP = 1.8  # of the error of a constant: where the axis of a map's error ends


@dataclass(frozen=True)
class Figures:
    """The figures of a comparison: all that is known over time on aligned axes, the uplink, maps, and each attack."""

    over_time: Sequence[Panel]
    attacks: Sequence[Panel]


def comparison_panels(members: Sequence[Member], attacks: Sequence[str], merged: bool = False) -> Figures:
    """What is known, what the model is worth and what was spent, over time; then each attack by itself.

    merged : whether times are those of merges, which differ between runs.
    """
    labels = labels_of(members)
    unit, seconds = time_unit(members)
    x_axis = {"title": {"text": f"simulated time ({unit})"}, "rangemode": "tozero"}
    plotter = Plotter(members, looks(labels), seconds, merged)
    grids = {m.label: m.grid for m in reversed(members)}  # the first run of each label
    maps = comparison_panel({label: grids[label] for label in labels})
    return Figures(
        [_progress(plotter, labels, x_axis), *_uplink(plotter, x_axis), *maps],
        [_leakage(plotter, name, k, x_axis) for k, name in enumerate(attacks)],
    )


def _progress(plotter: Plotter, labels: Mapping[str, Runs], x_axis: Figure) -> Panel:
    """What the strongest attack of each label knows, the error of the model, and epsilon, on aligned axes."""
    best = {label: strongest(runs) for label, runs in labels.items()}
    near = {label: nearest(runs, ERROR_MEDIAN) for label, runs in labels.items()}
    every = [run for runs in labels.values() for run in runs]
    cells, tops = list[Cell](), dict[int, float]()

    def add(y_title: str, traces: list[Figure], title: str, **more: Any) -> None:
        if traces:
            cells.append(Cell(y_title, traces, title, **more))

    def curves(attack: Mapping[str, str], column: str, unit: str) -> list[Figure]:
        return plotter.curves(attack, column, unit, legend=not cells)

    nobody = dict.fromkeys(labels, "")
    if homes := curves(best, "home", "%"):
        chance = max((mean(every, key.of()) for key in (UNIFORM[0], OTHERS[0])), default=np.nan)
        within = f"Homes named within {plotter.members[0].near_m:g} m"
        add("share of UEs (%)", [*homes, *plotter.level(chance, "chance", DARK, "dot")], within, percent=True)
    if error := curves(nobody, "rmse_db", "dB"):
        constant, central = mean(every, CONSTANT_RMSE.of()), mean(every, CENTRAL_RMSE.of())
        central = np.nan if central_failed(central, constant) else central
        levels = [
            *plotter.reference("", "constant_rmse_db", Look("a constant map", GREY, dash="dot")),
            *(
                []
                if central_failed(central, constant)
                else plotter.level(central, "trained centrally", GREY, "longdash")
            ),
        ]
        if any(y is not None and y > TOP * constant for t in error for y in t["y"]):
            tops[len(cells)] = TOP * constant
        add("RMSE (dB)", [*error, *levels], "RMSE of the map")
    add("accuracy (%)", curves(nobody, ACCURACY, "%"), "Accuracy on held-out images", percent=True)
    spent = np.concatenate([m.trends["", "epsilon_max"][1] for m in plotter.members])
    add("epsilon", curves(nobody, "epsilon_max", ""), "Largest epsilon of any UE so far", log=wide(spent))
    if away := curves(near, "error_m", "m"):
        centre = plotter.level(mean(every, AREA_CENTRE_ERROR.of()), "always guess the map centre", DARK, "dash")
        add("centroid error (m)", [*away, *centre], "Centroid error of the round", log=True)
    title = "What is known, what the model is worth, and what was spent"
    if not cells:
        return Panel("progress", title, "No run recorded an error of its model, an attack or noise.")
    figure = mosaic(cells, x_axis, 300)
    for k, top in tops.items():
        figure["layout"][f"yaxis{k + 1 if k else ''}"]["range"] = [0, round(top, 3)]
    caption = (
        "A line a label, with its strongest attack: the median over seeds, the band their quartiles, "
        f"{plotter.moments}. Flat grey and dark lines are baselines."
        + (" Lines that leave the axes at the top are of models that are worse by far." if tops else "")
        + ("" if any(c.y_title == "epsilon" for c in cells) else " No run drew noise, so no epsilon was spent.")
    )
    return Panel("progress", title, caption, figure)


_SW1_TITLE, _HOME_TITLE = "SW1 of all estimates so far", "Home to the nearest estimate"


def _leakage(plotter: Plotter, attack: str, k: int, x_axis: Figure) -> Panel:
    title = f"The attack {attack} over time"
    near_m = plotter.members[0].near_m
    wanted = [
        *((of, "share of UEs (%)", f"{what} named within {near_m:g} m") for of, what in NAMED.items()),
        ("error_m", "centroid error (m)", "Centroid error of the round"),
        ("sw1_m", "SW1 (m)", _SW1_TITLE),
        ("home_m", "distance (m)", _HOME_TITLE),
        ("home_named_m", "distance (m)", "Home to the nearer named place"),
    ]
    cells, seen = list[Cell](), list[str]()
    for column, y_title, heading in wanted:
        traces = plotter.curves(attack, column, "%" if column in NAMED else "m", legend=not cells)
        at_m = near_m if column in ("home_m", "home_named_m") else None
        if traces:
            seen.append(column)
            cells.append(Cell(y_title, traces, heading, column == "error_m", at_m, column in NAMED))
    if not cells:
        return Panel(f"leakage-{k}", title, f"{attack} found nothing in any run.")
    figure = mosaic(_referenced(cells, plotter, attack), x_axis, 260)
    return Panel(f"leakage-{k}", title, " ".join(_read_as(seen, plotter.moments)), figure)


def _read_as(columns: Sequence[str], moments: str) -> list[str]:
    """How to read the figure of an attack, of which these columns are drawn."""
    says = [f"A line a label: the median over seeds, the band their quartiles, {moments}."]
    if set(columns) & set(NAMED):
        says.append("An attack names at most two places of a UE; shares are over the attacked UEs that have the place.")
    if set(columns) - set(NAMED):
        says.append("Of distances each run counts with its median over UEs.")
    if "error_m" in columns:
        says.append("The centroid error is missing where the median estimate diverged.")
    if "sw1_m" in columns:
        says.append(
            "An attack whose sliced Wasserstein distance (SW1) is not below that of random guesses (grey, dotted) "
            "tells nothing of where UEs go; the dashed line is the SW1 of the true centroids."
        )
    return says


def _referenced(cells: Sequence[Cell], plotter: Plotter, attack: str) -> list[Cell]:
    """The cells, with the baselines of SW1 and of the nearest estimate."""
    extra = {
        _SW1_TITLE: [
            *plotter.reference(attack, "guess_sw1_m", GUESS),
            *plotter.reference(attack, "true_centroids_sw1_m", TRUE_CENTROIDS),
        ],
        _HOME_TITLE: plotter.reference(attack, "guess_home_m", GUESS, legend=False),
    }  # fmt: skip
    return [Cell(c.y_title, [*c.traces, *extra.get(c.title, [])], c.title, c.log, c.line_at, c.percent) for c in cells]


def _uplink(plotter: Plotter, x_axis: Figure) -> list[Panel]:
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
        values = np.concatenate([np.zeros(0), *(m.trends.get(("", column), NONE)[1] for m in plotter.members)])
        log = column in POSITIVE and wide(values)
        if traces:
            cells.append(Cell(y_title, traces, title, log=log, percent=unit == "%"))
    if not cells:
        return []
    caption = (
        "Latency is from the server's request to the last bit; energy is that of all uplinks and all training of the "
        "round, where any was sent. Medians over seeds, bands their quartiles."
    )
    return [Panel("uplink", "Uplink of every label", caption, mosaic(cells, x_axis, 250))]


def _radios_differ(members: Sequence[Member]) -> bool:
    """Whether runs differ in powers, base stations or radio."""
    radios = []
    for world, power in ((part(m.study, "world"), m.study.get("power")) for m in members):
        radios.append([power, world.get("radio"), world.get("base_stations"), part(world, "ues").get("max_power_dbm")])
    return any(r != radios[0] for r in radios)
