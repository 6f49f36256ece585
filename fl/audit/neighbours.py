r"""What one UE moves: two plays of a study with the same draws, compared before all noise.

Composition is adaptive, so a neighbour goes on from what the first play published. Then what it moves in a round is
moved by its own update, and the draws of all rounds that one receiver sees are together one Gaussian with

    mu^2 = sum (moved / std)^2

of which epsilon follows exactly. A server sees rows and sums of rows, a reader of models the sums and counts with noise
at the server. Where presence changes the variance of a sum as well, a draw is a pair of Gaussians N(a, V1 I_d), N(b, V0
I_d), whose privacy losses are added up by their characteristic functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fl.audit.noise import row_of
from fl.audit.recording import Draw, Recording
from fl.privacy.banded import coefficients, sensitivity
from fl.privacy.gaussian import epsilon_of
from fl.types import Spend
from netsim.columns import row_id, ue_and_model
from netsim.record import Row
from netsim.units import FloatArray

ROUNDING = 1e-9  # relative
RELATIONS = {"removed": "add-remove", "zeroed": "zero-out", "replaced": "replace"}
"""kind of pair -> the relation whose neighbours it has"""
_CELLS = 2**16  # of the grid of a privacy loss, over so many deviations to either side:
_WIDE = 40.0


def epsilon_of_pair(shift2: FloatArray, ratio: FloatArray, numbers: FloatArray, delta: float) -> float:
    """Epsilon at delta of draws (k,): |a - b|^2 / V0, V1 / V0, and the numbers d of each; the larger of both ways."""
    if np.abs(ratio - 1).max(initial=0) < ROUNDING:
        return epsilon_of(delta, float(np.sqrt(shift2.sum())))
    return max(_directed(shift2, ratio, numbers, delta), _directed(shift2 / ratio, 1 / ratio, numbers, delta))


def _directed(s: FloatArray, r: FloatArray, d: FloatArray, delta: float) -> float:
    """Epsilon of N(a, r I_d) from N(b, I_d), |a - b|^2 = s: at most the true one, and less by a cell or two.

    By E exp(t L) = exp(t (1 + t) s / (2 v)) v^(-d/2) r^(-t d/2) of the loss L, v = 1 + t (1 - r), at imaginary t.
    """
    from scipy.signal import lfilter

    mean = float((d / 2 * (r - 1 - np.log(r)) + s / 2).sum())
    deviation = float(np.sqrt((d / 2 * (1 - r) ** 2 + s * r).sum()))
    cell = 2 * _WIDE * deviation / _CELLS
    low = mean - _CELLS / 2 * cell
    t = 2j * np.pi * np.fft.fftfreq(_CELLS, cell)
    log = -t * low
    for s1, r1, d1 in zip(s, r, d, strict=True):
        v = 1 + t * (1 - r1)
        log = log + t * (1 + t) * s1 / (2 * v) - d1 / 2 * (np.log(v) + t * np.log(r1))
    mass = np.maximum(np.fft.fft(np.exp(log)).real / _CELLS, 0.0)
    loss = low + cell * np.arange(_CELLS)
    above = np.cumsum(mass[::-1]) - lfilter([1.0], [1.0, -np.exp(-cell)], mass[::-1])
    enough = loss[above[::-1] > delta]
    return max(float(enough.max(initial=0.0)) - cell, 0.0)


def compared(
    one: Recording, other: Recording, pair: str, ue: int, name: str, said: Sequence[str]
) -> tuple[list[Row], list[tuple[Draw, FloatArray, FloatArray]]]:
    """Rows of the table `audit` of a pair of plays, and of each draw how far its rows (k,) move, and their V1 / V0 (k,).

    said : warnings of the run, in which what moves may be stated.
    """
    rows, found = list[Row](), list[tuple[Draw, FloatArray, FloatArray]]()
    theirs = {_name(draw): draw for draw in other.draws}
    banded: dict[tuple[str, str], list[tuple[Draw, FloatArray]]] = {}
    for draw in map(partial(_of_ue, ue=ue), one.draws):
        match = theirs.get(_name(draw))
        difference, ratio = _difference(draw, None if match is None else _of_ue(match, ue))
        if not len(difference):
            continue
        if draw.bands > 1:
            banded.setdefault((draw.spend.mechanism, draw.key[1]), []).append((draw, difference))
            continue
        found.append((draw, np.linalg.norm(difference, axis=1), ratio))
    for several in banded.values():
        draw, _ = several[0]
        c = coefficients(draw.bands)
        past = np.stack([difference for _, difference in several])
        moved = [np.tensordot(c[: t + 1], past[t::-1][: draw.bands], axes=1) for t in range(len(past))]
        whole = np.sqrt((np.stack(moved) ** 2).sum(axis=(0, 2)))
        worst = sensitivity(one.rounds, draw.bands, one.learning.separation)
        whole_run = Draw(draw.spend, (0, draw.key[1]), draw.view, draw.quantity, draw.hidden, draw.beside)
        found.append((whole_run, whole / worst, np.ones(len(whole))))
    for draw, moved, _ in found:
        if draw.spend.relation != RELATIONS[pair]:
            continue
        k = int(np.argmax(moved / draw.spend.sensitivity))
        booked = float(draw.spend.sensitivity[k])
        fits = moved[k] <= booked * (1 + ROUNDING)
        shared = any("losses as given" in line for line in said)
        verdict = "within" if fits else "caveat" if shared and draw.view == "model" else "violated"
        rows.append(
            row_of(
                mechanism=draw.spend.mechanism, round=draw.key[0], view=draw.view, quantity=draw.quantity, pair=pair,
                ue=name, moved=float(moved[k]), sensitivity=booked, verdict=verdict,
            )
        )  # fmt: skip
    return [*rows, *_public(one, other, pair, ue, name, said)], found


def _name(draw: Draw) -> tuple[object, ...]:
    return draw.spend.mechanism, draw.key, draw.quantity, draw.spend.relation


def _of_ue(draw: Draw, ue: int) -> Draw:
    """A draw with only the rows of a UE, where it has rows."""
    if draw.quantity != "rows":
        return draw
    mine, spend = draw.spend.ue == ue, draw.spend
    columns = {name: getattr(spend, name)[mine] for name in ("ue", "model", "std", "sensitivity")}
    return replace(draw, spend=replace(spend, **columns), hidden=draw.hidden[mine], beside=draw.beside[mine])


def _difference(draw: Draw, match: Draw | None) -> tuple[FloatArray, FloatArray]:
    """What differs (k, d) in what a draw hides, infinite where the other play draws nothing; and V1 / V0 (k,)."""
    difference, ratio = np.full(draw.hidden.shape, np.inf), np.ones(len(draw.hidden))
    if match is None:
        return difference, ratio
    ours, theirs = (row_id(of.spend.ue, of.spend.model) for of in (draw, match))
    _, here, there = np.intersect1d(ours, theirs, return_indices=True)
    difference[here] = draw.hidden[here] - match.hidden[there]
    before, after = (of.spend.std**2 + of.beside for of in (match, draw))
    some = before[there] > 0
    ratio[here[some]] = after[here[some]] / before[there[some]]
    return difference, ratio


_SAID = {
    "area": ("the area",), "origin": ("middle of the plane",), "time zone": ("time zone",), "first day": ("first day",),
    "windows": ("number of rounds", "which windows are played"), "cells": ("cells there are", "busiest cell"),
    "models": ("cell with most", "busiest cell", "cells there are"), "days": ("which days",), 
    "users": ("mobility.users",), "statistics": ("every UE receives",), "places": ("every UE receives",),
    "constants": ("every UE receives", "the area"), "presence": ("counts as absent",), "outliers": ("outliers",),
    "asked": ("who sends to which model",), "weights": ("samples weigh in", "losses as given"),
    "lost": ("losses as given", "who sends to which model"), "ends": ("which windows are played",),
    "other updates": ("every UE receives",), "norm": (),
}  # fmt: skip
"""public value -> words of a warning that says that it follows from data"""


def moved_public(quantity: str, moved: float, said: Sequence[str], **more: object) -> Row:
    """The row of a public value that moves: a caveat where a warning of the run says so."""
    stated = any(words in line for words in _SAID[quantity] for line in said)
    named: Row = {"mechanism": quantity, "view": "server", "quantity": quantity, "moved": moved, "sensitivity": 0.0}
    return row_of(**named, verdict="caveat" if stated else "violated", **more)


def _public(
    one: Recording, other: Recording, pair: str, ue: int, name: str, said: Sequence[str]
) -> Iterator[Row]:  # fmt: skip
    """Rows on what everybody may see of the other UEs, and on states that move without noise."""
    more = {"pair": pair, "ue": name}
    if one.ended_s.keys() != other.ended_s.keys() or one.merges.keys() != other.merges.keys():
        changed = len(one.merges.keys() ^ other.merges.keys()) + len(one.ended_s.keys() ^ other.ended_s.keys())
        yield moved_public("windows", changed, said, **more)
    late = [abs(one.ended_s[k] - other.ended_s[k]) for k in one.ended_s.keys() & other.ended_s.keys()]
    if max(late, default=0.0) > 0:
        yield moved_public("ends", max(late), said, **more)
    booked = {(draw.spend.mechanism, draw.key) for draw in one.draws}
    for key in one.merges.keys() & other.merges.keys():
        asked, lost, weights = 0, 0, 0.0
        ours, theirs = (_of_others(recording, key, ue) for recording in (one, other))
        asked = len(ours.keys() ^ theirs.keys())
        for row in ours.keys() & theirs.keys():
            lost += ours[row][0] != theirs[row][0]
            weights = max(weights, abs(ours[row][1] - theirs[row][1]) * (ours[row][0] == theirs[row][0]))
        for quantity, moved in {"asked": asked, "lost": lost, "weights": weights}.items():
            if moved > 0:
                yield moved_public(quantity, float(moved), said, round=key[0], **more)
    for (label, number, phase), norm in one.norms.items():
        there = other.norms.get((label, number, phase), norm)
        if norm != there and (label, (number, phase)) not in booked:
            moved = abs((norm or 0.0) - (there or 0.0))
            yield moved_public("norm", moved, said, round=number, **more) | {"mechanism": label}
    for of, values in one.others.items():
        there = other.others.get(of, {})
        both = [row for row in values.keys() & there.keys() if ue_and_model(np.array([row]))[0][0] != ue]
        moved = sum(abs(values[row] - there[row]) > ROUNDING * max(abs(values[row]), 1e-12) for row in both)
        if moved:
            yield moved_public("other updates", float(moved), said, round=of[1], **more) | {"mechanism": of[0]}


def _of_others(recording: Recording, key: tuple[int, str], ue: int) -> dict[int, tuple[bool, float]]:
    """Row -> whether it counted, and its weight, of all other UEs."""
    merge = recording.merges[key]
    owner = ue_and_model(merge.row)[0]
    rows = zip(merge.row.tolist(), merge.decoded.tolist(), merge.weight.tolist(), strict=True)
    return {row: (came, weight) for (row, came, weight), of in zip(rows, owner.tolist(), strict=True) if of != ue}


def _seen_by(draws: Sequence[Draw]) -> dict[str, set[str]]:
    """Receiver -> the views whose draws it sees; rows reach readers, too, where no noise at the server follows."""
    central = any(draw.view == "model" and draw.quantity == "sum" for draw in draws)
    return {"updates": {"updates", "aggregate"}, "model": {"model", "aggregate"} | (set() if central else {"updates"})}


def ledger_rows(
    found: Sequence[tuple[Draw, FloatArray, FloatArray]], pair: str, ue: int, name: str, privacy: Sequence[Row]
) -> Iterator[Row]:
    """Rows that hold the epsilon of all draws that a pair moves, and one receiver sees, against the ledger's.

    privacy : rows of the table of that name. The ledger's is the largest of one unit and relation that covers any of
    these draws. Of sampled rounds both are taken without sampling, over the rounds in which the UE took part.
    """
    for receiver, views in _seen_by([draw for draw, _, _ in found]).items():
        seen = [
            of for of in found if of[0].view in views and not (of[0].view == "aggregate" and of[0].quantity == "sum")
        ]
        seen = [(draw, moved, ratio) for draw, moved, ratio in seen if (moved > 0).any() or (ratio != 1).any()]
        stated = [_stated([draw.spend for draw, _, _ in seen], group, ue, privacy) for group in _groups(seen)]
        if not stated or RELATIONS[pair] not in {draw.spend.relation for draw, _, _ in seen}:
            continue
        upper, delta = max(stated)
        terms = [
            (moved[k] ** 2 / (draw.spend.std[k] ** 2 + draw.beside[k]) * ratio[k], ratio[k], draw.hidden.shape[1])
            for draw, moved, ratio in seen
            for k in range(len(moved))
            if moved[k] > 0 or ratio[k] != 1
        ]
        lower = epsilon_of_pair(*np.array(terms, dtype=float).T, delta)
        fits = lower <= upper * (1 + 1e-6) + 1e-9
        verdict = "within" if fits else "violated"
        more = {"view": receiver, "pair": pair, "ue": name, "lower": lower, "upper": upper, "verdict": verdict}
        yield row_of(mechanism="all", half="ledger", quantity="epsilon", **more)
        changed = max((float(np.abs(ratio - 1).max(initial=0)) for _, _, ratio in seen), default=0.0)
        if changed > ROUNDING:
            yield row_of(mechanism="all", quantity="variance", moved=changed, sensitivity=0.0, **more)


def _groups(seen: Sequence[tuple[Draw, FloatArray, FloatArray]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((draw.spend.unit, draw.spend.relation) for draw, _, _ in seen))


def _stated(spends: Sequence[Spend], group: tuple[str, str], ue: int, privacy: Sequence[Row]) -> tuple[float, float]:
    """Epsilon and delta that the ledger states of a unit and relation to a UE, all mechanisms together."""
    mine = [row for row in privacy if (row["unit"], row["relation"]) == group and row["ue"] in (ue, -1)]
    whole = [row for row in mine if row["mechanism"] == "all"] or mine
    if not whole:
        return 0.0, 0.5
    row = max(whole, key=lambda row: np.nan_to_num(row["epsilon"], nan=np.inf))
    delta = float(row["delta"])
    own = [spend for spend in spends if (spend.unit, spend.relation) == group]
    if any(spend.counts_on_sampling for spend in own):
        return epsilon_of(delta, float(np.sqrt(sum(spend.cost(False).sum() for spend in own)))), delta
    return float(np.nan_to_num(row["epsilon"], nan=np.inf)), delta
