"""The chapter that replays an episode of a training: the agent and the best rule side by side, round by round."""

from __future__ import annotations

import html
from math import isnan, log10
from typing import Any

import numpy as np

from scenarios.app.report.html import Chapter, Mark, folded_parts, table
from scenarios.app.report.packed import packed
from scenarios.app.report.plot import PALETTE, Cell, Look, Panel, line, mosaic
from scenarios.app.results.episode import TERMS, EpisodeRead
from scenarios.app.results.statistics import counted, figure_text

SCRIPTS, STYLES, DATA = ("episode.js",), ("episode.css",), "episode-data"
_MOST_TABLE_ROWS = 2000  # of UEs
_AWAY, _SILENT, _LOST, _ARRIVED = 0, 1, 2, 3


def episode_chapter(episode: EpisodeRead | None, seed: Any) -> tuple[Chapter, dict[str, str]]:
    """The chapter, empty without an episode, and its data by id."""
    if episode is None or not episode.numbers:
        return Chapter("episode", "Episode", []), {}
    parts: list[str | Panel] = [_small(_reading(episode, seed)), _stage(episode), _costs(episode)]
    parts += [_rounds(episode), _of_ues(episode)]
    return Chapter("episode", "Episode", parts), {DATA: _data(episode)}


def _reading(episode: EpisodeRead, seed: Any) -> list[str]:
    """What is seen, and what was left out."""
    agent, rule = episode.policies
    scene, shown = episode.scene, {int(row["ue"]) for rows in episode.ues.values() for row in rows}
    lines = [
        f"One held-out world, as it was played with {agent} (seed {seed}) and, from the same beginning, with {rule}, "
        "the rule of least mean cost in these worlds. A UE is a circle, the larger and brighter the more power it "
        "sends with; a cross is an update that was lost, an empty circle a UE that sent nothing. Triangles are base "
        "stations, a diamond is the eavesdropper."
    ]
    if len(shown) < scene["ues"]:
        lines.append(f"Of {counted(int(scene['ues']), 'UE')} {len(shown)} are shown, evenly spaced by number.")
    if len(episode.numbers) < scene["rounds"]:
        lines.append(f"Of {counted(int(scene['rounds']), 'round')} {len(episode.numbers)} are shown, evenly spaced.")
    return lines


def _small(sentences: list[str]) -> str:
    return f'<p class="caption">{html.escape(" ".join(sentences))}</p>'


def _dbm(power_w: float) -> float:
    return 10.0 * log10(max(power_w, 1e-30)) + 30.0


def _level(dbm: float) -> str:
    return f"{dbm:.0f} dBm".replace("-", "\u2212")


def _stage(episode: EpisodeRead) -> str:
    """Two maps, a scale of powers, and what moves through the rounds. Coordinates are metres east and south."""
    low, high = (_dbm(w) for w in episode.scene["limits_w"])
    last = len(episode.numbers) - 1
    maps = "".join(
        f'<figure class="side"><h3>{html.escape(name)}</h3>{_map(episode.scene, name, i)}'
        f'<p class="terms" id="episode-terms-{i}"></p></figure>'
        for i, name in enumerate(episode.policies)
    )
    icon = (
        '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path class="start" d="M4 2 14 8 4 14Z"/>'
        '<path class="stop" d="M3 2h4v12H3zM9 2h4v12H9z"/></svg>'
    )
    return (
        f'<div class="episode" id="episode-stage" hidden><div class="maps">{maps}</div>'
        '<div class="transport"><button type="button" id="episode-back" aria-label="round before">&#8249;</button>'
        f'<button type="button" id="episode-play" class="play" aria-label="play" aria-pressed="false">{icon}</button>'
        '<button type="button" id="episode-on" aria-label="next round">&#8250;</button>'
        f'<input type="range" id="episode-round" min="0" max="{last}" value="0" aria-label="round"></div>'
        '<p class="now" id="episode-now" role="status"></p>'
        '<div class="scale"><span class="bar" id="episode-scale"></span><span class="ends">'
        f"<span>{_level(low)}</span><span>transmit power</span><span>{_level(high)}</span></span></div>"
        '<p class="keys">Keys in the maps or on the slider: arrows one round, Home and End to the first and the last, '
        "space plays.</p></div>"
    )


def _map(scene: dict[str, Any], name: str, i: int) -> str:
    """Buildings, base stations, the eavesdropper; UEs come by script."""
    west, south, east, north = scene["area_m"]
    unit = max(east - west, north - south) / 100
    walls = "".join("M" + "L".join(f"{x:.1f} {-y:.1f}" for x, y in ring) + "Z" for ring in scene["buildings_m"] if ring)
    stations = "".join(
        f'<path class="station" d="M{b["at_m"][0]:.1f} {-b["at_m"][1] - 2 * unit:.1f}l{1.8 * unit:.2f} {3.2 * unit:.2f}'
        f'h{-3.6 * unit:.2f}Z"><title>base station {html.escape(str(b["name"])[:100])}</title></path>'
        for b in scene["stations"]
    )
    listener = ""
    if scene["eavesdropper_m"] is not None:
        x, y = scene["eavesdropper_m"]
        listener = (
            f'<path class="listener" d="M{x:.1f} {-y - 2 * unit:.1f}l{2 * unit:.2f} {2 * unit:.2f}'
            f'{-2 * unit:.2f} {2 * unit:.2f}{-2 * unit:.2f} {-2 * unit:.2f}Z"><title>eavesdropper</title></path>'
        )
    margin = 3 * unit
    box = f"{west - margin:.1f} {-north - margin:.1f} {east - west + 2 * margin:.1f} {north - south + 2 * margin:.1f}"
    return (
        f'<svg class="world" viewBox="{box}" role="img" tabindex="0" aria-label="Map of the UEs, {html.escape(name)}" '
        f'aria-describedby="episode-now"><rect class="area" x="{west:.1f}" y="{-north:.1f}" '
        f'width="{east - west:.1f}" height="{north - south:.1f}"/><path class="walls" fill-rule="evenodd" d="{walls}"/>'
        f'{stations}{listener}<g id="episode-ues-{i}" data-unit="{unit:.3f}"></g></svg>'
    )


def _data(episode: EpisodeRead) -> str:
    """What the script draws: of every policy, round and UE its place, base station, power and fate."""
    numbers, names = episode.numbers, [str(b["name"])[:100] for b in episode.scene["stations"]]
    ues = sorted({int(row["ue"]) for rows in episode.ues.values() for row in rows})
    shape = (len(episode.policies), len(numbers), len(ues))
    at_m, power_dbm = np.zeros((*shape, 2), dtype=np.float32), np.zeros(shape, dtype=np.float32)
    own, fate, station = (np.zeros(shape, dtype=t) for t in (np.float32, np.uint8, np.int16))
    column = {ue: k for k, ue in enumerate(ues)}
    for p, policy in enumerate(episode.policies):
        for t, number in enumerate(numbers):
            for row in episode.ues.get((policy, number), []):
                at = (p, t, column[int(row["ue"])])
                at_m[at] = [np.nan_to_num(row["x_m"]), -np.nan_to_num(row["y_m"])]
                fate[at] = _fate(row)
                power_dbm[at] = 0.0 if isnan(row["power_w"]) else _dbm(row["power_w"])
                own[at] = np.nan_to_num(row["cost"])
                station[at] = names.index(row["base_station"]) if row["base_station"] in names else -1
    terms = [
        [[_term(key, value) for key, value in episode.terms(p, n).items()] for n in numbers] for p in episode.policies
    ]
    whole = [[episode.rounds[p, n] for n in numbers] for p in episode.policies]
    arrived = [[[f"{row[c]:.0f}" for c in ("arrived", "sent")] for row in rows] for rows in whole]
    costs = [[figure_text(row["cost"]) for row in rows] for rows in whole]
    meta = {
        "rounds": numbers, "policies": episode.policies, "ues": ues, "terms": terms, "costs": costs,
        "arrived": arrived, "range_dbm": [_dbm(w) for w in episode.scene["limits_w"]],
        "station_names": names,
        "station_m": [[b["at_m"][0], -b["at_m"][1]] for b in episode.scene["stations"]],
    }  # fmt: skip
    return packed(meta, {"at": at_m, "power": power_dbm, "own": own, "fate": fate, "station": station})


def _fate(row: dict[str, Any]) -> int:
    if isnan(row["x_m"]) or isnan(row["y_m"]):
        return _AWAY
    if isnan(row["power_w"]):
        return _SILENT
    return _ARRIVED if row["arrived"] == 1.0 else _LOST


def _term(key: str, value: float) -> str:
    return f"{TERMS[key]} {figure_text(value)}"


def _costs(episode: EpisodeRead) -> Panel:
    """Cost of every round under both."""
    drawn = [
        line(Look(name, color), episode.numbers, np.array([episode.rounds[name, n]["cost"] for n in episode.numbers]))
        for name, color in zip(episode.policies, PALETTE, strict=False)
    ]
    caption = "Lower is better: weighted cost of each round of the episode."
    return Panel(
        "episode-costs", "Cost of the rounds", caption, mosaic([Cell("cost", drawn)], {"title": {"text": "round"}})
    )


def _rounds(episode: EpisodeRead) -> str:
    """The rounds as a table: cost and its terms under both."""
    weights = [key for key, weight in episode.scene["weights"].items() if weight]
    head = ["round"]
    for name in episode.policies:
        head += [f"{name}: cost", *(TERMS[key] for key in weights), "arrived"]
    rows = []
    for n in episode.numbers:
        cells = [Mark(str(n), float(n))]
        for name in episode.policies:
            terms, whole = episode.terms(name, n), episode.rounds[name, n]
            cells += [Mark(figure_text(v), v) for v in (whole["cost"], *(terms[key] for key in weights))]
            cells.append(Mark(f"{whole['arrived']:.0f} of {whole['sent']:.0f}", whole["arrived"]))
        rows.append(cells)
    return folded_parts("Rounds as a table", table("Weighted terms of the cost of each round", head, rows, texts=(0,)))


def _of_ues(episode: EpisodeRead) -> str:
    """UEs as a table, as far as a page has room."""
    rows = list[list[Mark | str]]()
    head = ["round", "UE", *(f"{name}: {what}" for name in episode.policies for what in ("power, dBm", "update"))]
    words = {_AWAY: "away", _SILENT: "sent nothing", _LOST: "lost", _ARRIVED: "arrived"}
    for n in episode.numbers:
        both = [{int(r["ue"]): r for r in episode.ues.get((name, n), [])} for name in episode.policies]
        for ue in sorted(set(both[0]) & set(both[1])):
            cells: list[Mark | str] = [Mark(str(n), float(n)), Mark(str(ue), float(ue))]
            for row in (own[ue] for own in both):
                power = float("nan") if isnan(row["power_w"]) else _dbm(row["power_w"])
                cells += [Mark(figure_text(power), power), words[_fate(row)]]
            rows.append(cells)
    title = "Powers and updates of the UEs"
    if len(rows) > _MOST_TABLE_ROWS:
        title += f", the first {_MOST_TABLE_ROWS:,} of {len(rows):,} rows (all: episode.csv)"
    return folded_parts("UEs as a table", table(title, head, rows[:_MOST_TABLE_ROWS], texts=(3, 5)))
