"""Draw pictures of the documentation into docs/_static: ``python docs/picture.py NAME ...``;
``--help`` has the names.

Each is drawn from a run, which is played into runs/pictures unless it is there, or from a table of
a page. Pictures of pages need playwright and a Chromium of this machine (tests/browser.py).
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import PowerNorm
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.ticker import MaxNLocator
from PIL import Image

from netsim.rng import Streams
from netsim.streets.graph import CLASSES
from netsim.world.build import build_world
from scenarios.app.cli.commands import main
from scenarios.app.report.report import write_report
from scenarios.app.results.read import load_finished_run, select_rows
from scenarios.app.study.load import load as load_study
from scenarios.app.study.slots import SLOTS

HERE = Path(__file__).parent
STATIC = HERE / "_static"
ATTACK = "tab:red"
TRUTH = "0.55"
OTHER = "tab:blue"
GROUND = {"water": "#a8cbe6", "green": "#c8e2b5"}
STREETS = {
    "primary": ("#d08a2a", 1.4),
    "secondary": ("#d08a2a", 0.9),
    "pedestrian": ("#b05a9a", 0.7),
}
CLEAR = {"fc": "white", "ec": "none", "alpha": 0.8, "pad": 1}
NARROW_IN = 4.8
SHOWN_IN = 6.4
"""widths, inches: in which letters of eight points can be read on a phone, and in which it is shown
elsewhere"""


def leakage(folder: Path, out: Path) -> None:
    """Left: one UE's measurements and what the server infers. Right: distance from home to the
    estimates, by day."""
    run = load_finished_run(folder)
    ue = 7
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.6, 3.4), width_ratios=[1.25, 1], layout="constrained"
    )
    with np.load(folder / "points.npz") as points:
        true_m = points["position_m"][points["ue"] == ue]
    said = run.tables["estimates"]
    ues = run.tables["ues"]
    mine = (said["ue"] == ue) & (said["attack"] == "closed-form")
    centre = mine & (said["quantity"] == "centroid")
    place = mine & (said["quantity"] == "place")
    left.plot(*true_m.T, ".", ms=2, color="0.7", label="measured at (never sent)", rasterized=True)
    left.plot(
        said["x_m"][place],
        said["y_m"][place],
        "x",
        ms=5,
        mew=1,
        color=ATTACK,
        label="places inferred",
    )
    left.plot(
        said["x_m"][centre],
        said["y_m"][centre],
        "+",
        ms=6,
        mew=1,
        color=OTHER,
        label="centroids inferred",
    )
    who = ues["ue"] == ue
    left.plot(
        ues["home_x_m"][who], ues["home_y_m"][who], "*", ms=13, mfc="none", mec="k", label="home"
    )
    left.plot(
        ues["work_x_m"][who], ues["work_y_m"][who], "s", ms=9, mfc="none", mec="k", label="work"
    )
    left.set(xlim=(0, 2400), ylim=(0, 1800), aspect="equal", xlabel="east, m", ylabel="north, m")
    left.set_title("One UE, 21 daily updates, no defense")
    left.legend(loc="upper right", fontsize=7)
    table = run.tables["leakage"]
    days = np.unique(table["round"])

    def over_ues(column: str, of) -> list[float]:
        return [float(of(table[column][table["round"] == day])) for day in days]

    right.semilogy(
        days, over_ues("home_m", np.median), color=ATTACK, label="attack, median of 12 UEs"
    )
    right.semilogy(days, over_ues("home_m", np.max), "--", color=ATTACK, label="attack, safest UE")
    right.semilogy(
        days, over_ues("guess_home_m", np.median), color="0.5", label="as many random guesses"
    )
    right.set(xlabel="day", ylabel="home to nearest estimate, m", title="All UEs, over time")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.legend(fontsize=7)
    _save(figure, out)


def published_defenses(page: Path, out: Path) -> None:
    """One line a row: the share of the leak without a defense that each attacker still has (0:
    chance)."""
    found = [
        (name, [_number(cell) for cell in cells[:4]])
        for name, *cells in _table(page, "defense", "chance")
    ][::-1]
    figure, axes = plt.subplots(figsize=(7.2, 0.34 * len(found) + 0.9), layout="constrained")
    for y, (_, (chance, nothing, published, adapted)) in enumerate(found):
        left = [min(max((of - chance) / (nothing - chance), 0), 1) for of in (published, adapted)]
        axes.plot(left, [y, y], color="0.8", zorder=1)
        axes.plot(
            left[0],
            y,
            "o",
            mfc="white",
            color=OTHER,
            label="published attacker" if y == 0 else None,
        )
        axes.plot(left[1], y, "o", color=ATTACK, label="adapted attacker" if y == 0 else None)
    axes.set(yticks=range(len(found)), yticklabels=[name for name, _ in found], xlim=(-0.03, 1.03))
    axes.set_xlabel("share of the leak that remains: 0 chance, 1 no defense")
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    _save(figure, out)


def useful_maps(page: Path, out: Path) -> None:
    """Left: the error of the map under each defense. Right: the homes and workplaces that are still
    named."""
    *rows, law, constant = _table(page, "variant", "map by day")
    rows = sorted(rows, key=lambda cells: _number(cells[3]))
    figure, (left, right) = plt.subplots(
        1,
        2,
        figsize=(NARROW_IN, 0.29 * len(rows) + 0.8),
        width_ratios=[1, 1.5],
        sharey=True,
        layout="constrained",
    )
    for y, (_, by_day, _, *named) in enumerate(rows):
        if "no map" in by_day:
            left.text(13.6, y, "no map", ha="right", va="center", bbox=CLEAR)
        else:
            left.plot(_number(by_day), y, "o", color=TRUTH)
        for cell, colour, mark, name in zip(
            named, (ATTACK, OTHER), "os", ("homes", "workplaces"), strict=False
        ):
            for low, high in re.findall(r"\((\d+)-(\d+)\)", cell):
                right.plot([float(low), float(high)], [y, y], color=colour, lw=4, alpha=0.3)
            right.plot(_number(cell), y, mark, ms=5, color=colour, label=name if y == 0 else None)
    left.set(
        yticks=range(len(rows)),
        yticklabels=[textwrap.fill(cells[0], 30) for cells in rows],
        xlim=(9, 13.8),
    )
    left.tick_params(axis="y", labelsize=7, length=0)
    left.axvline(_number(law[1]), color="0.5", ls=":")
    left.set_xlabel(
        f"error of the map, dB\n(constant: {constant[1]}; dotted:\na law of three numbers)"
    )
    right.axvspan(0, 5, color="0.9", lw=0)
    right.tick_params(axis="y", length=0)
    right.set(xlim=(-3, 103), xlabel="named within 100 m, %\n(grey: chance)")
    for axes in (left, right):
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    _save(figure, out)


def crowd(page: Path, out: Path) -> None:
    """Error of the map against epsilon, a curve a number of people: noise in shares, and banded
    noise dashed."""
    figure, axes = plt.subplots(figsize=(NARROW_IN, 3.2), layout="constrained")
    found = _table(page, "people", "noise", "no noise", "epsilon 8")
    people = sorted({_number(cells[0]) for cells in found})
    for count, noise, *errors in found:
        if noise not in ("shares", "banded, once a week"):
            continue
        at = [(x, min(_number(cell), 30)) for x, cell in enumerate(errors[:4]) if cell]
        colour = plt.cm.viridis(people.index(_number(count)) / len(people))
        shared = noise == "shares"
        style = {"mfc": colour if shared else "white"}
        if sum(row[0] == count for row in found) == 1 or shared:
            style["label"] = f"{count} people"
        axes.plot(*zip(*at, strict=True), "-o" if shared else "--s", ms=4, color=colour, **style)
    axes.axhline(np.mean([_number(law) for *_, law in found if law]), ls=":", color="0.5")
    axes.set(xlabel="epsilon of four weeks", ylim=(7.5, 22))
    axes.set_xticks(range(4), ["none", "8", "3", "1"])
    axes.set_ylabel("error of the map, dB\n(dotted: a law of three numbers)")
    axes.legend(title="solid: shares; dashed: banded", frameon=False, fontsize=7)
    _save(figure, out)


def commuter(folder: Path, out: Path) -> None:
    """All positions of the commuter of the tutorial, the place of most time, and what two attacks
    answer in the end."""
    run = load_finished_run(folder)
    with np.load(folder / "points.npz") as points:
        true_m = points["position_m"]
    said = _of(run, "estimates", attack="closed-form")
    named = _of(run, "named", attack="span")
    figure, axes = plt.subplots(figsize=(NARROW_IN, 3.2), layout="constrained")
    axes.plot(*true_m.T, ".", ms=1.5, color="0.6", label="measured at, never sent", rasterized=True)
    _place(axes, run, _at(run.tables["ues"], "densest_"), "*", "place of most time, 100 m")
    axes.plot(said["x_m"], said["y_m"], "+", ms=7, color=OTHER, label="each day by closed-form")
    axes.plot(named["x_m"], named["y_m"], "D", ms=5, color=ATTACK, label="named by span at the end")
    _map(axes)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    _save(figure, out)


def errors(folder: Path, out: Path) -> None:
    """A day of a UE on the map: the estimate of its mean position, which is far off, and two places
    that are named."""
    run = load_finished_run(folder)
    ue = 0
    day = 9
    track = _of(run, "tracks", ue=ue)
    track = select_rows(track, np.ceil(track["time_s"] / 86400) == day)
    who = _of(run, "ues", ue=ue)
    truth = _at(_of(run, "updates", ue=ue, round=day))
    said = _at(_of(run, "estimates", ue=ue, round=day, attack="closed-form"))
    named = _of(run, "leakage", ue=ue, round=day, attack="span")
    figure, axes = plt.subplots(figsize=(NARROW_IN, 4.1), layout="constrained")
    axes.plot(track["x_m"], track["y_m"], color="0.75", lw=1)
    for name, mark in (("home", "*"), ("work", "s")):
        place = _at(who, f"{name}_")
        _place(axes, run, place, mark)
        answers = (_at(named, "named_"), _at(named, "second_"))
        away_m = [float(np.hypot(*np.subtract(answer, place))) for answer in answers]
        axes.plot(*answers[np.argmin(away_m)], "D", ms=5, color=ATTACK)
        says = (
            f"{name}: span is\n{min(away_m):.0f} m away: "
            f"{'named' if min(away_m) <= run.hit_radius_m else 'not named'}"
        )
        axes.annotate(
            says, place, (0, 27), textcoords="offset points", color=ATTACK, ha="center", bbox=CLEAR
        )
    axes.plot(*truth, "o", ms=6, color="k")
    axes.annotate(
        "true mean position\nof the day",
        truth,
        (8, -4),
        textcoords="offset points",
        va="top",
        bbox=CLEAR,
    )
    axes.annotate("", said, truth, arrowprops={"arrowstyle": "->", "color": OTHER, "lw": 1.5})
    axes.plot(*said, "+", ms=10, mew=2, color=OTHER)
    says = f"closed-form errs\nby {np.hypot(*np.subtract(said, truth)):.0f} m"
    axes.annotate(
        says,
        said,
        (0, -10),
        textcoords="offset points",
        va="top",
        ha="center",
        color=OTHER,
        bbox=CLEAR,
    )
    axes.set(xlim=(-50, 1350), ylim=(300, 1600))
    _map(axes)
    _save(figure, out)


def tracking(folder: Path, out: Path) -> None:
    """East and north of a UE by day: the belief of the filter of a tracker, and where the UE
    was."""
    run = load_finished_run(folder)
    ue = 0
    belief, truth = (
        _of(run, name, ue=ue, attack="tracker", hindsight=0) for name in ("beliefs", "tracking")
    )
    who = _of(run, "ues", ue=ue)
    round_s = run.manifest.round_s
    figure, both = plt.subplots(2, 1, figsize=(NARROW_IN, 3.8), sharex=True, layout="constrained")
    for axes, column, name in zip(both, ("x_m", "y_m"), ("east", "north"), strict=True):
        days = np.arange(0, run.manifest.duration_s + round_s, round_s) / 86400
        edges_m = np.arange(0, 2000, belief["cell_m"][0])
        middle, held_at = ((rows["time_s"] - round_s / 2) / 86400 for rows in (truth, belief))
        held, _, _ = np.histogram2d(
            held_at, belief[column], (days, edges_m), weights=belief["probability"]
        )
        held = np.where(held > 0, held, np.nan).T
        axes.pcolormesh(
            days, edges_m, held, cmap="Reds", norm=PowerNorm(0.5, 0, 1), rasterized=True
        )
        label = "true mean position of a round"
        axes.plot(middle, truth[f"truth_{column}"], "o", ms=3, mfc="w", mec="k", label=label)
        for place in ("home", "work"):
            axes.axhline(who[f"{place}_{column}"][0], color="0.5", lw=0.8, ls=":", zorder=0)
            axes.text(days[-1] + 0.08, who[f"{place}_{column}"][0], place, va="center")
        axes.set(ylabel=f"{name}, m", xlim=(0, days[-1]), ylim=(0, 1800))
    both[0].plot(
        [], [], "s", ms=9, color="#fb7050", label="belief of the filter (darker: likelier)"
    )
    both[1].set_xlabel("day")
    figure.legend(
        *both[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False
    )
    _save(figure, out)


STEPS = (
    ("move", "world", "city, mobility, trace-format, layout"),
    ("measure", "world", "path-loss, line-of-sight, shadowing, penetration, antenna, fading"),
    ("take", "UE", "data, partition"),
    ("ask", "server", "availability, query, pseudonyms"),
    ("hold back", "UE", "withholding"),
    ("curate", "UE", "curation"),
    ("learn", "UE", "learner, network, encoding, prior, optimiser, compute-spread"),
    ("plan", "world", "power, uplink, rate, scheduler"),
    ("protect", "UE", "defense (its UE half)"),
    ("send", "world", "(no slot: what the plan decodes arrives)"),
    ("merge", "server", "server, defense (its server half), aggregation, server-optimiser"),
    ("attack", "attacker", "attack, population, membership"),
    ("pay", "records", "(no slot: the ledger of epsilon)"),
    ("record", "records", "(no slot: only here truth meets estimates)"),
    ("netsim train", "records", "power-task, power-agent, reward"),
)
"""steps of a round, where each happens, and its slots"""
PLACES = {
    "world": "#e6e6e6",
    "UE": "#cfe3f5",
    "server": "#d5ecd0",
    "attacker": "#f8d3d0",
    "records": "white",
}


def slots(_: Path, out: Path) -> None:
    """The steps of a round from top to bottom, and the slots of each."""
    found = re.findall(
        r"[a-z][a-z-]+", ", ".join(re.sub(r"\(.*?\)", "", names) for _, _, names in STEPS)
    )
    assert set(found) == set(SLOTS), set(found) ^ set(SLOTS)
    row = 0.32
    box = (1.02, 0.22)
    at = 0.48
    figure = plt.figure(figsize=(NARROW_IN, row * (len(STEPS) + 2)))
    axes = figure.add_axes((0, 0, 1, 1))
    down_in = [row * (k + 1.7 + 0.4 * (k > 1) + 0.3 * (k > 13)) for k in range(len(STEPS))]
    arrow = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0}
    for y, above, (step, place, names) in zip(
        down_in, [None, *down_in[:-2], None], STEPS, strict=True
    ):
        shape = "round,pad=0,rounding_size=0.07"
        axes.add_patch(
            FancyBboxPatch((at, y - box[1] / 2), *box, shape, fc=PLACES[place], ec="0.5")
        )
        middle = at + box[0] / 2
        axes.text(middle, y, step, ha="center", va="center_baseline")
        if above is not None:
            axes.annotate(
                "", (middle, y - box[1] / 2), (middle, above + box[1] / 2), arrowprops=arrow
            )
        says = textwrap.fill(names, 46, break_on_hyphens=False)
        axes.text(
            at + box[0] + 0.12, y, says, va="center", color="0.4" if "no slot" in names else "k"
        )
    axes.plot([at, 0.3, 0.3], [down_in[-2], down_in[-2], down_in[2]], color="k", lw=1)
    axes.annotate("", (at, down_in[2]), (0.3, down_in[2]), arrowprops=arrow)
    axes.text(
        0.17, (down_in[2] + down_in[-2]) / 2, "next round", rotation=90, ha="center", va="center"
    )
    for x, place in zip((0.55, 1.2, 1.7, 2.4), PLACES, strict=False):
        axes.text(
            x,
            0.22,
            place,
            va="center",
            bbox={"boxstyle": "round", "fc": PLACES[place], "ec": "0.5"},
        )
    width, height = figure.get_size_inches()
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    _save(figure, out)


def replay(folder: Path, out: Path) -> None:
    """Frames of the map and its curve, from the first round to the end."""
    frames = 56
    # the first days slowly, since then most is known
    shares = np.concatenate(
        [np.linspace(0.0, 0.18, frames * 5 // 8), np.linspace(0.2, 1.0, frames * 3 // 8)]
    )
    with _page(folder, width=1180, height=1000, device_scale_factor=1) as page:
        end_s = page.evaluate("netsim.replay.then((r) => r.state().end_s)")
        taken = []
        for share in shares:
            page.evaluate("([s]) => netsim.replay.then((r) => r.seek(s))", [float(share * end_s)])
            page.wait_for_timeout(60)
            taken.append(_picture(page.locator("#replay").screenshot(), 760))
    durations = [140] * (len(taken) - 1) + [3000]
    taken[0].save(
        out,
        save_all=True,
        append_images=taken[1:],
        duration=durations,
        loop=0,
        quality=45,
        method=6,
    )


def page(folder: Path, out: Path) -> None:
    """The top of the page of a run: the answer and the table of results."""
    with _page(folder, width=780, height=1200, device_scale_factor=1.4) as opened:
        table = opened.locator("table").first.bounding_box()
        shown = {"x": 0, "y": 0, "width": 780, "height": table["y"] + table["height"] + 8}
        _picture(opened.screenshot(clip=shown), 1092).save(out, quality=70, method=6)


def town(folder: Path, out: Path) -> None:
    """The town with people's tracks; RSRP and SINR of the best server; their distributions indoors
    and outdoors."""
    run = load_finished_run(folder)
    study = load_study(folder / "study.yaml")
    streams = Streams(study.seed)
    world = build_world(study.world, streams, 86400.0)
    figure, axes = plt.subplots(2, 2, figsize=(9.4, 9.2), layout="constrained")
    _town(axes[0, 0], world, study.world.city.scenery(world.area, streams), run.tables["tracks"])
    coverage = run.tables["coverage"]
    _coverage(
        axes[0, 1],
        coverage,
        world,
        "rsrp_dbm",
        "RSRP of the best server outdoors, dBm",
        (-130, -60),
    )
    _coverage(
        axes[1, 0], coverage, world, "sinr_db", "SINR of the best server outdoors, dB", (-5, 25)
    )
    _distributions(axes[1, 1], run.tables["radio_cdf"])
    figure.savefig(out, dpi=110)


def _town(axes, world, scenery, tracks) -> None:
    for kind, ring_m in scenery:
        axes.fill(*ring_m.T, color=GROUND[kind], zorder=0)
    outlines = [rings[0] for rings in world.buildings.rings()]
    floors = world.buildings.height_m / 3
    axes.add_collection(
        PolyCollection(outlines, array=floors, cmap="Greys", clim=(-2, 14), linewidths=0, zorder=1)
    )
    graph = world.ground.graph
    for street_class, name in enumerate(CLASSES):
        colour, width = STREETS.get(name, ("0.7", 0.4))
        lines = np.split(graph.path.vertex_m, graph.path.first[1:-1])
        lines = [lines[k] for k in np.flatnonzero(graph.street_class == street_class)]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, zorder=2))
    axes.plot(*world.ground.premises.door_m.T, ",", color="0.35", zorder=3)
    for ue in range(0, 40, 5):
        mine = tracks["ue"] == ue
        axes.plot(tracks["x_m"][mine], tracks["y_m"][mine], lw=0.8, zorder=4)
    axes.plot(*np.array([b.position_m for b in world.stations]).T, "^", color="k", ms=6, zorder=5)
    _frame(axes, world, "Streets, buildings, doors; a week of eight of 40 people")


def _coverage(axes, table, world, column: str, title: str, limits: tuple[float, float]) -> None:
    x_m = np.unique(table["x_m"])
    y_m = np.unique(table["y_m"])
    grid = np.full((len(y_m), len(x_m)), np.nan)
    grid[np.searchsorted(y_m, table["y_m"]), np.searchsorted(x_m, table["x_m"])] = table[column]
    axes.set_facecolor("0.8")  # places in buildings
    area = world.area
    extent = (area.x_min_m, area.x_max_m, area.y_min_m, area.y_max_m)
    image = axes.imshow(grid, origin="lower", extent=extent, cmap="viridis", clim=limits)
    axes.figure.colorbar(image, ax=axes, shrink=0.7)
    axes.plot(*np.array([b.position_m for b in world.stations]).T, "^", color="k", ms=5)
    _frame(axes, world, title)


def _distributions(axes, table) -> None:
    for quantity, colour in (("sinr_db", "tab:blue"), ("geometry_db", "tab:orange")):
        for selection, style in (("indoor", "-"), ("outdoor", "--")):
            row = (table["quantity"] == quantity) & (table["selection"] == selection)
            label = f"{'SINR' if quantity == 'sinr_db' else 'geometry'}, {selection}"
            axes.plot(table["value"][row], table["percent"][row], style, color=colour, label=label)
    axes.set(
        xlim=(-25, 35),
        ylim=(0, 100),
        xlabel="dB",
        ylabel="% of samples at most",
        title="Distributions over a week",
    )
    axes.legend()
    axes.grid(color="0.9")


def _frame(axes, world, title: str) -> None:
    area = world.area
    axes.set(
        xlim=(area.x_min_m, area.x_max_m),
        ylim=(area.y_min_m, area.y_max_m),
        aspect="equal",
        title=title,
    )
    axes.set(xlabel="east, m", ylabel="north, m")


def _table(page: Path, *head: str) -> list[list[str]]:
    """Cells of the rows below the head of a table of a page, which begins with these words, without
    links and marks."""
    lines = page.read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("| " + " | ".join(head)))
    rows = lines[first + 2 : next(k for k in range(first, len(lines)) if not lines[k])]
    return [
        [
            re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", cell).strip()
            for cell in row.strip("|").split("|")
        ]
        for row in rows
    ]


def _number(cell: str) -> float:
    return float(re.search(r"-?[\d,]+(?:\.\d+)?", cell)[0].replace(",", ""))


def _of(run, table: str, **values):
    """Rows of a table with these values in its columns."""
    rows = run.tables[table]
    return select_rows(
        rows, np.logical_and.reduce([rows[name] == value for name, value in values.items()])
    )


def _at(rows, name: str = "") -> tuple[float, float]:
    """The place of the first row, east and north, m."""
    return float(rows[f"{name}x_m"][0]), float(rows[f"{name}y_m"][0])


def _place(axes, run, at: tuple[float, float], mark: str, label: str = "") -> None:
    """A true place, and the disc in which it counts as named."""
    axes.add_patch(Circle(at, run.hit_radius_m, fc="gold", alpha=0.45, lw=0))
    axes.plot(*at, mark, ms=11, mfc="none", mec="k", label=label)


def _map(axes) -> None:
    axes.set(aspect="equal", xlabel="east, m", ylabel="north, m")


def _save(figure, out: Path) -> None:
    """A narrow picture is shown larger than it is drawn: its letters are then those of a page."""
    figure.savefig(out, metadata={"Date": None})
    larger = max(1.0, SHOWN_IN / figure.get_figwidth())
    size = re.compile(r'(width|height)="([\d.]+)pt"')
    out.write_text(
        size.sub(
            lambda found: f'{found[1]}="{float(found[2]) * larger:g}pt"', out.read_text(), count=2
        )
    )


@contextmanager
def _page(folder: Path, **window) -> Iterator:
    """The page of a run in a browser."""
    tools = run_path(str(HERE.parent / "tests" / "browser.py"))
    with tools["started"]() as browser:
        yield tools["Pages"](browser)(write_report(folder), **window)


def _picture(png: bytes, width: int) -> Image.Image:
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    return picture.resize((width, round(picture.height * width / picture.width)), Image.LANCZOS)


RUNS = {
    "undefended": "run town --set learning.defenses=[]",
    "city": "run city",
    "commuter": (
        f"replay '{HERE.parent}/scenarios/examples/commuter.csv.gz' --cell campus --round 24h"
    ),
    "tracked": """run city --set world.ues.count=12 --set world.duration_s=432000
        --set learning.round_s=10800
        --set learning.data.hold_out_by=sample --set learning.server_optimiser.learning_rate=1
        --set 'learning.defenses=[{kind: clip, norm: 0.3},
        {kind: gaussian, noise_multiplier: 0.0003}]'
        --set 'learning.attacks=[{kind: tracker, own_places: true}, {kind: dwell}]'""",
    "town": "run cities/town",
}
PICTURES = {
    "leakage.svg": (leakage, "undefended"),
    "replay.webp": (replay, "city"),
    "commuter.svg": (commuter, "commuter"),
    "errors.svg": (errors, "city"),
    "page.webp": (page, "city"),
    "tracking.svg": (tracking, "tracked"),
    "town.png": (town, "town"),
    "slots.svg": (slots, "extending.md"),
    "published-defenses.svg": (published_defenses, "defenses.md"),
    "useful-maps.svg": (useful_maps, "defenses.md"),
    "crowd.svg": (crowd, "studies/crowd.md"),
}
"""file -> how it is drawn, and from which run or page"""


def _source(name: str) -> Path:
    """A page, or the folder of a run, which is played where it is not there."""
    if name not in RUNS:
        return HERE / name
    folder = Path("runs", "pictures", name)
    if not (folder / "report.html").exists() and main(
        [*shlex.split(RUNS[name]), "--quiet", "--out", str(folder)]
    ):
        sys.exit(f"no run in {folder}")
    return folder


if __name__ == "__main__":
    drawn = {file.split(".")[0]: file for file in PICTURES}
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("name", nargs="+", choices=list(drawn))
    plt.rcParams.update({"font.size": 8, "svg.hashsalt": "netsim"})
    for name in asked.parse_args().name:
        draw, source = PICTURES[drawn[name]]
        draw(_source(source), STATIC / drawn[name])
