"""The aggregation slot: weights of the received rows."""

from abc import abstractmethod
from dataclasses import field, replace
from math import inf
from typing import Literal

import numpy as np
from numpy.linalg import norm
from pydantic import Field

from fl.notice import Prepared, notice
from fl.types import Local, Metrics, Received, RoundContext, State, Updates
from netsim.columns import ByKey, divide_or_zero, frozen, split_row_id, update_means
from netsim.notice import Notices
from netsim.part import Needs, OneOf, Part, Positive, Share
from netsim.units import BoolArray, FloatArray, IntArray


class Aggregation(Part):
    """Weights of the rows that the server merges; a row that was not decoded has weight 0."""

    kind: str = ""

    @property
    def weight(self) -> float | None:
        """The weight of every decoded row if it is fixed; None: it depends on the participants."""
        return None

    @property
    def fewest_updates(self) -> int:
        """Number of updates of a model below which it merges none."""
        return 1

    def start(self) -> State:
        """The first state; None for a rule without memory."""
        return None

    def receive_disclosed(self, local: Local, facts: RoundContext, state: State) -> State:
        """The next state after UEs have sent what it asks for besides updates, before they
        train.
        """
        return state

    def figures(self, state: State) -> Metrics:
        """Figures of the last round for the table `metrics`; names with units."""
        return dict(getattr(state, "figures", {}))

    @abstractmethod
    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, State]:
        """Weights (n,), 0 where not decoded; they sum to 1 over a model's decoded rows unless
        `weight` is fixed.
        """

    def merge_rows(self, updates: Updates, weights: FloatArray, n_model: int) -> FloatArray:
        """The merged update (n_model, d) of rows (n, d): the sum by their weights (n,), unless a
        rule says otherwise.
        """
        return updates.sum_weighted(weights, n_model)


class FedAvg(Aggregation, kind="fedavg"):
    """w_k = n_k / sum_j n_j over the rows that were decoded, for each model."""

    reference = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017"

    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, State]:
        updates = received.updates
        mass = np.where(received.decoded, updates.count, 0.0)
        return divide_by_sums(mass, updates.model, facts.public.n_model), state


def normalise_masses(
    log_mass: FloatArray, decoded: BoolArray, model: IntArray, n_model: int
) -> FloatArray:
    """exp(log_mass) / its sum over the decoded rows of the same model: (n,), 0 where not
    decoded.
    """
    heard = np.where(decoded, log_mass, -np.inf)
    highest = np.full(n_model, np.finfo(float).min)
    np.maximum.at(highest, model, heard)
    return divide_by_sums(np.exp(heard - highest[model]), model, n_model)


def divide_by_sums(mass: FloatArray, model: IntArray, n_model: int) -> FloatArray:
    """Return masses (n,) over their sum in the same model, 0 where that is 0."""
    return divide_or_zero(mass, np.bincount(model, weights=mass, minlength=n_model)[model])


def count_effective_rows(weights: FloatArray) -> float:
    """Rows that equal weights of the same noise would have: (sum w)^2 / sum w^2; 0 where no row
    counts.
    """
    square = (weights**2).sum()
    if square > 0:
        return weights.sum() ** 2 / square
    return 0.0


def measure_angles(rows: FloatArray, others: FloatArray) -> FloatArray:
    """Angle (n,) in radians of rows (n, d) to others (n, d); a right one beside a zero or infinite
    row.
    """
    length = norm(rows, axis=1) * norm(others, axis=1)
    has_length = (length > 0) & np.isfinite(length)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = np.einsum("nd,nd->n", rows, others) / length
    cosine = np.where(has_length, cosine, 0.0)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def compute_angle_exponent(angle: FloatArray, steepness: float) -> FloatArray:
    """f(a) = b (1 - exp(-exp(-b (a - 1)))) with steepness b: falls from nearly b to 0, b (1 - 1/e)
    at one radian.
    """
    return steepness * -np.expm1(-np.exp(-steepness * (angle - 1.0)))


class Uniform(Aggregation, kind="uniform"):
    r"""w_k = 1 / (q K) for every decoded row, independent of the other rows.

    K (`clients`) is the number of UEs that could take part and q (`participation`) the share of
    them that is sampled. The denominator is fixed: a missing UE does not change the weights of the
    others, and the weights need not sum to 1. Central differential privacy requires this: one UE's
    row, of norm at most c, changes the sum by c and the merged update by c / (q K); with weights by
    the number of samples or of participants it would change all weights.
    """

    clients: int = Field(ge=1, le=10_000_000)
    """number of UEs that could take part (K)"""
    participation: Share = 1.0
    """share of them that the server samples in a round (q), equal to the participation of the
    study"""

    reference = (
        "McMahan et al., Learning Differentially Private Recurrent Language Models, 2018, f_f"
    )
    example = {"kind": "uniform", "clients": 4}
    offers = frozenset({"fixed weight"})

    @property
    def weight(self) -> float:
        """Weight of every row, known before any arrives."""
        return 1.0 / (self.participation * self.clients)

    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, State]:
        return np.where(received.decoded, self.weight, 0.0), state


@frozen
class Angles:
    """Mean angle in radians of every row decoded so far, by its number (see `update_means`)."""

    means: ByKey
    figures: Metrics = field(default_factory=dict)


class Beda(Aggregation, kind="beda"):
    r"""G_k = |D_k| exp(f(angle_k)) / sum over the decoded, with f(a) = alpha (1 - exp(-exp(-alpha
    (a - 1)))).

    angle_k, in radians, lies between a row and the mean of all decoded rows weighted by size,
    smoothed by its running mean over the rounds in which the device was decoded: a~[t] = ((t - 1)
    a~[t - 1] + a[t]) / t. f falls with the angle, from nearly alpha to 0, and is alpha (1 - 1/e) at
    one radian. Angles are those of what was received, noise included; a row or a mean without
    length stands at a right angle. Figures: `angle_mean_rad`, `effective_devices`.
    """

    alpha: float = Field(5.0, gt=0, le=100)
    """alpha: the weight of an aligned UE grows by a factor of at most exp(alpha)"""

    reference = (
        "Wu and Wang, Fast-Convergent Federated Learning With Adaptive Weighting, 2021 (FedAdp); "
        "benchmark BEDA of the LAPA study"
    )
    needs = {"updates": "compares single updates, and a sum of them is all that the server gets"}

    def start(self) -> Angles:
        return Angles(ByKey.empty(2))

    def compute_weights(
        self, received: Received, facts: RoundContext, state: Angles
    ) -> tuple[FloatArray, Angles]:
        updates = received.updates
        heard = received.decoded
        n_model = facts.public.n_model
        log_mass = np.log(updates.count)
        share = normalise_masses(log_mass, heard, updates.model, n_model)
        mean = updates.sum_weighted(share, n_model)
        angle_now = measure_angles(updates.all_rows, mean[updates.model])
        angles, means = update_means(state.means, updates.row[heard], angle_now[heard, None], inf)
        angle = angles[:, 0]
        log_mass[heard] += compute_angle_exponent(angle, self.alpha)
        weight = normalise_masses(log_mass, heard, updates.model, n_model)
        figures = {"effective_devices": count_effective_rows(weight)}
        if len(angle):
            figures["angle_mean_rad"] = angle.mean()
        return weight, Angles(means, figures)


@frozen
class Histograms:
    """Labels that UEs have disclosed, by the number of the row (k,): how many samples, and their
    shares of each bin, (k, 1 + bins).

    disclosed: how many histograms were sent so far.
    """

    labels: ByKey
    disclosed: int = 0
    figures: Metrics = field(default_factory=dict)


_RANGE_DBM = (-140.0, -44.0)
_BINS = 48


class Wasserstein(Aggregation, kind="wasserstein"):
    r"""G_k = |D_k| exp(1 / max(W_k, floor)) / sum over the decoded, with W_k the distance of label
    distributions.

    W_k is a Wasserstein distance between a device's label histogram pmf_k and pmf_G, the mean of
    all devices' weighted by their size. Its ground metric is `distance`::

        total-variation   sum |pmf_k - pmf_G| / 2      0 or 1 between classes; in [0, 1]
        label-index       sum |CDF_k - CDF_G|          classes as numbers, Eq. 20 as printed;
        depends on their order
        label-range       sum |CDF_k - CDF_G| / 48     RSRP on 48 equal bins from -140 to -44 dBm,
        into the outermost of
                                                       which go labels beyond; in [0, 1]

    Without a floor an IID device (W near 0.1) takes all the weight: exp(10). Weights are
    renormalised over the rows that were decoded: the study's Eq. 22 keeps the sum over all devices,
    so that a selection would shrink the step.

    Every UE discloses its label histogram without noise: once, and again when its data change. The
    ledger does not count this disclosure. Figures: `histograms_disclosed` so far, `distance_min`
    and `distance_max` of W over this round's rows, `effective_devices` = 1 / sum G^2 (noise on the
    merged update grows as its inverse).
    """

    distance: Literal["total-variation", "label-index", "label-range"] = "total-variation"
    """distance between label distributions; label-range for real labels"""
    floor: Positive = 0.25
    """lower limit of the distance (W_floor)"""

    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 20-22"
    )

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """Rows to weigh, and labels of the right sort."""
        word, reason = "class labels", "compares classes; for real labels take label-range"
        if self.distance == "label-range":
            word, reason = "real labels", "compares real labels; for classes take total-variation"
        return {
            "updates": "weighs single updates, and a sum of them is all that the server gets",
            word: f"distance: {self.distance} {reason}",
        }

    def notices(self, prepared: Prepared) -> Notices:
        yield notice("labels-disclosed", kind=self.kind_name())

    def start(self) -> Histograms:
        return Histograms(ByKey.empty(0))

    def receive_disclosed(self, local: Local, facts: RoundContext, state: Histograms) -> Histograms:
        pmf = self._count_labels(local, facts)
        before = state.labels.look_up(local.row)
        is_new = np.ones(len(pmf), bool)
        if before.size:
            is_new = (pmf != before[:, 1:]).any(axis=1)
        labels = state.labels.overwrite_values(local.row, np.column_stack([local.count, pmf]))
        return Histograms(labels, state.disclosed + is_new.sum())

    def _count_labels(self, local: Local, facts: RoundContext) -> FloatArray:
        label = np.zeros(len(local.x)) if local.y is None else local.y
        if self.distance == "label-range":
            low, high = _RANGE_DBM
            bins = _BINS
            position = (label - low) / (high - low) * bins
            column = np.clip(position, 0, bins - 1).astype(int)
        else:
            bins = 0 if facts.public.samples is None else facts.public.samples.classes
            column = label.astype(int)
        cell = local.row_of_sample * bins + column
        counted = np.bincount(cell, minlength=len(local.ue) * bins)
        return counted.reshape(-1, bins) / local.count[:, None]

    def measure_distances(self, state: Histograms, row: IntArray, n_model: int) -> FloatArray:
        """W_k (n,) of rows (see `netsim.columns`) whose UEs have sent their histograms."""
        _, model_of_known = split_row_id(state.labels.key)
        count = state.labels.value[:, 0]
        pmf = state.labels.value[:, 1:]
        whole = np.zeros((n_model, pmf.shape[1]))
        np.add.at(whole, model_of_known, count[:, None] * pmf)
        size = np.bincount(model_of_known, weights=count, minlength=n_model)
        mean_pmf = whole / np.maximum(size, 1.0)[:, None]
        _, model = split_row_id(row)
        away = state.labels.look_up(row)[:, 1:] - mean_pmf[model]
        if self.distance == "total-variation":
            return 0.5 * np.abs(away).sum(axis=1)
        moved = np.abs(np.cumsum(away, axis=1)).sum(axis=1)
        return moved / (_BINS if self.distance == "label-range" else 1)

    def compute_weights(
        self, received: Received, facts: RoundContext, state: Histograms
    ) -> tuple[FloatArray, Histograms]:
        updates = received.updates
        n_model = facts.public.n_model
        away = self.measure_distances(state, updates.row, n_model)
        log_mass = np.log(updates.count) + 1.0 / np.maximum(away, self.floor)
        weight = normalise_masses(log_mass, received.decoded, updates.model, n_model)
        figures = Metrics()
        if len(away):
            figures = {"distance_min": away.min(), "distance_max": away.max()}
        figures["effective_devices"] = count_effective_rows(weight)
        return weight, replace(state, figures=figures)

    def figures(self, state: Histograms) -> Metrics:
        return {"histograms_disclosed": float(state.disclosed), **state.figures}


AGGREGATIONS = OneOf(
    "aggregation",
    FedAvg,
    Uniform,
    Wasserstein,
    Beda,
    places={
        "coordinate-median": "fl.robust:CoordinateMedian",
        "trimmed-mean": "fl.robust:TrimmedMean",
        "krum": "fl.robust:Krum",
        "norm-filter": "fl.robust:NormFilter",
    },
)
