r"""Knowledge of a round before it begins, as features of each UE.

All but the eavesdropper's place is known to a scheduler. In decibels, of UE k with base station b,
the thermal noise N and rho of the numbers sent:

    snr          ||h_k||^2 / N, at 1 W
    required     rho^2 / sigma^2, the SNR at which thermal noise alone met the requirement of the
    last round
    other        most of ||h_kb'||^2 / N at other base stations
    heard        ||h_k||^2 / N at the eavesdropper
    rank         of snr in the cell, 0 strongest to 1
    count        UEs of the cell, over K;  mean, most, least: of snr in the cell
    late         share of the rounds that are over

What planned powers x lead to is known as well, by the laws of the uplink. With the received power
of UE k over thermal noise, x_k ||h_k||^2 / N, and what j leaves of its power in the combining for
k, x_j |h_k^H h_j|^2 / (||h_k||^2 N):

    power        of the UE
    decoded      SINR after cancellation at the base station
    margin       SNR over the required one
    exposed      SINR after cancellation at the eavesdropper
    later        interference by weaker UEs of the cell, which are decoded later
    earlier      interference by stronger UEs of the cell, of which cancellation leaves a residual
    outside      interference by UEs of other cells
    disturbs     sum over UEs that k disturbs of its interference over their received power
    hidden       share of UEs that the eavesdropper hears less;  below, above: their sum there, and
    that of the others
"""

from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from fl.power.search import Limits
from netsim.columns import Columns, divide_or, divide_or_zero, frozen
from netsim.radio.power import PowerContext
from netsim.radio.uplink import sum_strength
from netsim.units import BoolArray, FloatArray, db_from_ratio
from rl.radio_records import Air, Links, Rounds, Rows, build_air, compute_received_sinrs

FEATURES = ("snr", "required", "other", "heard", "rank", "count", "mean", "most", "least", "late")
OUTLOOK = (
    "power",
    "decoded",
    "margin",
    "exposed",
    "later",
    "earlier",
    "outside",
    "disturbs",
    "hidden",
    "below",
    "above",
)
_FLOOR_DB = -60.0
_TOP_DB = 140.0
_SPAN_DB = 50.0  # of the outcome of powers
_LEAST = 1e-6  # of a sum over thermal noise
_UNKNOWN_DB = 0.0  # what is required before the first round


@frozen
class Look(Columns):
    """S rounds of K UEs. required_std (S, K) : root mean square over the rows of a UE that were
    sent last, 0 before the first; rho, n_bits, progress (S,); air : how the band is shared; limits
    : of powers; max_power_w : of a UE, whatever the limits.
    """

    links: Links
    required_std: FloatArray
    rho: FloatArray
    n_bits: FloatArray
    progress: FloatArray
    air: Air
    limits: Limits
    max_power_w: float = np.inf

    @classmethod
    def from_context(cls, context: PowerContext, limits: Limits) -> Self:
        """The features of the coming round."""
        uplink = context.uplink
        if context.cohort is None or uplink is None:
            raise ValueError("the context has no links")
        n = len(context.snr_per_w)
        rows = np.bincount(context.row_ue, minlength=n)
        variance = np.bincount(
            context.row_ue, weights=context.row_required_std**2, minlength=n
        ) / np.maximum(rows, 1)
        return cls(
            links=Links.from_cohorts(context.cohort, context.overheard, uplink),
            required_std=np.sqrt(variance)[None],
            rho=np.array([context.scale]),
            n_bits=np.array([context.n_bits]),
            progress=np.array([context.progress]),
            air=build_air(uplink),
            limits=limits,
            max_power_w=context.max_power_w,
        )

    @property
    def is_first(self) -> BoolArray:
        """Which rounds (S,) are the first of a world."""
        return np.append(True, self.progress[1:] <= self.progress[:-1])

    @property
    def is_served(self) -> BoolArray:
        """Whether each UE has a base station (S, K)."""
        return self.links.serving >= 0

    @cached_property
    def snr_db(self) -> FloatArray:
        """SNR at 1 W (S, K), at the own base station."""
        return np.where(self._is_own, self._strength_db, _FLOOR_DB).max(axis=2)

    @cached_property
    def required_db(self) -> FloatArray:
        """rho^2 / sigma^2 (S, K)."""
        is_required = self.required_std > 0
        ratio = divide_or(self.rho[:, None], self.required_std, 1.0)
        return np.where(is_required, db_from_ratio(ratio**2), _UNKNOWN_DB)

    @cached_property
    def best_other_snr_db(self) -> FloatArray:
        """Highest SNR at other base stations, at 1 W (S, K)."""
        return np.where(self._is_own, _FLOOR_DB, self._strength_db).max(axis=2)

    @cached_property
    def eavesdropper_snr_db(self) -> FloatArray:
        """SNR at the eavesdropper, at 1 W (S, K)."""
        heard = self.links.heard
        if not heard.shape[2]:
            return np.full(self.links.serving.shape, _FLOOR_DB)
        return _clip_level(sum_strength(heard)[..., 0] / self.air.noise_w)

    @cached_property
    def rank(self) -> FloatArray:
        """Number of stronger UEs of the cell (S, K)."""
        stronger = self.snr_db[:, None, :] > self.snr_db[:, :, None]
        return (stronger & self.same_cell).sum(axis=2).astype(float)

    @cached_property
    def same_cell(self) -> BoolArray:
        """Whether k and j are in one cell (S, K, K)."""
        serving = self.links.serving
        same = serving[:, :, None] == serving[:, None, :]
        return same & self.is_served[:, :, None]

    @cached_property
    def features(self) -> FloatArray:
        """Features of each UE (S, K, 10), about 1 in size."""
        cell = self.same_cell
        count = np.maximum(cell.sum(axis=2), 1)
        snr = self.snr_db
        peers_db = snr[:, None, :]
        of_cell = np.where(cell, peers_db, 0.0).sum(axis=2) / count
        max_db = np.where(cell, peers_db, -np.inf).max(axis=2)
        min_db = np.where(cell, peers_db, np.inf).min(axis=2)
        max_db = np.where(self.is_served, max_db, 0.0)
        min_db = np.where(self.is_served, min_db, 0.0)
        columns = (
            _scale_level(snr),
            self.required_db / 20.0,
            _scale_level(self.best_other_snr_db),
            _scale_level(self.eavesdropper_snr_db),
            self.rank / np.maximum(count - 1, 1),
            count / snr.shape[1],
            _scale_level(of_cell),
            _scale_level(max_db),
            _scale_level(min_db),
            np.broadcast_to(self.progress[:, None], snr.shape),
        )
        return np.stack(columns, axis=2)

    def predict_outcome(self, power_w: FloatArray) -> FloatArray:
        """What powers (S, K) lead to for each UE (S, K, 11), about 1 in size; 0 for a UE that is
        away.
        """
        sinr, heard, _ = compute_received_sinrs(
            power_w, np.arange(len(power_w)), self.links, self.air
        )
        decoded = _clip_level(sinr, _SPAN_DB)
        exposed = _clip_level(heard, _SPAN_DB)
        dbw = db_from_ratio(power_w)
        margin = np.clip(dbw + self.snr_db - self.required_db, -_SPAN_DB, _SPAN_DB)
        columns = (
            (dbw + 20.0) / 10.0,
            (decoded - 10.0) / 20.0,
            margin / 20.0,
            (exposed - 10.0) / 20.0,
            *self._predict_interference(power_w),
            *self._predict_exposure(dbw),
        )
        return np.where(self.is_served[..., None], np.stack(columns, axis=2), 0.0)

    def _predict_interference(self, power_w: FloatArray) -> tuple[FloatArray, ...]:
        """later, earlier, outside and disturbs, each (S, K)."""
        received = power_w * 10.0 ** (self.snr_db / 10.0)
        received_j = received[:, None, :]
        stronger = received_j > received[:, :, None]  # j than k
        is_other = self.is_served[:, None, :] & ~np.eye(received.shape[1], dtype=bool)
        same = self.same_cell & is_other
        outside = ~self.same_cell & is_other
        level = power_w[:, None, :] * self._crossing  # of j in the combining for k
        caused = np.swapaxes(level, 1, 2) / received_j
        disturbed = (same & stronger) | outside
        sums = (
            level * (same & ~stronger),
            level * (same & stronger),
            level * outside,
            10.0 * caused * disturbed,
        )
        return tuple(_scale_sum(part.sum(axis=2)) for part in sums)

    def _predict_exposure(self, dbw: FloatArray) -> tuple[FloatArray, ...]:
        """hidden, below and above, each (S, K)."""
        heard_db = np.where(self.is_served, dbw + self.eavesdropper_snr_db, -np.inf)
        weaker = heard_db[:, None, :] < heard_db[:, :, None]  # j than k
        above = ~weaker & ~np.eye(dbw.shape[1], dtype=bool)
        level = 10.0 ** (heard_db / 10.0)[:, None, :]
        share = weaker.sum(axis=2) / max(dbw.shape[1] - 1, 1)
        below = _scale_sum((level * weaker).sum(axis=2))
        return share, below, _scale_sum((level * above).sum(axis=2))

    @cached_property
    def _crossing(self) -> FloatArray:
        """|h_k^H h_j|^2 / (||h_k||^2 N) (S, K, K): what 1 W of j leaves in the combining for k; 0
        for absent UEs.
        """
        serving = np.maximum(self.links.serving, 0)[..., None, None]
        # (S, K, K, M): of j there
        h = np.take_along_axis(np.swapaxes(self.links.h, 1, 2), serving, axis=1)
        h_serving = np.take_along_axis(self.links.h, serving, axis=2)[:, :, 0]
        inner = np.abs(np.einsum("skm,skjm->skj", h_serving.conj(), h)) ** 2
        return divide_or_zero(inner, sum_strength(h_serving)[..., None] * self.air.noise_w)

    @cached_property
    def _strength_db(self) -> FloatArray:
        """||h||^2 / N (S, K, n_bs), decibels."""
        return _clip_level(sum_strength(self.links.h) / self.air.noise_w)

    @cached_property
    def _is_own(self) -> BoolArray:
        """Which base station serves each UE (S, K, n_bs)."""
        return np.arange(self.links.h.shape[2]) == self.links.serving[..., None]


def build_silent_round(look: Look) -> Rounds:
    """A round in which no UE sends, over the links of a look at it."""
    nothing = np.zeros(look.links.serving.shape)
    none = nothing[:, :1]
    zero = np.zeros(1)
    away = np.full(nothing.shape, -1)
    rows = Rows(away[:, :1], none, none, look.rho, zero, zero, zero.astype(int))
    links = replace(look.links, serving=away)
    return Rounds(links, rows, nothing.astype(int), look.n_bits, nothing, nothing)


def _clip_level(ratio: FloatArray, span_db: float | None = None) -> FloatArray:
    """Decibels, between bounds that no link passes, or between +- span_db."""
    low, high = (_FLOOR_DB, _TOP_DB) if span_db is None else (-span_db, span_db)
    return np.clip(db_from_ratio(ratio), low, high)


def _scale_level(level_db: FloatArray) -> FloatArray:
    """Levels at 1 W on a scale of about 1."""
    return (level_db - 50.0) / 20.0


def _scale_sum(ratio: FloatArray) -> FloatArray:
    """Sums of received powers over thermal noise, decibels on a scale of about 1."""
    return (db_from_ratio(np.maximum(ratio, _LEAST)) - 10.0) / 20.0
