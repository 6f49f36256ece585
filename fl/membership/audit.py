"""Audit of a round: membership scores of known records, and their evaluation."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.membership import INFERENCES
from fl.membership.base import Inference
from fl.membership.regression import GradientRegression
from fl.membership.roc import RecordGroups, Scores, auc, auc_difference, tpr_percent
from fl.types import HeldOut, Local, Model, State
from netsim.columns import row_id, ue_and_model
from netsim.part import Part
from netsim.record import Row
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

Wholes = Callable[[IntArray, FloatArray, FloatArray], IntArray]
"""See `fl.data.base.Data.wholes`."""


class Membership(Part):
    """Membership inference on records of each UE that the attacker holds.

    Members are a random share `known_member_share` of what each device learnt from in the round, non-members as many
    (where there are as many) of what it measured and held out. Held-out records without an owner (images) are each
    paired with a random member of the same class, whose UE is asked about both, and only members in pairs are compared:
    of every UE and class there are as many members as non-members, since a model knows some classes better than others
    whichever records are members. Scores are computed with the model that the attacker sees: with `rows` that of each
    UE, weights before plus its update; with `sum` or `model` the common one. Scores are relative to the median of the
    UE's records, so that differences between the models of UEs do not affect them.

    The area under the ROC curve stands beside that of the model before any training, asked of the same records, and
    their difference has an interval: members and held-out records of other places differ whatever a model has learnt.
    An attack that compares with the model before the round has no such area; it is refused where whole sessions, days
    or blocks are held out.
    """

    attacks: tuple[Annotated[Inference, INFERENCES], ...] = Field(min_length=1)
    """attacks, each of which assigns a score to a record"""
    known_member_share: float = Field(default=1.0, gt=0, le=1)
    """share of each UE's records that the attacker holds"""
    every_rounds: int = Field(default=10, ge=1)
    """number of rounds with training between audits; the first of them is always audited"""
    max_records: int = Field(default=5000, ge=10, le=1_000_000)
    """largest number of members, and of non-members"""

    renamed: ClassVar = {"overlap": "known_member_share"}

    def start(self) -> dict[str, State]:
        """States of attacks before the first audit, by label."""
        return {a.label: a.start() for a in self.attacks if isinstance(a, GradientRegression)}

    @property
    def remembers(self) -> bool:
        """Whether an attack asks about the same records in every audit."""
        return bool(self.start())


def due(membership: Membership | None, played: int) -> bool:
    """Whether round number `played` is audited."""
    return membership is not None and (played == 1 or played % membership.every_rounds == 0)


def audit(
    membership: Membership,
    view: View,
    local: Local,
    held_out: HeldOut,
    rng: Rng,
    initial: Model | None = None,
    wholes: Wholes | None = None,
    states: Mapping[str, State] | None = None,
) -> tuple[list[Row], dict[str, State]]:
    """One row an attack (how many records there were, AUC and true-positive rate with intervals), and memories.

    states: what attacks remember from before, by their labels. initial: the models before any training; None: the AUC
    before it is not known. wholes: which records (by ue, x, time_s) are held out together; None: each by itself.
    """
    target = {(u, m): i for i, (u, m) in enumerate(zip(view.ue.tolist(), view.model.tolist(), strict=True))}
    inside = _pairs(local.ue[local.row_of_sample], local.model[local.row_of_sample], target)
    outside = _pairs(held_out.ue, held_out.model, target)
    member = _drawn(inside, membership.known_member_share, membership.max_records, rng, "members")
    if local.y is not None and (held_out.ue < 0).any():
        compared, other = _paired(local.y[member], held_out.y, rng)
        outside[other] = inside[member[compared]]
        whole = RecordGroups(compared, compared)
    else:
        compared = np.arange(len(member))
        other = _matched(outside, np.bincount(inside[member], minlength=len(target)), membership.max_records, rng)
        whole = _whole(wholes, local, held_out, member, other)
    before, after, model_of = _models(view, view.model_before)
    untrained = None if initial is None else _models(view, initial)[0]
    y = np.zeros(len(local.x)) if local.y is None else local.y
    rows, after_states = [], dict[str, State]()
    pool = ((inside, local.x, y, member), (outside, held_out.x, held_out.y, other))
    for attack in membership.attacks:

        def asked(before: Model, after: Model, attack: Inference = attack) -> list[FloatArray]:
            return [
                attack.score(view.learner, before, after, model_of[who[index]], x[index], labels[index])
                for who, x, labels, index in pool
            ]

        if isinstance(attack, GradientRegression):
            memory = (states or {}).get(attack.label, attack.start())
            of, record, label = (np.concatenate([side[k][side[3]] for side in pool]) for k in range(3))
            both, after_states[attack.label] = attack.regress(view, of, record, label, memory)
            scores = [both[: len(member)], both[len(member) :]]
        else:
            scores = asked(before, after)
        began = asked(untrained, untrained) if untrained is not None and attack.has_score_before else None
        for sides in filter(None, (scores, began)):
            sides[0] = sides[0][compared]
        known = [np.isfinite(s) & np.isfinite(b) for s, b in zip(scores, began or scores, strict=True)]
        device = np.concatenate([inside[member[compared]][known[0]], outside[other][known[1]]])
        mine, own = _of_known(scores, known, device), RecordGroups(whole.member[known[0]], whole.other[known[1]])
        then = None if began is None else _of_known(began, known, device)
        rows.append({"attack": attack.label, "sees": view.vantage, **_figures(mine, then, own)})
    return rows, after_states


def _figures(now: Scores, before: Scores | None, whole: RecordGroups) -> dict[str, Any]:
    """Success of scores at telling members, and of those of the models before training where there are any."""
    area, power = auc(now.member, now.other, whole), tpr_percent(now.member, now.other, whole=whole.member)
    first, change = math.nan, (math.nan, math.nan, math.nan)
    if before is not None:
        first, change = auc(before.member, before.other, whole)[0], auc_difference(now, before, whole)
    return {
        "members": len(now.member), "non_members": len(now.other),
        "auc": area[0], "auc_low": area[1], "auc_high": area[2], "auc_before": first,
        "auc_difference": change[0], "auc_difference_low": change[1], "auc_difference_high": change[2],
        "tpr_percent": power[0], "tpr_percent_low": power[1], "tpr_percent_high": power[2],
    }  # fmt: skip


def _of_known(scores: list[FloatArray], known: list[BoolArray], device: IntArray) -> Scores:
    """Finite scores of members and of non-members, each less the median of its device's."""
    centred = _centred(np.concatenate([s[k] for s, k in zip(scores, known, strict=True)]), device)
    return Scores(centred[: known[0].sum()], centred[known[0].sum() :])


def _whole(wholes: Wholes | None, local: Local, held_out: HeldOut, member: IntArray, other: IntArray) -> RecordGroups:
    """The groups with which chosen records are held out."""
    if wholes is None:
        return RecordGroups.single(len(member), len(other))
    ue = np.concatenate([local.ue[local.row_of_sample], held_out.ue])
    number = wholes(ue, np.concatenate([local.x, held_out.x]), np.concatenate([local.time_s, held_out.time_s]))
    return RecordGroups(number[: len(local.x)][member], number[len(local.x) :][other])


def _pairs(ue: IntArray, model: IntArray, target: dict[tuple[int, int], int]) -> IntArray:
    """The target (index into the view's) of every record (N,), -1 for whom the attacker did not hear."""
    key = row_id(ue, model)
    every, where = np.unique(key, return_inverse=True)
    pairs = zip(*(ids.tolist() for ids in ue_and_model(every)), strict=True)
    return np.array([target.get(pair, -1) for pair in pairs] + [-1], dtype=np.int64)[where]


def _paired(member: FloatArray, other: FloatArray, rng: Rng) -> tuple[IntArray, IntArray]:
    """Random pairs (p,) of one class each, as indices into the labels of members (m,) and of others (n,).

    No record is in two pairs, and of each class there are as many as the rarer side allows.
    """
    classes, of = np.unique(np.concatenate([member, other]), return_inverse=True)
    sides = (of[: len(member)], "members paired"), (of[len(member) :], "others paired")
    mine, theirs = (_ranked(side, rng, what)[0] * len(classes) + side for side, what in sides)
    _, first, second = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    return first, second


def _drawn(target: IntArray, share: float, most: int, rng: Rng, what: str) -> IntArray:
    """A random share of each target's records, at least one of each; at most `most` in all."""
    rank, count = _ranked(target, rng, what)
    keep = (target >= 0) & (rank < np.maximum(1, np.rint(share * count)))
    return _thinned(np.flatnonzero(keep), most, rng, what)


def _matched(target: IntArray, count: IntArray, most: int, rng: Rng) -> IntArray:
    """Random records of each target: count (n_target,) of them, or all."""
    rank, _ = _ranked(target, rng, "others")
    wanted = np.append(count, 0)[target]  # -1: no target
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


def _models(view: View, start: Model) -> tuple[Model, Model, IntArray]:
    """Models before and after as the attacker knows them, and which of them speaks of each target (n_target,).

    start: what the updates are added to.
    """
    if view.vantage == "model":
        return start, view.model_after, view.model
    own = view.source_model
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
    return score - middle
