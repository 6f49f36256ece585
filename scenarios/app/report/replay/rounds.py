"""What happens in rounds: transmissions, true centroids, estimates of attacks, and the places that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.units import FloatArray, IntArray
from scenarios.app.report.replay.grid import NOWHERE, Grid, Numbers, pointers, steps
from scenarios.app.report.replay.links import link_arrays, sent
from scenarios.app.results.run import Run, Table, where

MOST_LINKS, MOST_ESTIMATES, MOST_NAMED = 200_000, 300_000, 200_000
MOST_MODELS = 65_536  # that updates and estimates are told apart by
_COLUMNS = {
    "updates": ("model", "x_m", "y_m"),
    "estimates": ("attack", "model", "quantity", "x_m", "y_m"),
    "leakage": (
        "attack", "home_named_m", "work_named_m", "named_x_m", "named_y_m", "second_x_m", "second_y_m",
    ),
}  # fmt: skip
KINDS = ("centroid", "place")
"""quantities of estimates that are drawn; the places that attacks name at the end of a round are named places"""


@dataclass(frozen=True, eq=False)
class Rounds:
    """Numbers of the rounds (n,), when the server asked for updates, and when all attacks up to then had run."""

    number: FloatArray
    asked_s: FloatArray
    told_s: FloatArray

    @classmethod
    def of(cls, run: Run) -> Rounds:
        """Of the rounds that were played."""
        rows = run.tables["rounds"]
        known = np.isfinite(rows["round"]) & np.isfinite(rows["requested_s"])
        number, first = np.unique(rows["round"][known], return_index=True)
        asked_s = rows["requested_s"][known][first]
        asked = cls(number, asked_s, asked_s.copy())
        for table in ("rounds", "leakage", "estimates"):
            events = run.rows(table)
            at = asked.of_rows(events)
            np.maximum.at(asked.told_s, at[at >= 0], events["time_s"][at >= 0])
        np.maximum.accumulate(asked.told_s, out=asked.told_s)
        return asked

    def of_rows(self, rows: Table) -> IntArray:
        """The index of the round of each row (n,), -1 for none."""
        if not len(self.number):
            return np.full(len(rows["round"]), -1)
        at = np.minimum(np.searchsorted(self.number, rows["round"]), len(self.number) - 1)
        return np.where(self.number[at] == rows["round"], at, -1)


@dataclass(frozen=True)
class Drawn:
    """What of the rounds is drawn: the places of the first n_ue UEs; transmissions and estimates of the first
    `detailed` of them; named places of every `stride`-th round; and how many estimates lie beyond the map.
    """

    n_ue: int
    detailed: int
    stride: int
    beyond: int


def round_arrays(
    run: Run, rounds: Rounds, grid: Grid, n_ue: int, attacks: Sequence[str], cells: dict[str, int]
) -> tuple[dict[str, Numbers], dict[str, Any], Drawn]:
    """Arrays in order of (attack,) UE and time, their scales, and what was left out; cells: names and their index."""
    n_attack = len(attacks)
    links = sent(run, n_ue)
    updates, estimates = (
        _sorted(rows, _COLUMNS[name], n_ue, rounds)
        for name, rows in (("updates", run.tables["updates"]), ("estimates", run.rows("estimates")))
    )
    estimates = _of_attacks(estimates, attacks)
    estimates = where(estimates, np.isin(estimates["quantity"], KINDS))
    detailed = min(
        n_ue,
        _first_ues(links["ue"], n_ue, MOST_LINKS),
        _first_ues(updates["ue"], n_ue, MOST_LINKS),
        _first_ues(estimates["ue"], n_ue, MOST_ESTIMATES),
    )
    links, updates, estimates = (where(rows, rows["ue"] < detailed) for rows in (links, updates, estimates))
    on_air, scales = link_arrays(links, n_ue, cells, float(run.manifest["duration_s"]))
    guessed, beyond = _estimates(estimates, updates, grid, n_attack, n_ue)
    named, stride = _named(run, rounds, grid, attacks, n_ue)
    x, y = grid.cells(np.column_stack([updates["x_m"], updates["y_m"]]))
    truth = {
        "update_ptr": steps(pointers(updates["ue"], n_ue)), "update_round": steps(updates["at"].astype(np.uint32)),
        "update_x": steps(x), "update_y": steps(y),
    }  # fmt: skip
    return truth | on_air | guessed | named, scales, Drawn(n_ue, detailed, stride, beyond)


def _sorted(rows: Table, columns: Sequence[str], n_ue: int, rounds: Rounds) -> Table:
    """Columns of the first UEs in rounds that were played, by UE and round (`at`: its index)."""
    at = rounds.of_rows(rows)
    known = (at >= 0) & (rows["ue"] >= 0) & (rows["ue"] < n_ue)
    kept = {"at": at[known]} | {k: rows[k][known] for k in ("ue", *columns)}
    kept["ue"] = kept["ue"].astype(np.int64)
    order = np.lexsort((kept.get("model", kept["at"]), kept["at"], kept["ue"]))
    return where(kept, order)


def _of_attacks(rows: Table, attacks: Sequence[str]) -> Table:
    """The same by attack first (`attack_index`)."""
    index = np.full(len(rows["ue"]), -1)
    for k, name in enumerate(attacks):
        index[rows["attack"] == name] = k
    order = np.argsort(index, kind="stable")
    order = order[index[order] >= 0]
    return where(rows | {"attack_index": index}, order)


def _first_ues(ue: IntArray, n_ue: int, most: int) -> int:
    """How many UEs, from the first on, have together at most so many rows; at least one."""
    return max(1, int(np.searchsorted(np.cumsum(np.bincount(ue, minlength=n_ue)), most, side="right")))


def _estimates(rows: Table, updates: Table, grid: Grid, n_attack: int, n_ue: int) -> tuple[dict[str, Numbers], int]:
    """Estimates and the update that each is about, and how many lie beyond the map."""
    x, y = grid.cells(np.column_stack([rows["x_m"], rows["y_m"]]))
    there = x != NOWHERE
    beyond = int((~there & np.isfinite(rows["x_m"]) & np.isfinite(rows["y_m"])).sum())
    kept = where(rows, there)
    return {
        "estimate_ptr": steps(pointers(kept["attack_index"] * n_ue + kept["ue"], n_attack * n_ue)),
        "estimate_round": steps(kept["at"].astype(np.uint32)),
        "estimate_of": steps(_about(kept, updates)),
        "estimate_x": steps(x[there]),
        "estimate_y": steps(y[there]),
    }, beyond


def _about(rows: Table, updates: Table) -> Numbers:
    """Indices (n,) of the updates that estimates are about; the largest number for one that was not recorded."""
    none = np.iinfo(np.uint32).max
    if not len(updates["ue"]):
        return np.full(len(rows["ue"]), none, dtype=np.uint32)
    model = [np.clip(np.nan_to_num(t["model"]), 0, MOST_MODELS - 1).astype(np.int64) for t in (rows, updates)]
    last = int(max(np.max(t["at"], initial=0) for t in (rows, updates))) + 1
    of, known = ((t["ue"] * last + t["at"]) * MOST_MODELS + k for t, k in zip((rows, updates), model, strict=True))
    at = np.minimum(np.searchsorted(known, of), len(known) - 1)
    return np.where(known[at] == of, at, none).astype(np.uint32)


def _named(run: Run, rounds: Rounds, grid: Grid, attacks: Sequence[str], n_ue: int) -> tuple[dict[str, Numbers], int]:
    """The at most two places that attacks name of UEs, wherever they change, and of every how many-th round."""
    rows = _of_attacks(_sorted(run.rows("leakage"), _COLUMNS["leakage"], n_ue, rounds), attacks)
    owner = rows["attack_index"] * n_ue + rows["ue"]
    last = np.append((owner[1:] != owner[:-1]) | (rows["at"][1:] != rows["at"][:-1]), True)[: len(owner)]
    rows, owner = where(rows, last), owner[last]  # one of all models
    hit = sum(
        (np.nan_to_num(rows[f"{place}_named_m"], nan=np.inf) <= run.near_m) * bit
        for place, bit in (("home", 1), ("work", 2))
    )
    first, second = (
        grid.cells(np.column_stack([rows[f"{which}_x_m"], rows[f"{which}_y_m"]])) for which in ("named", "second")
    )
    if not ((first[0] != NOWHERE) | (second[0] != NOWHERE)).any():
        return {}, 1
    state = np.column_stack([owner, *first, *second, hit])
    n_rounds = max(len(rounds.number), 1)
    for stride in range(1, n_rounds + 1):
        shown = _of_every(rows["at"], owner, stride)
        changed = shown[np.append(True, (state[shown][1:] != state[shown][:-1]).any(axis=1))[: len(shown)]]
        if len(changed) <= MOST_NAMED:
            break
    return {
        "named_ptr": steps(pointers(owner[changed], len(attacks) * n_ue)),
        "named_round": steps(rows["at"][changed].astype(np.uint32)),
        "named_x": steps(first[0][changed]), "named_y": steps(first[1][changed]),
        "second_x": steps(second[0][changed]), "second_y": steps(second[1][changed]),
        "named_hit": state[changed][:, -1].astype(np.uint8),
    }, stride  # fmt: skip


def _of_every(at: IntArray, owner: IntArray, stride: int) -> IntArray:
    """Rows of every stride-th round, and the last of each owner."""
    last = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
    return np.flatnonzero((at % stride == 0) | last)
