"""The episode of a training, read back: one world under the agent and under the best rule."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from math import isfinite, isinf
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.record import unguarded
from netsim.safe import what_is
from scenarios.app.results.folder import read_json, text_of
from scenarios.app.results.training_folder import (
    EPISODE,
    EPISODE_ROUND_COLUMNS,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EPISODE_UE_COLUMNS,
    MOST_ROUNDS,
    MOST_UES,
)
from scenarios.app.study.yaml_document import one_line

TERMS = {
    "noise": "noise", "loss": "loss", "leakage": "leakage", "lost": "lost updates", "leak": "leak",
    "energy_j": "energy",
}  # fmt: skip
"""figures of a round, and what pages call what they cost"""
_TEXTS = ("policy", "base_station")
_COUNTS, _MOST_COUNTED = ("round", "ue", "sent"), 1e9
_MOST_CORNERS, _MOST_STATIONS = 100_000, 10_000


@dataclass(frozen=True)
class EpisodeRead:
    """The scene, and rows by policy and round: of UEs, and of the round as a whole."""

    scene: dict[str, Any]
    ues: dict[tuple[str, int], list[dict[str, Any]]]
    rounds: dict[tuple[str, int], dict[str, Any]]

    @property
    def policies(self) -> list[str]:
        """The agent, and the rule beside it."""
        return [str(name) for name in self.scene["policies"]]

    @property
    def numbers(self) -> list[int]:
        """Rounds that both have."""
        return sorted({n for _, n in self.rounds if all((p, n) in self.rounds for p in self.policies)})

    def terms(self, policy: str, number: int) -> dict[str, float]:
        """Weighted terms of the cost of a round, those that count."""
        row, weights = self.rounds[policy, number], self.scene["weights"]
        return {key: weight * row[key] for key, weight in weights.items() if weight}


def read_episode(folder: Path) -> EpisodeRead | None:
    """The episode of a training; None where it has none. BadInput: the file that is damaged."""
    if not what_is(folder / EPISODE_SCENE):
        return None
    path = folder / EPISODE_SCENE
    try:
        scene = _checked(read_json(path))
        path = folder / EPISODE
        ues = dict[tuple[str, int], list[dict[str, Any]]]()
        for row in _rows(path, EPISODE_UE_COLUMNS, 2 * MOST_UES * MOST_ROUNDS):
            ues.setdefault((row["policy"], int(row["round"])), []).append(row)
        path = folder / EPISODE_ROUNDS
        rounds = {
            (row["policy"], int(row["round"])): row for row in _rows(path, EPISODE_ROUND_COLUMNS, 2 * MOST_ROUNDS)
        }
        if set(ues) - set(rounds) or {name for name, _ in rounds} != set(scene["policies"]):
            raise ValueError("its policies and rounds are not those of the other tables")
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        said = " ".join(str(getattr(error, "strerror", None) or error).split())[:120]
        raise BadInput(one_line(f"{path}: damaged ({said}); train again")) from None
    return EpisodeRead(scene, ues, rounds)


def _rows(path: Path, columns: tuple[str, ...], most: int) -> list[dict[str, Any]]:
    """Rows of a table, numbers as such, NaN for empty cells."""
    with text_of(path) as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != columns:
            raise ValueError(f"its columns are not {', '.join(columns)}")
        rows = list[dict[str, Any]]()
        for row in reader:
            if len(rows) == most:
                raise ValueError(f"more than {most:,} rows")
            if None in row or None in row.values():
                raise ValueError(f"row {len(rows) + 1} has not {len(columns)} cells")
            rows.append({k: unguarded(v)[:100] if k in _TEXTS else float(v or "nan") for k, v in row.items()})
    for row in rows:
        if any(name in row and not 0 <= row[name] < _MOST_COUNTED for name in _COUNTS):
            raise ValueError(f"{', '.join(_COUNTS)} are numbers from 0 on")
        if any(isinf(value) for value in row.values() if isinstance(value, float)):
            raise ValueError("a number is infinite")
    return rows


def _checked(scene: dict[str, Any]) -> dict[str, Any]:
    """A scene whose numbers are numbers, and not too many."""
    _numbers(scene["area_m"], 4)
    _numbers(scene["limits_w"], 2)
    if scene["area_m"][0] >= scene["area_m"][2] or scene["area_m"][1] >= scene["area_m"][3]:
        raise ValueError("area_m is empty")
    if not 0 < scene["limits_w"][0] <= scene["limits_w"][1]:
        raise ValueError("limits_w are not two powers")
    if scene["eavesdropper_m"] is not None:
        _numbers(scene["eavesdropper_m"], 2)
    if len(scene["stations"]) > _MOST_STATIONS or sum(map(len, scene["buildings_m"])) > _MOST_CORNERS:
        raise ValueError("too many base stations or buildings")
    for at_m in [b["at_m"] for b in scene["stations"]] + [c for ring in scene["buildings_m"] for c in ring]:
        _numbers(at_m, 2)
    if len(scene["policies"]) != 2 or not all(isinstance(name, str) for name in scene["policies"]):
        raise ValueError("policies are not two names")
    if set(scene["weights"]) != set(TERMS):
        raise ValueError(f"weights are not those of {', '.join(TERMS)}")
    _numbers(list(scene["weights"].values()), len(TERMS))
    _numbers([scene["ues"], scene["rounds"], scene["world"]], 3)
    return scene


def _numbers(values: Any, n: int) -> None:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"{n} numbers are expected")
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and isfinite(x) for x in values):
        raise ValueError("a number is expected")
