"""Columns of what surrounds updates: maps of the town, cells, times and losses of uploads, and the
operator's measurements.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, softmax

from fl.attacks.arrival_times import compute_log_s_per_bit
from fl.attacks.base import View
from fl.attacks.columns.base import (
    PlaceColumn,
    Scene,
    Tally,
    add_by_ue,
    classify_week_hours,
    look_up_ues,
    standardise_maps,
)
from fl.attacks.network_positioning import NetworkPositioning
from fl.tracking.population import Everywhere
from fl.types import RoundContext, Timing
from netsim.columns import rank_values
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_SOFT_DB = 9.0
_LEAST = 0.02  # of the law of cells
_MOST_UPLOADS = 4  # count: shadowing at one place is the same in all of them
_OPEN_M2 = 200.0  # floor area that counts where there is hardly any
_USUAL_SHARE = 0.85  # of uploads that are decoded,
_SPREAD = 0.25  # and how far it is from that
_MOST_DBM = 300.0  # a map that predicts more has diverged
_HOURS = ("night", "work")  # when an upload that is asked for tells of home, and of work


def find_uploads(view: View) -> tuple[IntArray, Timing] | None:
    """UEs (n,) of a view, and times of the first row of each; None where none are known, or in a
    later phase than the first, whose uploads have the same cell and hour.
    """
    if view.timing is None or view.phase != view.learner.phases[0]:
        return None
    ue, first = np.unique(view.ue, return_index=True)
    return ue, view.timing.select(first)


def add_by_hours(
    tally: Tally, facts: RoundContext, ue: IntArray, timing: Timing, value: FloatArray
) -> Tally:
    """A tally with values (n, ...) of uploads of UEs (n,) added: of those that were asked for at
    night, all if no clock is known; and in working hours.
    """
    hour = (facts.week_s + (timing.requested_s - facts.time_s)) / 3600.0
    is_night, is_work, _ = classify_week_hours(hour)
    classes = zip(_HOURS, (is_night | np.isnan(hour), is_work), strict=True)
    return {
        name: add_by_ue(tally.get(name), ue[is_class], value[is_class])
        for name, is_class in classes
    }


class FloorArea(PlaceColumn):
    """log(A + 200 m2), with A the floor area of buildings within 25 m."""

    names = ("floor area",)

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        law = standardise_maps(np.log(scene.floor_m2 + _OPEN_M2))
        return np.broadcast_to(law, (1, len(ue), len(law)))


class SendingCells(PlaceColumn):
    """min(N, 4) times the mean of log max(softmax_b(L_b(x) / 9 dB), 0.02) over the cells b of N
    uploads, at night and in working hours; and log(1 - share + 0.5 / nights), with the share of the
    nights on which the strongest cell of x was used.
    """

    names = ("cells at night", "cells at work", "cells not used")

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        uploads = find_uploads(view)
        if uploads is None or scene.level_db is None:
            return tally
        ue, timing = uploads
        used = timing.base_station[:, None] == np.arange(len(scene.level_db))
        return add_by_hours(tally, facts, ue, timing, used.astype(float))

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally or scene.level_db is None:
            return self.build_zeros(ue, scene)
        law = np.log(np.maximum(softmax(scene.level_db / _SOFT_DB, axis=0), _LEAST))
        counts = np.stack([look_up_ues(tally[name], ue) for name in _HOURS])  # (2, n, n_cell)
        n = counts.sum(axis=2, keepdims=True)
        n_or_one = np.maximum(n, 1.0)
        laws = counts * np.minimum(n, _MOST_UPLOADS) / n_or_one @ law
        unused = np.log(1.0 + 0.5 / n_or_one[0] - counts[0] / n_or_one[0])
        strongest = scene.level_db.argmax(axis=0)
        return np.stack([*laws, np.where(n[0] > 0, unused, 0.0)[:, strongest]])


class ArrivalDelays(PlaceColumn):
    """d_u F(x) and F(x), with d_u the normal score of a UE's mean log time per bit, less the mean
    of each round, and F the learnt map of the signal, standardised; the strongest nominal level
    where that has diverged.
    """

    names = ("delay by signal", "signal")

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        models = np.unique(view.source_model)
        next_tally = dict(tally)
        if len(models):
            signal = view.learner.predict_strongest_dbm(view.model_after, scene.place_m, models)
            if signal is None or not (np.abs(signal) <= _MOST_DBM).all():
                signal = scene.find_strongest_db()
            next_tally["signal"] = standardise_maps(signal)
        uploads = find_uploads(view)
        if uploads is None:
            return next_tally
        ue, timing = uploads
        value = compute_log_s_per_bit(timing)
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
            columns[0] = look_up_ues(score_normally(tally["delay"]), ue)[:, None] * tally["signal"]
        return columns


def score_normally(total: FloatArray) -> FloatArray:
    """Normal scores (N,) of the means of totals (N, 2), count and sum; 0 of who has none."""
    known = np.flatnonzero(total[:, 0])
    mean = np.round(total[known, 1] / total[known, 0], 9)
    score = np.zeros(len(total))
    score[known] = ndtri((rank_values(mean) - 0.5) / np.maximum(len(known), 1))
    return score


class Losses(PlaceColumn):
    """v(x) and v(x) (share of a UE's uploads that are decoded - 0.85) / 0.25, with v the strongest
    nominal level, standardised.
    """

    names = ("level", "share decoded by level")

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        if view.asked is None or view.phase != view.learner.phases[0]:
            return tally
        ue = np.unique(view.ue)
        asked = np.unique(view.asked)
        return {
            "asked": add_by_ue(tally.get("asked"), asked, np.ones(len(asked))),
            "decoded": add_by_ue(tally.get("decoded"), ue, np.ones(len(ue))),
        }

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        columns = self.build_zeros(ue, scene)
        if scene.level_db is None:
            return columns
        level = standardise_maps(scene.find_strongest_db())
        columns[0] = level
        if tally:
            asked = look_up_ues(tally["asked"], ue)
            share = look_up_ues(tally["decoded"], ue) / np.maximum(asked, 1.0)
            columns[1] = np.where(asked > 0, (share - _USUAL_SHARE) / _SPREAD, 0.0)[:, None] * level
        return columns


class OperatorFixes(PlaceColumn):
    """Mean log law of the operator's fixes (see `network-positioning`) at night and in working
    hours.
    """

    names = ("fixes at night", "fixes at work")

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        uploads = find_uploads(view)
        fixes = uploads[1].network if uploads else None
        if uploads is None or fixes is None:
            return tally
        ue, timing = uploads
        law = NetworkPositioning(population=Everywhere())
        rows = law.compute_log_laws(fixes, scene.grid, scene.public)[:, scene.place]
        is_fixed = fixes.cell[:, None] >= 0
        rows = np.column_stack([is_fixed, np.where(is_fixed, rows, 0.0)])
        return add_by_hours(tally, facts, ue, timing, rows)

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        total = np.stack([look_up_ues(tally[name], ue) for name in _HOURS])
        return total[:, :, 1:] / np.maximum(total[:, :, :1], 1.0)
