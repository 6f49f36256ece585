"""Draw the picture of the README from a run: ``python docs/picture.py runs/town docs/_static/leakage.svg``.

The run is ``netsim run town --set learning.defenses=[] --out runs/town``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from scenarios.app.results.read import load

UE, ATTACK = 7, "closed-form"


def draw(folder: Path, out: Path) -> None:
    """Left: one UE's measurements and what the server infers. Right: distance from home to the estimates, by day."""
    run = load(folder)
    plt.rcParams.update({"font.size": 8, "svg.hashsalt": "netsim"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), width_ratios=[1.25, 1], layout="constrained")
    _map(left, run, folder)
    _time(right, run)
    figure.savefig(out, metadata={"Date": None})


def _map(axes, run, folder: Path) -> None:
    with np.load(folder / "points.npz") as points:
        true_m = points["position_m"][points["ue"] == UE]
    said, who = run.tables["estimates"], run.tables["ues"]
    mine = (said["ue"] == UE) & (said["attack"] == ATTACK)
    centre, place = mine & (said["quantity"] == "centroid"), mine & (said["quantity"] == "place")
    axes.plot(*true_m.T, ".", ms=2, color="0.7", label="measured at (never sent)", rasterized=True)
    axes.plot(said["x_m"][place], said["y_m"][place], "x", ms=5, mew=1, color="tab:red", label="places inferred")
    axes.plot(said["x_m"][centre], said["y_m"][centre], "+", ms=6, mew=1, color="tab:blue", label="centroids inferred")
    home = who["ue"] == UE
    axes.plot(who["home_x_m"][home], who["home_y_m"][home], "*", ms=13, mfc="none", mec="k", label="home")
    axes.plot(who["work_x_m"][home], who["work_y_m"][home], "s", ms=9, mfc="none", mec="k", label="work")
    axes.set(xlim=(0, 2400), ylim=(0, 1800), aspect="equal", xlabel="east, m", ylabel="north, m")
    axes.set_title("One UE, 21 daily updates, no defense")
    axes.legend(loc="upper right", fontsize=7)


def _time(axes, run) -> None:
    table = run.tables["leakage"]
    days = np.unique(table["round"])

    def over_ues(column: str, of) -> list[float]:
        return [float(of(table[column][table["round"] == day])) for day in days]

    axes.semilogy(days, over_ues("home_m", np.median), color="tab:red", label="attack, median of 12 UEs")
    axes.semilogy(days, over_ues("home_m", np.max), "--", color="tab:red", label="attack, safest UE")
    axes.semilogy(days, over_ues("guess_home_m", np.median), color="0.5", label="as many random guesses")
    axes.set(xlabel="day", ylabel="home to nearest estimate, m", title="All UEs, over time")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=7)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
