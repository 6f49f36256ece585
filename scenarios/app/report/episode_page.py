"""The chapter that replays an episode of a training: the agent and the best rule side by side, round by round."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from scenarios.app.report.html import Chapter, asset
from scenarios.app.report.packed import packed
from scenarios.app.report.plot import PALETTE, Cell, Look, Panel, line, mosaic
from scenarios.app.results.episode import TERMS, EpisodeRead
from scenarios.app.results.statistics import counted

SCRIPTS, STYLES, DATA = ("episode.js",), ("episode.css",), "episode-data"
_OF_UES = ("policy", "round", "ue", "x_m", "y_m", "base_station", "power_w", "arrived", "cost")
_OF_ROUNDS = ("policy", "round", "cost", "arrived", "sent")


def episode_chapter(episode: EpisodeRead | None, seed: Any) -> tuple[Chapter, dict[str, str]]:
    """The chapter, empty without an episode, and its data by id."""
    if episode is None or not episode.numbers:
        return Chapter("episode", "Episode", []), {}
    agent, rule = episode.policies
    shown = len({row["ue"] for of in episode.ues.values() for row in of})
    said = (
        f"One held-out world, as it was played with {agent} (seed {seed}) and, from the same beginning, with {rule}, "
        "the rule of least mean cost in these worlds. A UE is a circle, the larger and brighter the more power it "
        "sends with; a cross is an update that was lost, an empty circle a UE that sent nothing. Triangles are base "
        "stations, a diamond is the eavesdropper."
    )
    for drawn, all_of, what in (
        (shown, episode.scene["ues"], "UE"),
        (len(episode.numbers), episode.scene["rounds"], "round"),
    ):
        if drawn < all_of:
            said += f" Of {counted(int(all_of), what)} {drawn} are shown, evenly spaced."
    stations = [str(station["name"]) for station in episode.scene["stations"]]
    ues = [row | {"policy": p, "round": n} for (p, n), of in sorted(episode.ues.items()) for row in of]
    rounds = [episode.rounds[p, n] | {"policy": p, "round": n} for p in episode.policies for n in episode.numbers]
    names = {"policy": episode.policies, "base_station": stations}

    frames = {"ues": (ues, _OF_UES), "rounds": (rounds, (*_OF_ROUNDS, *episode.scene["weights"]))}
    arrays = {
        f"{name}.{column}": np.array([_number(row[column], names.get(column)) for row in rows], dtype=np.float32)
        for name, (rows, of) in frames.items() for column in of
    }  # fmt: skip
    meta = {"scene": episode.scene, "policies": episode.policies, "rounds": episode.numbers, "terms": TERMS}
    parts: list[str | Panel] = [
        f'<p class="caption">{html.escape(said)}</p>',
        asset("episode.html"),
        _costs(episode),
    ]
    return Chapter("episode", "Episode", parts), {DATA: packed(meta, arrays)}


def _costs(episode: EpisodeRead) -> Panel:
    """Cost of every round under both."""
    drawn = [
        line(Look(name, color), episode.numbers, np.array([episode.rounds[name, n]["cost"] for n in episode.numbers]))
        for name, color in zip(episode.policies, PALETTE, strict=False)
    ]
    figure = mosaic([Cell("cost", drawn)], {"title": {"text": "round"}})
    return Panel("episode-costs", "Cost of the rounds", "Lower is better: weighted cost of each round.", figure)


def _number(value: Any, names: Sequence[str] | None) -> float:
    """A number as it is, a text as its index in `names`, -1 for others."""
    if names is None:
        return float(value)
    return names.index(value) if value in names else -1
