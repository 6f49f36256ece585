"""Audit of a round: membership scores of known records, and their evaluation."""

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.membership import INFERENCES
from fl.membership.base import Inference
from fl.membership.roc import auc, tpr_percent
from fl.types import HeldOut, Local, Model
from netsim.part import Part
from netsim.rng import Rng
from netsim.row_id import row_id, ue_and_model
from netsim.units import FloatArray, IntArray


class Membership(Part):
    """Membership inference on records of each UE that the attacker holds.

    Members are a random share `overlap` of what each device learnt from in the round, non-members as many (where there
    are as many) of what it measured and held out; held-out records without an owner (images) are assigned to UEs
    class by class. Scores are computed with the model that the attacker sees: with `rows` that of each UE, weights
    before plus its update; with `sum` or `model` the common one. Scores are relative to the median of the UE's records,
    so that differences between the models of UEs do not affect them.
    """

    attacks: tuple[Annotated[Inference, INFERENCES], ...] = Field(min_length=1)
    """attacks, each of which assigns a score to a record"""
    overlap: float = Field(default=1.0, gt=0, le=1)
    """share of each UE's records that the attacker holds"""
    every_rounds: int = Field(default=10, ge=1)
    """number of rounds with training between audits; the first of them is always audited"""
    max_records: int = Field(default=5000, ge=10, le=1_000_000)
    """largest number of members, and of non-members"""

    renamed: ClassVar[dict[str, str]] = {"most": "max_records"}


def due(membership: Membership | None, played: int) -> bool:
    """Whether the round that makes so many played is audited."""
    return membership is not None and (played == 1 or played % membership.every_rounds == 0)


def audit(membership: Membership, view: View, local: Local, held_out: HeldOut, rng: Rng) -> list[dict[str, Any]]:
    """One row an attack: how many records there were, AUC and true-positive rate with intervals."""
    target = {(u, m): i for i, (u, m) in enumerate(zip(view.ue.tolist(), view.model.tolist(), strict=True))}
    inside = _pairs(local.ue[local.row_of_sample], local.model[local.row_of_sample], target)
    outside = _pairs(held_out.ue, held_out.model, target)
    nobodys = held_out.ue < 0
    if nobodys.any() and local.y is not None and len(target):
        outside[nobodys] = _dealt(held_out.y[nobodys], local.y, inside, len(target), rng)
    member, other = (
        _drawn(inside, membership.overlap, membership.max_records, rng, "members"),
        np.zeros(0, dtype=np.int64),
    )
    if len(member):
        per_target = np.bincount(inside[member], minlength=len(target))
        other = _matched(outside, per_target, membership.max_records, rng)
    before, after, model_of = _models(view)
    y = np.zeros(len(local.x)) if local.y is None else local.y
    rows = []
    for attack in membership.attacks:
        scores = []
        for who, x, labels, index in ((inside, local.x, y, member), (outside, held_out.x, held_out.y, other)):
            asked = model_of[who[index]]
            scores.append(attack.score(view.learner, before, after, asked, x[index], labels[index]))
        known = [np.isfinite(s) for s in scores]
        device = np.concatenate([inside[member][known[0]], outside[other][known[1]]])
        centred = _centred(np.concatenate([s[k] for s, k in zip(scores, known, strict=True)]), device)
        mine, theirs = centred[: known[0].sum()], centred[known[0].sum() :]
        area, power = auc(mine, theirs), tpr_percent(mine, theirs)
        rows.append(
            {
                "attack": attack.label, "sees": view.vantage, "members": len(mine), "non_members": len(theirs),
                "auc": area[0], "auc_low": area[1], "auc_high": area[2],
                "tpr_percent": power[0], "tpr_percent_low": power[1], "tpr_percent_high": power[2],
            }
        )  # fmt: skip
    return rows


def _pairs(ue: IntArray, model: IntArray, target: dict[tuple[int, int], int]) -> IntArray:
    """The target (index into the view's) of every record (N,), -1 for whom the attacker did not hear."""
    key = row_id(ue, model)
    every, where = np.unique(key, return_inverse=True)
    pairs = zip(*(ids.tolist() for ids in ue_and_model(every)), strict=True)
    return np.array([target.get(pair, -1) for pair in pairs] + [-1], dtype=np.int64)[where]


def _dealt(label: FloatArray, own: FloatArray, target: IntArray, n_target: int, rng: Rng) -> IntArray:
    """A target for each record (N,) that is nobody's: at random, as often as its own records have that label.

    So a device that knows few classes is compared with strangers of these classes; -1 for a class that nobody has.
    """
    classes, of_own = np.unique(own, return_inverse=True)
    count = np.zeros((len(classes), n_target))
    np.add.at(count, (of_own[target >= 0], target[target >= 0]), 1.0)
    at = np.minimum(np.searchsorted(classes, label), len(classes) - 1)
    known = (classes[at] == label) & (count[at].sum(axis=1) > 0)
    upto = np.cumsum(count, axis=1)[at]
    lot = rng.uniform("dealt", np.arange(len(label))) * upto[:, -1]
    return np.where(known, np.minimum((upto <= lot[:, None]).sum(axis=1), n_target - 1), -1)


def _drawn(target: IntArray, share: float, most: int, rng: Rng, what: str) -> IntArray:
    """A random share of each target's records, at least one of each; at most `most` in all."""
    rank, count = _ranked(target, rng, what)
    keep = (target >= 0) & (rank < np.maximum(1, np.rint(share * count)))
    return _thinned(np.flatnonzero(keep), most, rng, what)


def _matched(target: IntArray, count: IntArray, most: int, rng: Rng) -> IntArray:
    """Of each target so many random records as `count` (n_target,) says, or all that there are."""
    rank, _ = _ranked(target, rng, "others")
    wanted = np.append(count, 0)[target]  # -1 is nobody
    return _thinned(np.flatnonzero((target >= 0) & (rank < wanted)), most, rng, "others")


def _ranked(target: IntArray, rng: Rng, what: str) -> tuple[IntArray, IntArray]:
    """Random rank of each record among its target's, and how many those are: both (N,)."""
    lot = rng.uniform(what, np.arange(len(target)))
    order = np.lexsort((lot, target))
    ordered = target[order]
    _, first, count = np.unique(ordered, return_index=True, return_counts=True)
    rank, of = np.empty(len(target), dtype=np.int64), np.empty(len(target), dtype=np.int64)
    rank[order] = np.arange(len(target)) - np.repeat(first, count)
    of[order] = np.repeat(count, count)
    return rank, of


def _thinned(index: IntArray, most: int, rng: Rng, what: str) -> IntArray:
    if len(index) <= most:
        return index
    lot = rng.uniform(f"{what} kept", index)
    return np.sort(index[np.argsort(lot, kind="stable")[:most]])


def _models(view: View) -> tuple[Model, Model, IntArray]:
    """Models before and after as the attacker knows them, and which of them speaks of each target (n_target,)."""
    if view.vantage == "model":
        return view.model_before, view.model_after, view.model
    own, start = view.source_model, view.model_before
    constants = {name: value[own] for name, value in start.constants.items()}
    before = Model(start.parameters[own], constants)
    return before, Model(start.parameters[own] + view.update, constants), view.source


def _centred(score: FloatArray, device: IntArray) -> FloatArray:
    """Scores (N,) less the median of their device's."""
    order = np.lexsort((score, device))
    _, first, count = np.unique(device[order], return_index=True, return_counts=True)
    low, high = score[order][first + (count - 1) // 2], score[order][first + count // 2]
    middle = np.empty_like(score)
    middle[order] = np.repeat((low + high) / 2, count)
    return np.asarray(score - middle)
