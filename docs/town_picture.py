"""Draw a radio study of a town: ``python docs/town_picture.py runs/cities/town/1 docs/_static/town.png``.

The run is ``netsim run cities/town``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection

from netsim.build import build_world
from netsim.rng import Streams
from netsim.streets.graph import CLASSES
from scenarios.app.results.read import load
from scenarios.app.study.load import load as load_study

GROUND = {"water": "#a8cbe6", "green": "#c8e2b5"}
STREETS = {"primary": ("#d08a2a", 1.4), "secondary": ("#d08a2a", 0.9), "pedestrian": ("#b05a9a", 0.7)}


def draw(folder: Path, out: Path) -> None:
    """The town with people's tracks; RSRP and SINR of the best server; their distributions indoors and outdoors."""
    run, study = load(folder), load_study(folder / "study.yaml")
    streams = Streams(study.seed)
    world = build_world(study.world, streams, 86400.0)
    plt.rcParams.update({"font.size": 8})
    figure, axes = plt.subplots(2, 2, figsize=(9.4, 9.2), layout="constrained")
    _town(axes[0, 0], world, study.world.city.scenery(world.area, streams), run.tables["tracks"])
    _coverage(
        axes[0, 1], run.tables["coverage"], world, "rsrp_dbm", "RSRP of the best server outdoors, dBm", (-130, -60)
    )
    _coverage(axes[1, 0], run.tables["coverage"], world, "sinr_db", "SINR of the best server outdoors, dB", (-5, 25))
    _distributions(axes[1, 1], run.tables["radio_cdf"])
    figure.savefig(out, dpi=110)


def _town(axes, world, scenery, tracks) -> None:
    for kind, ring_m in scenery:
        axes.fill(*ring_m.T, color=GROUND[kind], zorder=0)
    outlines = [rings[0] for rings in world.buildings.rings()]
    floors = world.buildings.height_m / 3
    axes.add_collection(PolyCollection(outlines, array=floors, cmap="Greys", clim=(-2, 14), linewidths=0, zorder=1))
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
    x_m, y_m = np.unique(table["x_m"]), np.unique(table["y_m"])
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
        xlim=(-25, 35), ylim=(0, 100), xlabel="dB", ylabel="% of samples at most", title="Distributions over a week"
    )
    axes.legend()
    axes.grid(color="0.9")


def _frame(axes, world, title: str) -> None:
    area = world.area
    axes.set(xlim=(area.x_min_m, area.x_max_m), ylim=(area.y_min_m, area.y_max_m), aspect="equal", title=title)
    axes.set(xlabel="east, m", ylabel="north, m")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
