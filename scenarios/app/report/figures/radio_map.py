"""Figures of a radio map: true and learned obstacles, and the gradient of one UE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray
from scenarios.app.report.plot import Figure, Panel, axis, base_layout, color_bar, plain
from scenarios.app.results.statistics import counted

Grid = Mapping[str, NDArray[np.float64]]
_DECADES = 4.0  # of a gradient that have different colours
_SIDE, _GAP = 300, 70  # pixels
_COLUMNS = 3
_MOST = 12  # maps of a comparison


def run_panel(grid: Grid) -> list[Panel]:
    """The four maps of a run; nothing without a grid."""
    if not grid:
        return []
    top = max(float(grid["roof_m"].max(initial=0.0)), 1.0)
    maps = [
        _heatmap("true obstacles", grid["roof_m"], grid, 0.0, top, "m"),
        _heatmap("learned obstacles", grid["height_m"], grid, float(grid["height_m"].min()), top, "m"),
        _magnitude("gradient before any defense", grid["made"], grid),
        _magnitude("gradient as received", grid["sent"], grid),
    ]
    caption = (
        "Heights in metres above ground. Gradients are those of the first UE (white cross) in the last round: absolute "
        "value in decades below the largest cell, cut at four."
    )
    return [Panel("grid", "Map of obstacles, and the gradient of one UE", caption, heatmaps(maps))]


def comparison_panel(grids: Mapping[str, Grid]) -> list[Panel]:
    """The gradient that the server received under each label, one run of each."""
    some = {label: grid for label, grid in grids.items() if grid}
    if not some:
        return []
    maps = [_magnitude(label, grid["sent"], grid) for label, grid in list(some.items())[:_MOST]]
    more = f" Not drawn: {counted(len(some) - _MOST, 'more label')}." if len(some) > _MOST else ""
    caption = (
        "The gradient of the first UE (white cross) as the server received it in the last round of the first run of "
        f"each label: absolute value in decades below the largest cell.{more}"
    )
    return [Panel("grid", "Gradient of one UE under every label", caption, heatmaps(maps))]


def _magnitude(title: str, value: FloatArray, grid: Grid) -> tuple[str, Figure, Figure]:
    size = np.abs(value)
    largest = float(size.max(initial=0.0))
    share = np.divide(size, largest, out=np.zeros_like(size), where=largest > 0)
    decades = np.log10(np.maximum(share, 10.0**-_DECADES))
    return _heatmap(title, decades, grid, -_DECADES, 0.0, "decades")


def _heatmap(
    title: str, value: FloatArray, grid: Grid, low: float, high: float, unit: str
) -> tuple[str, Figure, Figure]:
    """Title, map, and the cross where the UE is."""
    west, south, east, north = grid["area_m"]
    ny, nx = value.shape
    heat: Figure = {
        "type": "heatmap", "z": [[float(f"{v:.3g}") for v in row] for row in value], "zmin": low, "zmax": high,
        "x0": west + (east - west) / nx / 2, "dx": (east - west) / nx,
        "y0": south + (north - south) / ny / 2, "dy": (north - south) / ny,
        "colorscale": "Viridis", "name": plain(title), "showlegend": False,
        "colorbar": {"title": {"text": unit, "font": {"size": 11}}, "tickfont": {"size": 11}},
        "hovertemplate": "%{x:.0f} m east, %{y:.0f} m north: %{z:.3~r} " + unit,
    }  # fmt: skip
    x, y = grid["place_m"]
    cross: Figure = {
        "type": "scatter", "mode": "markers", "x": [float(x)], "y": [float(y)], "name": "UE", "showlegend": False,
        "marker": {"symbol": "x", "size": 10, "color": "#ffffff", "line": {"color": "#000000", "width": 1}},
        "hoverinfo": "name",
    }  # fmt: skip
    return title, heat, cross


def heatmaps(maps: Sequence[tuple[str, Figure, Figure]], side: int = _SIDE) -> Figure:
    """Maps of equal size (title, map, marks on it), three a row, each with a scale of its own range.

    side : height of a map, pixels.
    """
    columns = min(_COLUMNS, len(maps)) if len(maps) != 4 else 2
    rows = -(-len(maps) // columns)
    layout, data = base_layout(), list[Figure]()
    inner = rows * side + (rows - 1) * _GAP
    for k, (title, heat, cross) in enumerate(maps):
        row, column = divmod(k, columns)
        tail = str(k + 1) if k else ""
        width = 1.0 / columns
        top = 1.0 - row * (side + _GAP) / inner
        x_domain = [column * width, column * width + 0.78 * width]
        layout[f"xaxis{tail}"] = {**axis(), "domain": x_domain, "anchor": f"y{tail}", "constrain": "domain"}
        layout[f"yaxis{tail}"] = {
            **axis(), "domain": [max(top - side / inner, 0.0), top], "anchor": f"x{tail}",
            "scaleanchor": f"x{tail}", "constrain": "domain",
        }  # fmt: skip
        scale = color_bar(x_domain[1], top, side / inner) | heat["colorbar"]
        both = ({**heat, "colorbar": scale}, cross)
        data += [{"xaxis": f"x{tail}", "yaxis": f"y{tail}", **trace} for trace in both]
        layout["annotations"].append(
            {"text": f"<b>{plain(title)}</b>", "x": x_domain[0], "y": top, "xref": "paper", "yref": "paper",
             "yshift": 3, "xanchor": "left", "yanchor": "bottom", "showarrow": False}
        )  # fmt: skip
    layout |= {"height": inner + 120, "margin": {"l": 60, "r": 25, "t": 60, "b": 60}, "hovermode": "closest"}
    return {"data": data, "layout": layout}
