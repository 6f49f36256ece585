"""Aggregation that outlasts malicious updates: it looks at each of them, not at their sum alone."""

from abc import abstractmethod
from typing import Literal

import numpy as np
from pydantic import Field

from fl.aggregation import Aggregation, FedAvg, divide_by_sums
from fl.server_optimiser import MODEL_CHANGES
from fl.types import LastFigures, Received, RoundContext, State, Updates
from netsim.units import FloatArray

_SEES_ROWS = {"updates": "looks at single updates, and a sum of them is all that the server gets"}


class CoordinateRule(Aggregation):
    """The mean of each number of the decoded rows of a model by itself, without its smallest and
    largest values. All rows count alike, whatever their samples: weights on record are 1 / n.
    """

    offers = frozenset({"compared rows", "merged by number"})
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
        for m in np.unique(updates.model[weights > 0]):
            rows = np.flatnonzero((weights > 0) & (updates.model == m))
            cut = self.count_outliers(len(rows))
            ascending = np.sort(updates.rows(rows), axis=0)
            total[m] = ascending[cut : len(rows) - cut].mean(axis=0)
        return total

    @abstractmethod
    def count_outliers(self, n: int) -> int:
        """Number of the smallest values that are left out of n, and of the largest."""


class CoordinateMedian(CoordinateRule):
    """The median of each number of the decoded rows; of an even number of rows the mean of both
    middle ones.
    """

    kind: Literal["coordinate-median"] = "coordinate-median"
    reference = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, "
        "2018, Algorithm 1, Option I"
    )

    def count_outliers(self, n: int) -> int:
        return (n - 1) // 2


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

    def count_outliers(self, n: int) -> int:
        return int(self.trim * n + 1e-9)


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
    offers = frozenset({"compared rows"})
    needs = _SEES_ROWS

    @property
    def fewest_updates(self) -> int:
        return 2 * self.malicious + 3

    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, LastFigures]:
        model = received.updates.model
        weights = np.zeros(len(model))
        too_few = 0.0
        for m in np.unique(model):
            rows = np.flatnonzero(received.decoded & (model == m))
            if len(rows) < self.fewest_updates:
                too_few += len(rows)
                continue
            nearest = len(rows) - self.malicious - 2
            scores = compute_krum_scores(received.updates.rows(rows), nearest)
            best = rows[np.argsort(scores, kind="stable")[: min(self.selected, nearest)]]
            weights[best] = 1.0 / len(best)
        return weights, LastFigures({"updates_too_few": too_few})

    def start(self) -> LastFigures:
        return LastFigures()


def compute_krum_scores(rows: FloatArray, nearest: int) -> FloatArray:
    """Sum of squared distances (n,) of each row (n, d) to that many nearest others."""
    from scipy.spatial.distance import pdist, squareform

    apart = np.sort(squareform(pdist(rows, "sqeuclidean")), axis=1)
    return apart[:, 1 : nearest + 1].sum(axis=1)  # the first is that to itself


class NormFilter(Aggregation):
    """FedAvg of updates that the server cuts down to an L2 norm of at most `norm`.

    A row u_k counts w_k min(1, norm / |u_k|), with the weights w_k of FedAvg, so that weights sum
    to less than 1. Unlike a `clip`, which UEs do themselves, it holds malicious ones too.
    """

    kind: Literal["norm-filter"] = "norm-filter"
    norm: float = Field(1.0, ge=1e-12, le=1e12)
    """largest L2 norm that an update counts with"""
    reference = "Sun et al., Can You Really Backdoor Federated Learning?, 2019, Section 4"
    needs = _SEES_ROWS

    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, State]:
        weights, _ = FedAvg().compute_weights(received, facts, state)
        return weights * self.norm / np.maximum(received.updates.norm(), self.norm), state
