"""Aggregation that outlasts malicious updates: it looks at each of them, not at their sum alone."""

import numpy as np
from pydantic import Field

from fl.aggregation import Aggregation, FedAvg
from fl.server_optimiser import MODEL_CHANGES
from fl.types import Received, RoundContext, State, Updates
from netsim.part import Count
from netsim.units import FloatArray, IntArray

_NEEDS = {
    "updates": "looks at single updates, and a sum of them is all that the server gets",
    MODEL_CHANGES: (
        "it compares changes of a model, and the updates of this learner are no differences of "
        "weights; take aggregation fedavg"
    ),
}


class ChosenRows(Aggregation):
    """Equal weights of the decoded rows of a model that a rule chooses by comparing them, whatever
    their samples.
    """

    offers = frozenset({"compared rows"})
    needs = _NEEDS

    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, State]:
        model = received.updates.model
        weights = np.zeros(len(model))
        for m in np.unique(model):
            rows = np.flatnonzero(received.decoded & (model == m))
            if len(rows) >= self.fewest_updates:
                chosen = rows[self.choose_rows(received.updates.rows(rows))]
                weights[chosen] = 1.0 / len(chosen)
        return weights, state

    def choose_rows(self, rows: FloatArray) -> IntArray:
        """Which of rows (n, d), at least `fewest_updates`, count."""
        return np.arange(len(rows))


class CoordinateMedian(ChosenRows, kind="coordinate-median"):
    """The median of each number of the decoded rows; of an even number of rows the mean of both
    middle ones. All rows count alike: weights on record are 1 / n.
    """

    reference = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, "
        "2018, Algorithm 1, Option I"
    )
    offers = frozenset({"compared rows", "merged by number"})

    def merge_rows(self, updates: Updates, weights: FloatArray, n_model: int) -> FloatArray:
        total = np.zeros((n_model, updates.n_parameters))
        for m in np.unique(updates.model[weights > 0]):
            rows = np.flatnonzero((weights > 0) & (updates.model == m))
            cut = self.count_outliers(len(rows))
            ascending = np.sort(updates.rows(rows), axis=0)
            total[m] = ascending[cut : len(rows) - cut].mean(axis=0)
        return total

    def count_outliers(self, n: int) -> int:
        """Number of the smallest values that are left out of n, and of the largest."""
        return (n - 1) // 2


class TrimmedMean(CoordinateMedian, kind="trimmed-mean"):
    """The mean of each number of the n decoded rows, without its floor(trim n) smallest and as many
    largest values. All rows count alike: weights on record are 1 / n.
    """

    trim: float = Field(0.2, ge=0, lt=0.5)
    """share of the rows that is left out at either end, at least that of malicious UEs (beta)"""
    reference = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, "
        "2018, Algorithm 1, Option II"
    )

    def count_outliers(self, n: int) -> int:
        return int(self.trim * n + 1e-9)


class Krum(ChosenRows, kind="krum"):
    r"""Takes the update that lies nearest to its n - f - 2 nearest others, by the sum of squared
    distances; of equal ones that of the UE with the lowest number.

    `selected` m (multi-Krum) takes the mean of the m best, at most n - f - 2. Its promise takes n
    >= 2 f + 3 updates of a model: fewer have weight 0, and the model stays where it is. Samples do
    not count.
    """

    malicious: int = Field(1, ge=0, le=1_000_000)
    """largest number of malicious UEs in a merge (f)"""
    selected: Count = 1
    """number of the best updates that are averaged (m)"""
    reference = (
        "Blanchard et al., Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, "
        "2017, Section 4"
    )
    example = {"kind": "krum", "malicious": 0}

    @property
    def fewest_updates(self) -> int:
        return 2 * self.malicious + 3

    def choose_rows(self, rows: FloatArray) -> IntArray:
        nearest = len(rows) - self.malicious - 2
        scores = compute_krum_scores(rows, nearest)
        return np.argsort(scores, kind="stable")[: min(self.selected, nearest)]


def compute_krum_scores(rows: FloatArray, nearest: int) -> FloatArray:
    """Sum of squared distances (n,) of each row (n, d) to that many nearest others."""
    from scipy.spatial.distance import pdist, squareform

    apart = np.sort(squareform(pdist(rows, "sqeuclidean")), axis=1)
    return apart[:, 1 : nearest + 1].sum(axis=1)  # the first is that to itself


class NormFilter(Aggregation, kind="norm-filter"):
    """FedAvg of updates that the server cuts down to an L2 norm of at most `norm`.

    A row u_k counts w_k min(1, norm / |u_k|), with the weights w_k of FedAvg, so that weights sum
    to less than 1. Unlike a `clip`, which UEs do themselves, it holds malicious ones too.
    """

    norm: float = Field(1.0, ge=1e-12, le=1e12)
    """largest L2 norm that an update counts with"""
    reference = "Sun et al., Can You Really Backdoor Federated Learning?, 2019, Section 4"
    needs = _NEEDS

    def compute_weights(
        self, received: Received, facts: RoundContext, state: State
    ) -> tuple[FloatArray, State]:
        weights, _ = FedAvg().compute_weights(received, facts, state)
        return weights * self.norm / np.maximum(received.updates.norm(), self.norm), state
