r"""The membership slot: a score for each record that an attacker holds, the higher the likelier a
member.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import inf, nan
from typing import ClassVar, Literal

import numpy as np

from fl.attacks.base import View
from fl.learners import Learner
from fl.types import Model
from netsim.columns import frozen, no_floats
from netsim.errors import BadInput
from netsim.part import Named, Positive
from netsim.units import ArrayPair, BoolArray, FloatArray, IntArray


@frozen
class AskedRecords:
    """Records x (N, p), y (N,), and the models before and after the round, of which the i-th is
    asked model_of[i].

    shadows() : losses (N, K) of the records under shadow models, and which of these learned from
    them (N, K).
    """

    learner: Learner
    before: Model
    after: Model
    model_of: IntArray
    x: FloatArray
    y: FloatArray
    shadows: Callable[[], tuple[FloatArray, BoolArray]]

    def compute_losses(self, model: Model) -> FloatArray:
        """Loss (N,) of each record under its own of these models."""
        return self.learner.compute_record_losses(model, self.model_of, self.x, self.y)


class Inference(Named):
    """An attack on membership. It sees models that the threat grants, and records; never which of
    them are members.
    """

    kind: str = ""
    needs = {
        "record loss": "asks how well a model knows a record; the learner cannot say",
    }

    has_score_before: ClassVar = True
    """whether its score of the models before training is a baseline: not where it compares with
    other models"""

    @abstractmethod
    def score(self, query: AskedRecords) -> FloatArray:
        """Scores (N,) of the records."""


class LossThreshold(Inference, kind="loss-threshold"):
    """Says member where the model's error on the record is small: score = -loss(after).

    `reference_model: before` scores by how much the round improved it, loss(before) - loss(after):
    records that were hard or easy all along no longer hide the difference.
    """

    reference_model: Literal["none", "before"] = "none"
    """what the loss is compared with: nothing, or the loss before the round"""

    reference = (
        "Yeom, Giacomelli, Fredrikson, Jha, Privacy Risk in Machine Learning, 2018; "
        "Watson, Guo, Cormode, Sablayrolles, On the Importance of Difficulty "
        "Calibration, 2022 (reference model)"
    )

    @property
    def has_score_before(self) -> bool:  # type: ignore[override]
        return self.reference_model == "none"

    def score(self, query: AskedRecords) -> FloatArray:
        score = -query.compute_losses(query.after)
        if self.reference_model == "none":
            return score
        return score + query.compute_losses(query.before)


class GradientNorm(Inference, kind="gradient-norm"):
    """Says member where the record would hardly change the model: score = -|gradient of its loss in
    all parameters|.
    """

    needs = {
        "record gradient": (
            "asks how far a single record would move the model; the learner cannot say, and none "
            "with batch normalisation can"
        ),
    }

    reference = "Nasr, Shokri, Houmansadr, Comprehensive Privacy Analysis of Deep Learning, 2019"

    def score(self, query: AskedRecords) -> FloatArray:
        return -query.learner.compute_record_gradient_norms(
            query.after, query.model_of, query.x, query.y
        )


_MOST_RECORDS = 6000  # of one regression: a matrix of 288 MB
_MOST_NUMBERS = 200_000_000  # of the gradients of an update's records
# variance of what the records leave of an update, as a share of its mean square
_LEAST_NOISE = 1e-12


@frozen
class Evidence:
    """Normal equations so far of records (n,) known by their keys (n, k): precision (n, n) and pull
    (n,).
    """

    key: FloatArray
    precision: FloatArray
    pull: FloatArray

    def select_records(self, key: FloatArray) -> "Evidence":
        """Select the records with these keys; new ones are 0, and records no longer asked are
        dropped.
        """
        n = len(key)
        fresh = Evidence(key, np.zeros((n, n)), np.zeros(n))
        row_of_key = {row.tobytes(): i for i, row in enumerate(self.key)}
        index = np.array([row_of_key.get(row.tobytes(), -1) for row in key], dtype=int)
        new = np.flatnonzero(index >= 0)
        old = index[new]
        fresh.precision[np.ix_(new, new)] = self.precision[np.ix_(old, old)]
        fresh.pull[new] = self.pull[old]
        return fresh


class GradientRegression(Inference, kind="gradient-regression"):
    r"""Says member where an update holds the record's gradient, all records explained together,
    over rounds.

    Gradient descent from weights w_r makes the update of round r of n records

        -u_r = sum_i c_i g_i(m_r) + noise,

    with g_i the gradient of record i's loss, c_i > 0 of records that were learnt from and 0 of
    others. Weights move while a device learns: m_r is the middle of the step that the records
    explain at w_r if that leaves less than half of what w_r leaves, and w_r otherwise. With G_r the
    gradients of all records that the attacker holds of the UEs in an update, members or not, s_r^2
    the mean square of what they leave of u_r by themselves, P_r = G_r G_r^T / s_r^2, a prior N(0,
    v^2) of every c_i, and as much that changes from round to round (batches, steps away from m_r),
    the scores are the posterior mean

        c = (sum_r W_r P_r + I / v^2)^-1 sum_r -W_r G_r u_r / s_r^2,    W_r = (I + v^2 P_r)^-1.

    Under noise W_r is nearly I; without it no round weighs more than its prior.

    Records of alike gradients share what they explain, which a product of an update with one
    gradient does not see; and noise of several rounds averages out. Only tested rounds add up, so
    set `every_rounds: 1`. What the attacker knows of a record stays as long as it is asked about in
    every test; from sums it is of all UEs in them.
    """

    coefficient_std: Positive = 0.003
    """prior standard deviation of a record's coefficient (v), about learning rate x local steps /
    records"""

    reference = (
        "Bayesian linear regression (Lindley and Smith 1972) on the gradients of Nasr, "
        "Shokri, Houmansadr 2019"
    )
    needs = {
        "record gradients": (
            "explains updates by gradients of single records; the learner cannot compute them, and "
            "none with batch normalisation can"
        ),
        "linear server step": (
            "published models must differ by a sum of gradients; take fedavgm, or "
            "threat.observes: updates or aggregate"
        ),
        "starting weights": "it takes gradients there; add weights to threat.knowledge",
    }

    has_score_before = False

    def start(self) -> Evidence:
        return Evidence(np.zeros((0, 0)), np.zeros((0, 0)), no_floats())

    def score(self, query: AskedRecords) -> FloatArray:
        raise NotImplementedError("scores records together: see `regress`")

    def regress(
        self, view: View, target: IntArray, x: FloatArray, y: FloatArray, state: Evidence
    ) -> tuple[FloatArray, Evidence]:
        """Scores (N,) of records x (N, p), y (N,) of targets (N,) of the view, NaN without a finite
        update.
        """
        if len(x) > _MOST_RECORDS:
            raise BadInput(
                f"learning.membership.attacks: {self.label}: {len(x):,} records, at most "
                f"{_MOST_RECORDS:,} can be "
                f"explained together; set membership.max_records to {_MOST_RECORDS // 2} or fewer"
            )
        sources = view.source[target]
        key = np.column_stack([view.ue[target], view.model[target], y, x])
        total = state.select_records(key)
        heard = np.zeros(len(x), bool)
        for source in np.unique(sources).tolist():
            rows = np.flatnonzero(sources == source)
            u = view.update[source]
            if not np.isfinite(u).all() or not 0 < (u**2).mean() < inf:
                continue
            if len(rows) * len(u) > _MOST_NUMBERS:
                raise BadInput(
                    f"learning.membership.attacks: {self.label}: {len(rows):,} records x "
                    f"{len(u):,} parameters in an update, at most {_MOST_NUMBERS:,} numbers; set "
                    "a smaller membership.max_records or network"
                )
            evidence = self._explain_update(view, source, x[rows], y[rows])
            if evidence is not None:
                precision, pull = evidence
                total.precision[np.ix_(rows, rows)] += precision
                total.pull[rows] += pull
                heard[rows] = True
        return np.where(heard, self._solve_mean(total.precision, total.pull), nan), total

    def _explain_update(
        self, view: View, source: int, x: FloatArray, y: FloatArray
    ) -> ArrayPair | None:
        """W P (n, n) and -W G u / s^2 (n,) of an update, records x (n, p), y (n,); None of a
        network that diverged.
        """
        model = view.source_model[source]
        u = view.update[source]
        size = (u**2).mean()
        step = np.zeros_like(u)
        min_noise = inf
        best = None
        for _ in range(2):  # from the start, then from the middle of what that explains
            middle = Model(view.model_before.parameters.copy(), view.model_before.constants)
            middle.parameters[model] += step / 2
            g = view.learner.compute_record_gradients(middle, np.full(len(x), model), x, y)
            if not np.isfinite(g).all():
                break
            gram = g @ g.T
            pull = -(g @ u)
            noise = size
            for _ in range(2):  # what is left depends on how much noise is taken for granted
                step = -self._solve_mean(gram / noise, pull / noise) @ g
                noise = max(((u - step) ** 2).mean(), _LEAST_NOISE * size)
            if noise < min_noise / 2:
                min_noise = noise
                spread = self.coefficient_std**2 * gram / noise
                weight = np.linalg.inv(np.eye(len(x)) + spread)
                best = weight @ gram / noise, weight @ pull / noise
        return best

    def _solve_mean(self, precision: FloatArray, pull: FloatArray) -> FloatArray:
        """Posterior mean of the coefficients (n,)."""
        prior = np.eye(len(pull)) / self.coefficient_std**2
        return np.asarray(np.linalg.solve(precision + prior, pull))
