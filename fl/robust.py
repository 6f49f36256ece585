"""Aggregation that outlasts malicious updates, since it compares the rows of a merge with one
another.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from fl.aggregation import Aggregation, divide_by_sums
from fl.server_optimiser import MODEL_CHANGES
from fl.types import LastFigures, Received, RoundContext, State, Updates
from netsim.columns import split_blocks
from netsim.units import FloatArray, IntArray

COMPARES = "compared rows"
"""offered by rules that have no meaning for a single update"""
_SEES_ROWS = {"updates": "compares single updates, and a sum of them is all that the server gets"}
_NUMBERS = 4_000_000  # that are sorted at once


def list_rows_of_models(model: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each model, and which of the rows (n,) update it."""
    for m in np.unique(model).tolist():
        yield m, np.flatnonzero(model == m)


class CoordinateRule(Aggregation):
    """A rule for each number of an update by itself, over the decoded rows of a model. All rows
    count alike, whatever their samples: their weights are on record as 1 / n.
    """

    offers = frozenset({COMPARES, "merged by number"})
    needs = _SEES_ROWS | {
        MODEL_CHANGES: (
            "it merges number by number, and those of this learner's updates are no differences of "
            "weights; take aggregation krum or norm-filter"
        )
    }

    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, State]:
        counts = received.decoded.astype(float)
        return divide_by_sums(counts, received.updates.model, facts.public.n_model), state

    def merge_rows(self, updates: Updates, weights: FloatArray, n_model: int) -> FloatArray:
        total = np.zeros((n_model, updates.n_parameters))
        merged = np.flatnonzero(weights)
        for m, which in list_rows_of_models(updates.model[merged]):
            values = updates.rows(merged[which])
            for block in split_blocks(updates.n_parameters, max(1, _NUMBERS // len(values))):
                total[m, block] = self.combine_numbers(np.sort(values[:, block], axis=0))
        return total

    @abstractmethod
    def combine_numbers(self, values: FloatArray) -> FloatArray:
        """The merged numbers (p,) of those of n rows, each column ascending (n, p)."""


class CoordinateMedian(CoordinateRule):
    """The median of each number of the decoded rows; of an even number of rows the mean of both
    middle ones.
    """

    kind: Literal["coordinate-median"] = "coordinate-median"
    reference = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, "
        "2018, Algorithm 1, Option I"
    )

    def combine_numbers(self, values: FloatArray) -> FloatArray:
        middle = len(values) // 2
        return (values[(len(values) - 1) // 2] + values[middle]) / 2.0


class TrimmedMean(CoordinateRule):
    """The mean of each number of the n decoded rows, without its floor(trim n) smallest and as many
    largest values.
    """

    kind: Literal["trimmed-mean"] = "trimmed-mean"
    trim: float = Field(0.2, ge=0, lt=0.5)
    """share of the rows that is left out at either end, at least that of malicious UEs (beta)"""
    reference = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, "
        "2018, Algorithm 1, Option II"
    )

    def combine_numbers(self, values: FloatArray) -> FloatArray:
        cut = int(self.trim * len(values) + 1e-9)
        return values[cut : len(values) - cut].mean(axis=0)


class Krum(Aggregation):
    r"""Takes the update that lies nearest to its n - f - 2 nearest others, by the sum of squared
    distances; of equal ones that of the UE with the lowest number.

    `selected` m (multi-Krum) takes the mean of the m best, at most n - f - 2. Its promise takes n
    >= 2 f + 3 updates of a model: fewer are not merged at all, and the model stays where it is.
    The figure `updates_too_few` counts them. Samples do not count.
    """

    kind: Literal["krum"] = "krum"
    malicious: int = Field(1, ge=0, le=1_000_000)
    """largest number of malicious UEs in a merge (f)"""
    selected: int = Field(1, ge=1, le=1_000_000)
    """number of the best updates that are averaged (m)"""
    reference = (
        "Blanchard et al., Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, "
        "2017, Section 4"
    )
    example = {"kind": "krum", "malicious": 0}
    offers = frozenset({COMPARES})
    needs = _SEES_ROWS

    @property
    def fewest_updates(self) -> int:
        return 2 * self.malicious + 3

    def start(self) -> LastFigures:
        return LastFigures()

    def compute_weights(
        self, received: Received, facts: RoundContext, state: LastFigures
    ) -> tuple[FloatArray, LastFigures]:
        updates = received.updates
        weights = np.zeros(len(updates.ue))
        too_few = 0
        decoded = np.flatnonzero(received.decoded)
        for _, which in list_rows_of_models(updates.model[decoded]):
            rows = decoded[which]
            if len(rows) < self.fewest_updates:
                too_few += len(rows)
                continue
            nearest = len(rows) - self.malicious - 2
            scores = compute_krum_scores(updates.rows(rows), nearest)
            best = np.argsort(scores, kind="stable")[: min(self.selected, nearest)]
            weights[rows[best]] = 1.0 / len(best)
        return weights, LastFigures({"updates_too_few": too_few})


def compute_krum_scores(rows: FloatArray, nearest: int) -> FloatArray:
    """Sum of squared distances (n,) of each row (n, d) to that many nearest others."""
    from scipy.spatial.distance import pdist, squareform

    apart = squareform(pdist(rows, "sqeuclidean"))
    np.fill_diagonal(apart, np.inf)
    return np.sort(apart, axis=1)[:, :nearest].sum(axis=1)


class NormFilter(Aggregation):
    """FedAvg of updates with an L2 norm of at most `norm`; longer ones are cut to it, or dropped.

    The weights w_k = n_k / sum_j n_j are those of FedAvg. A row that is cut down counts w_k norm /
    |u_k|, so the weights sum to less than 1; those that are dropped do not count in the sum. The
    figure `updates_beyond` counts both.
    """

    kind: Literal["norm-filter"] = "norm-filter"
    norm: float | None = Field(None, ge=1e-12, le=1e12)
    """largest L2 norm; none: the median of the decoded updates of a model"""
    beyond: Literal["cut", "drop"] = "cut"
    """what becomes of longer updates: cut down to the norm, or dropped"""
    reference = "Sun et al., Can You Really Backdoor Federated Learning?, 2019, Section 4"
    offers = frozenset({COMPARES})
    needs = _SEES_ROWS

    def start(self) -> LastFigures:
        return LastFigures()

    def compute_weights(
        self, received: Received, facts: RoundContext, state: LastFigures
    ) -> tuple[FloatArray, LastFigures]:
        updates = received.updates
        size = updates.norm()
        largest = np.full(len(size), self.norm or np.inf)
        decoded = np.flatnonzero(received.decoded)
        if self.norm is None:
            for _, which in list_rows_of_models(updates.model[decoded]):
                largest[decoded[which]] = np.median(size[decoded[which]])
        beyond = received.decoded & (size > largest)
        counts = received.decoded & ~beyond if self.beyond == "drop" else received.decoded
        mass = np.where(counts, updates.count, 0.0)
        weights = divide_by_sums(mass, updates.model, facts.public.n_model)
        weights[beyond] *= largest[beyond] / size[beyond]
        return weights, LastFigures({"updates_beyond": float(beyond.sum())})
