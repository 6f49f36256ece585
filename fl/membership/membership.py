"""Membership test of a round: scores of known records, and their evaluation."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import ndimage

from fl.attacks.base import View
from fl.data.samples import Signals
from fl.membership import INFERENCES
from fl.membership.base import AskedRecords, GradientRegression, Inference
from fl.membership.roc import (
    NO_INTERVAL,
    compute_auc_with_interval,
    compute_tpr_percent_with_interval,
)
from fl.types import HeldOut, Local, Model, State
from netsim.columns import (
    Columns,
    find_last_rows,
    frozen,
    match_rows,
    no_floats,
    number_row,
    split_row_id,
)
from netsim.part import Part, Share
from netsim.record import Row, TableRows
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_RATES = np.geomspace(0.001, 0.79, 30)  # of false positives
Wholes = Callable[[IntArray, FloatArray, FloatArray], IntArray]
"""See `fl.data.Data.number_wholes`."""


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
    known_member_share: Share = 1.0
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

    def is_due(self, played: int) -> bool:
        """Whether round number `played` is tested."""
        return played == 1 or played % self.every_rounds == 0


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


def infer_membership(
    membership: Membership,
    view: View,
    local: Local,
    held_out: HeldOut,
    rng: Rng,
    initial: Model | None = None,
    wholes: Wholes | None = None,
    states: Mapping[str, State] | None = None,
    played: int = 1,
) -> tuple[TableRows, dict[str, State]]:
    """One row an attack (numbers of records, AUC, true-positive rates, with intervals, and ROC),
    and memories.

    states: what attacks remember from before, by their labels. initial: the models before any
    training; None: the AUC before it is not known. wholes: which records (by ue, x, time_s) are
    held out together; None: each by itself. played: rounds with training so far.
    """
    records = _draw_records(membership, view, local, held_out, rng, wholes)
    before, after, model_of = _list_models(view, view.model_before)
    untrained = None if initial is None else _list_models(view, initial)[0]
    if view.vantage == "updates":
        initial = None
        played = 1

    target = records.target
    x = records.x
    y = records.y

    @cache
    def train_shadows() -> tuple[FloatArray, BoolArray]:
        """Losses of models on random halves of the records, of all UEs together, and the halves."""
        row = number_row(view.ue, view.model)[target]
        order = np.argsort(row, kind="stable")
        data = Signals(row, x, y, np.zeros(len(row)), 0 * row).select(order).to_local()
        n = membership.shadow_models
        is_learnt = np.argsort(rng.uniform("halves", order, (n,)), axis=1) < n // 2
        loss = np.full(is_learnt.shape, np.nan)
        for k, is_kept in enumerate(is_learnt[order].T):
            base = initial
            past = None
            half = data.keep(is_kept)
            for number in range(played):
                draws = replace(rng, purpose=f"membership.shadow{k}.{number}")
                shadow, past = view.replica.play(half, past, draws, base)  # type: ignore[union-attr]
                base = shadow.model_after
            _, model, model_of_target = _list_models(shadow, shadow.model_before)
            shadow_target = _find_targets(shadow, *split_row_id(row))
            loss[:, k] = view.learner.compute_record_losses(
                model, model_of_target[shadow_target], x, y
            )
            loss[shadow_target < 0, k] = np.nan
        return loss, is_learnt

    query = AskedRecords(view.learner, before, after, model_of[target], x, y, train_shadows)
    rows = []
    after_states = dict[str, State]()
    for attack in membership.attacks:
        label = attack.label
        first = None
        if isinstance(attack, GradientRegression):
            memory = (states or {}).get(label, attack.start())
            score, after_states[label] = attack.regress(view, target, x, y, memory)
        else:
            score = attack.score(query) if len(x) else no_floats()
            if untrained is not None and attack.has_score_before:
                first = attack.score(replace(query, before=untrained, after=untrained))
        rows.append({"attack": label, "sees": view.vantage, **_evaluate(records, score, first)})
    return rows, after_states


def _evaluate(records: KnownRecords, score: FloatArray, first: FloatArray | None) -> Row:
    """Success of scores (N,) at telling members, and of those of the models before training where
    there are any.
    """
    is_used = records.compared & np.isfinite(score)
    if first is not None:
        is_used &= np.isfinite(first)
    used = records.select(is_used)
    member = used.member
    group = used.group
    centred = _centre_scores(score[is_used], used.target)
    area_before = NO_INTERVAL
    change = NO_INTERVAL
    if first is not None:
        before = _centre_scores(first[is_used], used.target)
        area_before = compute_auc_with_interval(before, member, group)
        change = compute_auc_with_interval(centred, member, group, before)
    n_groups = len(np.unique(group[~member]))
    curve = []
    for rate in _RATES:
        power = NO_INTERVAL
        if rate * n_groups >= 1:
            power = compute_tpr_percent_with_interval(centred, member, group, rate)
        curve.append(power)
    row: Row = {"members": int(member.sum()), "non_members": int((~member).sum())}
    intervals = {
        "auc": compute_auc_with_interval(centred, member, group),
        "auc_difference": change,
        "tpr_percent": compute_tpr_percent_with_interval(centred, member, group),
        "strict_tpr_percent": curve[0],
    }
    for name, (mean, low, high) in intervals.items():
        row[name] = mean
        row[f"{name}_low"] = low
        row[f"{name}_high"] = high
    row["auc_before"] = area_before[0]
    row["false_positive_percent"] = 100 * _RATES
    row["true_positive_percent"] = [power[0] for power in curve]
    return row


def _draw_records(
    membership: Membership,
    view: View,
    local: Local,
    held_out: HeldOut,
    rng: Rng,
    wholes: Wholes | None,
) -> KnownRecords:
    """Draw members, and non-members of the same UEs."""
    owner = local.ue[local.row_of_sample]
    inside = _find_targets(view, owner, local.model[local.row_of_sample])
    outside = _find_targets(view, held_out.ue, held_out.model)
    n = len(view.ue)
    limit = membership.max_records
    n_known = membership.known_member_share * np.bincount(inside[inside >= 0], minlength=n)
    member = _choose_records(inside, np.maximum(1, np.rint(n_known)), limit, rng, "members")
    y = local.y
    if y is None:
        y = np.zeros(len(local.x))
    paired = local.y is not None and (held_out.ue < 0).any()
    if paired:
        # as many of each class as the rarer side allows, no record in two pairs
        classes, number = np.unique(np.concatenate([y[member], held_out.y]), return_inverse=True)
        left, right = np.split(number, [len(member)])
        left = _rank_records(left, rng, "members paired") * len(classes) + left
        right = _rank_records(right, rng, "others paired") * len(classes) + right
        pair, outsiders = match_rows(left, right)
        outside[outsiders] = inside[member[pair]]
        group = np.concatenate([np.arange(len(member)), pair])
    else:
        outsiders = _choose_records(
            outside, np.bincount(inside[member], minlength=n), limit, rng, "others"
        )
        group = np.arange(len(member) + len(outsiders))
    rows = np.concatenate([member, len(local.x) + outsiders])
    x = np.concatenate([local.x, held_out.x])
    y = np.concatenate([y, held_out.y])
    target = np.concatenate([inside, outside])
    is_member = np.arange(len(rows)) < len(member)
    compared = ~is_member | (not paired)
    if paired:
        compared[pair] = True
    elif wholes is not None:
        ue = np.concatenate([owner, held_out.ue])
        group = wholes(ue, x, np.concatenate([local.time_s, held_out.time_s]))[rows]
    return KnownRecords(target[rows], is_member, x[rows], y[rows], group, compared)


def _find_targets(view: View, ue: IntArray, model: IntArray) -> IntArray:
    """The target (index into the view's) of every record (N,), -1 of a UE that the attacker did not
    hear.
    """
    return find_last_rows(number_row(view.ue, view.model), number_row(ue, model))


def _choose_records(
    target: IntArray, n_wanted: FloatArray | IntArray, max_records: int, rng: Rng, purpose: str
) -> IntArray:
    """Random records of each target: n_wanted (n_target,) of them, or all; at most max_records."""
    is_wanted = _rank_records(target, rng, purpose) < np.append(n_wanted, 0)[target]
    index = np.flatnonzero((target >= 0) & is_wanted)  # -1: no target
    if len(index) <= max_records:
        return index
    lot = rng.uniform(f"{purpose} kept", index)
    return np.sort(index[np.argsort(lot, kind="stable")[:max_records]])


def _rank_records(target: IntArray, rng: Rng, purpose: str) -> IntArray:
    """Random rank (N,) of each record among its target's."""
    order = np.lexsort((rng.uniform(purpose, np.arange(len(target))), target))
    return np.argsort(order) - np.searchsorted(target[order], target)


def _list_models(view: View, start: Model) -> tuple[Model, Model, IntArray]:
    """Models before and after as the attacker knows them, and which of them speaks of each target
    (n_target,).

    start: what the updates are added to.
    """
    if view.vantage == "model":
        return start, view.model_after, view.model
    model = view.source_model
    constants = {name: value[model] for name, value in start.constants.items()}
    before = Model(start.parameters[model], constants)
    step = view.update[:, : start.parameters.shape[1]]  # others of its numbers are no weights
    return before, Model(start.parameters[model] + step, constants), view.source


def _centre_scores(score: FloatArray, device: IntArray) -> FloatArray:
    """Scores (N,) less the median of their device's."""
    if len(score):
        return score - ndimage.median(score, device, device)
    return score
