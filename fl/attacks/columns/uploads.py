"""Columns of what surrounds updates: maps of the town, cells, times and losses of uploads, and the
operator's measurements.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, softmax

from fl.attacks.base import View
from fl.attacks.columns.base import (
    Column,
    Scene,
    Tally,
    add_by_ue,
    find_hour,
    look_up_ues,
    standardise_maps,
)
from fl.attacks.network_positioning import NetworkPositioning
from fl.tracking.population import Everywhere
from fl.types import RoundContext
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_SOFT_DB = 9.0
_LEAST = 0.02  # of the law of cells
_MOST_UPLOADS = 4  # count: shadowing at one place is the same in all of them
_OPEN_M2 = 200.0  # floor area that counts where there is hardly any
_USUAL_SHARE = 0.85  # of uploads that are decoded,
_SPREAD = 0.25  # and how far it is from that
_LEAST_S = 1e-9
_MOST_DBM = 1e6  # a map that predicts more has diverged
_NIGHT = (0.0, 6.0)  # hours of day in which an upload that is asked for tells of home,
_WORK = (10.0, 16.0)  # and on workdays of work


def classify_requests(
    view: View, facts: RoundContext, first: IntArray
) -> tuple[BoolArray, BoolArray]:
    """Which rows `first` (n,) of a view's timing were asked for at night, all if no clock is known,
    and which in working hours.
    """
    if view.timing is None:
        none = np.zeros(len(first), dtype=bool)
        return none, none
    hour = find_hour(view.timing.requested_s[first], facts)
    of_day = hour % 24.0
    is_night = np.isnan(hour) | ((of_day >= _NIGHT[0]) & (of_day <= _NIGHT[1]))
    is_work = (of_day >= _WORK[0]) & (of_day <= _WORK[1]) & (hour % 168.0 < 120.0)
    return is_night, is_work


def find_first_rows(view: View) -> tuple[IntArray, IntArray]:
    """UEs (n,) of a view, and the first row (n,) of each; none of a later phase than the first,
    whose uploads have the same cell and hour.
    """
    ue, first = np.unique(view.ue, return_index=True)
    if view.phase != view.learner.phases[0]:
        return ue[:0], first[:0]
    return ue, first


class FloorArea(Column):
    """log(A + 200 m2), with A the floor area of buildings within 25 m."""

    names = ("floor area",)
    grant = "the plan of the town"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        return tally

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        law = standardise_maps(np.log(scene.floor_m2 + _OPEN_M2))
        return np.broadcast_to(law, (1, len(ue), len(law)))


class SendingCells(Column):
    """min(N, 4) times the mean of log max(softmax_b(L_b(x) / 9 dB), 0.02) over the cells b of N
    uploads, at night and in working hours; and log(1 - share + 0.5 / nights), with the share of the
    nights on which the strongest cell of x was used.
    """

    names = ("cells at night", "cells at work", "cells not used")
    grant = "cells of uploads"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        ue, first = find_first_rows(view)
        if view.timing is None or scene.level_db is None:
            return tally
        cell = view.timing.base_station[first]
        next_tally = dict(tally)
        hours = classify_requests(view, facts, first)
        for name, is_class in zip(("night", "work"), hours, strict=True):
            tells = np.flatnonzero(is_class & (cell >= 0))
            used = np.zeros((len(tells), len(scene.level_db)))
            used[np.arange(len(tells)), cell[tells]] = 1.0
            next_tally[name] = add_by_ue(tally.get(name), ue[tells], used)
        return next_tally

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally or scene.level_db is None:
            return self.build_zeros(ue, scene)
        law = np.log(np.maximum(softmax(scene.level_db / _SOFT_DB, axis=0), _LEAST))
        night = look_up_ues(tally["night"], ue)
        nights = night.sum(axis=1, keepdims=True)
        share_used = night / np.maximum(nights, 1.0)
        unused = np.log(1.0 + 0.5 / np.maximum(nights, 1.0) - share_used)
        strongest = scene.level_db.argmax(axis=0)
        return np.stack(
            [
                _average_laws(night, law),
                _average_laws(look_up_ues(tally["work"], ue), law),
                np.where(nights > 0, unused, 0.0)[:, strongest],
            ]
        )


def _average_laws(counts: FloatArray, law: FloatArray) -> FloatArray:
    """min(N, 4) times the mean law (n, G) of counts (n, n_cell), with laws (n_cell, G)."""
    n = counts.sum(axis=1, keepdims=True)
    return counts * np.minimum(n, _MOST_UPLOADS) / np.maximum(n, 1.0) @ law


class ArrivalDelays(Column):
    """d_u F(x) and F(x), with d_u the normal score of a UE's mean log time per bit, less the mean
    of each round, and F the learnt map of the signal, standardised: the last that has not diverged.
    """

    names = ("delay by signal", "signal")
    grant = "arrival times, and the learnt map"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        models = np.unique(view.source_model)
        next_tally = dict(tally)
        if len(models):
            after = view.model_after
            signal = view.learner.predict_strongest_dbm(after, scene.place_m, models)
            if signal is not None and (np.abs(signal) <= _MOST_DBM).all():
                next_tally["signal"] = standardise_maps(signal)
        ue, first = find_first_rows(view)
        if view.timing is None or not len(ue):
            return next_tally
        taken_s = view.timing.arrived_s[first] - view.timing.requested_s[first]
        value = np.log(np.maximum(taken_s, _LEAST_S) / view.timing.n_bits[first])
        is_heard = np.isfinite(value)
        if is_heard.any():
            value = value[is_heard] - value[is_heard].mean()
            pair = np.stack([np.ones(len(value)), value], axis=1)
            next_tally["delay"] = add_by_ue(tally.get("delay"), ue[is_heard], pair)
        return next_tally

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        columns = self.build_zeros(ue, scene)
        if "signal" not in tally:
            return columns
        columns[1] = tally["signal"]
        if "delay" in tally:
            score = look_up_ues(score_normally(tally["delay"]), ue)
            columns[0] = score[:, None] * tally["signal"]
        return columns


def score_normally(total: FloatArray) -> FloatArray:
    """Normal scores (N,) of the means of totals (N, 2), count and sum; 0 of who has none."""
    known = np.flatnonzero(total[:, 0])
    mean = np.round(total[known, 1] / total[known, 0], 9)
    rank = np.searchsorted(np.sort(mean), mean, "left") + np.searchsorted(
        np.sort(mean), mean, "right"
    )
    score = np.zeros(len(total))
    score[known] = ndtri(rank / 2.0 / np.maximum(len(known), 1))
    return score


class Losses(Column):
    """v(x) and v(x) (share of a UE's uploads that are decoded - 0.85) / 0.25, with v the strongest
    nominal level, standardised.
    """

    names = ("level", "share decoded by level")
    grant = "who was asked, and who was lost"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        ue, _ = find_first_rows(view)
        if view.asked is None or view.phase != view.learner.phases[0]:
            return tally
        asked = np.unique(view.asked)
        return {
            "asked": add_by_ue(tally.get("asked"), asked, np.ones(len(asked))),
            "decoded": add_by_ue(tally.get("decoded"), ue, np.ones(len(ue))),
        }

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        columns = self.build_zeros(ue, scene)
        if scene.level_db is None:
            return columns
        level = standardise_maps(scene.level_db.max(axis=0))
        columns[0] = level
        if tally:
            asked = look_up_ues(tally["asked"], ue)
            share = look_up_ues(tally["decoded"], ue) / np.maximum(asked, 1.0)
            columns[1] = np.where(asked > 0, (share - _USUAL_SHARE) / _SPREAD, 0.0)[:, None] * level
        return columns


class OperatorFixes(Column):
    """Mean log law of the operator's fixes (see `network-positioning`) at night and in working
    hours.
    """

    names = ("fixes at night", "fixes at work")
    grant = "measurements of the operator"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        ue, first = find_first_rows(view)
        if view.timing is None or view.timing.network is None or not len(ue):
            return tally
        law = NetworkPositioning(population=Everywhere())
        next_tally = dict(tally)
        hours = classify_requests(view, facts, first)
        for name, is_class in zip(("night", "work"), hours, strict=True):
            fixes = view.timing.network.select(first[is_class])
            rows = law.compute_log_laws(fixes, scene.grid, scene.public)[:, scene.place]
            is_fixed = fixes.cell >= 0
            rows = np.column_stack([is_fixed.astype(float), np.where(is_fixed[:, None], rows, 0.0)])
            next_tally[name] = add_by_ue(tally.get(name), ue[is_class], rows)
        return next_tally

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        laws = []
        for name in ("night", "work"):
            total = look_up_ues(tally[name], ue)
            laws.append(total[:, 1:] / np.maximum(total[:, :1], 1.0))
        return np.stack(laws)
