"""Membership test of a round: scores of known records, and their evaluation."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import ndimage

from fl.attacks.base import View, recall
from fl.data.samples import Signals
from fl.membership import INFERENCES
from fl.membership.base import AskedRecords, GradientRegression, Inference
from fl.membership.roc import NO_INTERVAL, auc, tpr_percent
from fl.types import HeldOut, Local, Model, State
from netsim.columns import Columns, frozen, row_id, ue_and_model
from netsim.part import Part
from netsim.record import Row
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_RATES = np.geomspace(0.001, 0.79, 30)  # of false positives
Wholes = Callable[[IntArray, FloatArray, FloatArray], IntArray]
"""See `fl.data.Data.wholes`."""


class Membership(Part):
    """Membership inference on records of each UE that the attacker holds.

    Members are a random share `known_member_share` of what each device learnt from in the round,
    non-members as many (where there are as many) of what it measured and held out. Held-out records
    without an owner (images) are each paired with a random member of the same class, whose UE is
    asked about both, and only members in pairs are compared: of every UE and class there are as
    many members as non-members, since a model knows some classes better than others whichever
    records are members. Scores are computed with the model that the attacker sees: with `updates`
    that of each UE, weights before plus its update; with `aggregate` or `model` the common one.
    Scores are relative to the median of the UE's records, so that differences between the models of
    UEs do not affect them.

    The area under the ROC curve stands beside that of the model before any training, asked of the
    same records, and their difference has an interval: members and held-out records of other places
    differ whatever a model has learnt. An attack that compares with other models than these has no
    such area; it is refused where whole sessions, days or blocks are held out.

    `lira` and `rmia` compare with shadow models: the attacker plays the training again, with the
    real learner, clips, noise and merges, where the data of each UE are a random half of the
    records that it holds of it. Where it sees single updates that is the last round, from the model
    before it, which may know records of earlier rounds already. Models and sums are those of all
    rounds so far, from the initial models: all shadow models cost as much as so many runs. They
    have only the UEs of the last round, in each with the same records, and the noise of the last
    round.
    """

    attacks: tuple[Annotated[Inference, INFERENCES], ...] = Field(min_length=1)
    """attacks, each of which assigns a score to a record"""
    known_member_share: float = Field(default=1.0, gt=0, le=1)
    """share of each UE's records that the attacker holds"""
    every_rounds: int = Field(default=10, ge=1)
    """number of rounds with training between tests; the first of them always has one"""
    max_records: int = Field(default=5000, ge=10, le=1_000_000)
    """largest number of members, and of non-members"""
    shadow_models: int = Field(default=16, ge=4, le=1024)
    """models that the attacker trains for `lira` and `rmia`, of each UE or sum that it sees; half
    have each record"""

    def start(self) -> dict[str, State]:
        """States of attacks before the first test, by label."""
        return {a.label: a.start() for a in self.attacks if isinstance(a, GradientRegression)}

    @property
    def remembers(self) -> bool:
        """Whether an attack asks about the same records in every test."""
        return bool(self.start())


def due(membership: Membership | None, played: int) -> bool:
    """Whether round number `played` is tested."""
    return membership is not None and (played == 1 or played % membership.every_rounds == 0)


@frozen
class KnownRecords(Columns):
    """Records (N,) that the attacker holds of targets (index into the view's), members first.

    x (N, p), y (N,): the record; group: of records that are held out, or were paired, together;
    compared: whether its score counts.
    """

    target: IntArray
    member: BoolArray
    x: FloatArray
    y: FloatArray
    group: IntArray
    compared: BoolArray


def infer(
    membership: Membership,
    view: View,
    local: Local,
    held_out: HeldOut,
    rng: Rng,
    initial: Model | None = None,
    wholes: Wholes | None = None,
    states: Mapping[str, State] | None = None,
    played: int = 1,
) -> tuple[list[Row], dict[str, State]]:
    """One row an attack (numbers of records, AUC, true-positive rates, with intervals, and ROC),
    and memories.

    states: what attacks remember from before, by their labels. initial: the models before any
    training; None: the AUC before it is not known. wholes: which records (by ue, x, time_s) are
    held out together; None: each by itself. played: rounds with training so far.
    """
    known = _known(membership, view, local, held_out, rng, wholes)
    before, after, model_of = _models(view, view.model_before)
    untrained = None if initial is None else _models(view, initial)[0]
    if view.vantage == "updates":
        initial = None
        played = 1

    @cache
    def shadows() -> tuple[
        FloatArray, BoolArray
    ]:  # models on random halves of the records, of all UEs together
        row = row_id(view.ue, view.model)[known.target]
        order = np.argsort(row, kind="stable")
        every = Signals(row, known.x, known.y, np.zeros(len(row)), 0 * row).select(order).local()
        n = membership.shadow_models
        inside = np.argsort(rng.uniform("halves", order, (n,)), axis=1) < n // 2
        loss = np.full(inside.shape, np.nan)
        for k, some in enumerate(inside[order].T):
            base = initial
            past = None
            for number in range(played):
                own = replace(rng, purpose=f"membership.shadow{k}.{number}")
                seen, past = view.replica.play(every.keep(some), past, own, base)  # type: ignore[union-attr]
                base = seen.model_after
            _, model, of = _models(seen, seen.model_before)
            target = _targets(seen, *ue_and_model(row))
            loss[:, k] = view.learner.record_losses(model, of[target], known.x, known.y)
            loss[target < 0, k] = np.nan
        return loss, inside

    asked = AskedRecords(
        view.learner, before, after, model_of[known.target], known.x, known.y, shadows
    )
    rows = []
    after_states = dict[str, State]()
    for attack in membership.attacks:
        first = None
        if isinstance(attack, GradientRegression):
            memory = (states or {}).get(attack.label, attack.start())
            score, after_states[attack.label] = attack.regress(
                view, known.target, known.x, known.y, memory
            )
        else:
            score = attack.score(asked) if len(known.x) else np.zeros(0)
            if untrained is not None and attack.has_score_before:
                first = attack.score(replace(asked, before=untrained, after=untrained))
        rows.append({"attack": attack.label, "sees": view.vantage, **_success(known, score, first)})
    return rows, after_states


def _success(known: KnownRecords, score: FloatArray, first: FloatArray | None) -> Row:
    """Success of scores (N,) at telling members, and of those of the models before training where
    there are any.
    """
    use = known.compared & np.isfinite(score) & np.isfinite(score if first is None else first)
    some = known.select(use)
    now = _centred(score[use], some.target)
    of = now, some.member, some.group
    area = auc(*of)
    power = tpr_percent(*of)
    groups = np.unique(some.group[~some.member])
    curve = [tpr_percent(*of, r) if r * len(groups) >= 1 else NO_INTERVAL for r in _RATES]
    area_before = change = NO_INTERVAL
    if first is not None:
        then = _centred(first[use], some.target)
        area_before = auc(then, *of[1:])
        change = auc(*of, then)
    row: Row = {"members": int(some.member.sum()), "non_members": int((~some.member).sum())}
    for name, found in (
        ("auc", area),
        ("auc_difference", change),
        ("tpr_percent", power),
        ("strict_tpr_percent", curve[0]),
    ):
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))
    true = [each[0] for each in curve]
    return row | {
        "auc_before": area_before[0],
        "false_positive_percent": 100 * _RATES,
        "true_positive_percent": true,
    }


def _known(
    membership: Membership,
    view: View,
    local: Local,
    held_out: HeldOut,
    rng: Rng,
    wholes: Wholes | None,
) -> KnownRecords:
    """Draw members, and non-members of the same UEs."""
    owner = local.ue[local.row_of_sample]
    inside = _targets(view, owner, local.model[local.row_of_sample])
    outside = _targets(view, held_out.ue, held_out.model)
    n = len(view.ue)
    share = membership.known_member_share * np.bincount(inside[inside >= 0], minlength=n)
    member = _chosen(inside, np.maximum(1, np.rint(share)), membership.max_records, rng, "members")
    if local.y is None:
        y = np.zeros(len(local.x))
    else:
        y = local.y
    paired = local.y is not None and bool((held_out.ue < 0).any())
    if paired:
        pair, other = _paired(y[member], held_out.y, rng)
        outside[other] = inside[member[pair]]
        group = np.concatenate([np.arange(len(member)), pair])
    else:
        other = _chosen(
            outside, np.bincount(inside[member], minlength=n), membership.max_records, rng, "others"
        )
        group = np.arange(len(member) + len(other))
    rows = np.concatenate([member, len(local.x) + other])
    held = held_out.ue, held_out.x, held_out.time_s, outside, held_out.y
    both = zip((owner, local.x, local.time_s, inside, y), held, strict=True)
    ue, x, time_s, target, y = (np.concatenate(pieces) for pieces in both)
    is_member = np.arange(len(rows)) < len(member)
    compared = ~is_member | (not paired)
    if paired:
        compared[pair] = True
    elif wholes is not None:
        group = wholes(ue, x, time_s)[rows]
    return KnownRecords(target[rows], is_member, x[rows], y[rows], group, compared)


def _targets(view: View, ue: IntArray, model: IntArray) -> IntArray:
    """The target (index into the view's) of every record (N,), -1 of a UE that the attacker did not
    hear.
    """
    target = row_id(view.ue, view.model)
    order = np.argsort(target)
    return np.nan_to_num(recall(target[order], order, row_id(ue, model)), nan=-1.0).astype(int)


def _paired(member: FloatArray, other: FloatArray, rng: Rng) -> tuple[IntArray, IntArray]:
    """Random pairs (p,) of one class each, as indices into the labels of members (m,) and of others
    (n,).

    No record is in two pairs, and of each class there are as many as the rarer side allows.
    """
    classes, of = np.unique(np.concatenate([member, other]), return_inverse=True)
    sides = (of[: len(member)], "members paired"), (of[len(member) :], "others paired")
    mine, theirs = (_ranked(side, rng, what) * len(classes) + side for side, what in sides)
    _, first, second = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    return first, second


def _chosen(
    target: IntArray, wanted: FloatArray | IntArray, most: int, rng: Rng, what: str
) -> IntArray:
    """Random records of each target: wanted (n_target,) of them, or all; at most `most` in all."""
    index = np.flatnonzero(
        (target >= 0) & (_ranked(target, rng, what) < np.append(wanted, 0)[target])
    )  # -1: no target
    if len(index) <= most:
        return index
    lot = rng.uniform(f"{what} kept", index)
    return np.sort(index[np.argsort(lot, kind="stable")[:most]])


def _ranked(target: IntArray, rng: Rng, what: str) -> IntArray:
    """Random rank (N,) of each record among its target's."""
    order = np.lexsort((rng.uniform(what, np.arange(len(target))), target))
    return np.argsort(order) - np.searchsorted(target[order], target)


def _models(view: View, start: Model) -> tuple[Model, Model, IntArray]:
    """Models before and after as the attacker knows them, and which of them speaks of each target
    (n_target,).

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
    if len(score):
        return score - ndimage.median(score, device, device)
    return score
