"""The membership slot: a score for each record that an attacker holds, the higher the likelier a member."""

from abc import abstractmethod
from typing import ClassVar, Literal

from fl.learners import Learner
from fl.types import Model
from netsim.columns import frozen
from netsim.part import Named
from netsim.units import FloatArray, IntArray


@frozen
class AskedRecords:
    """Records x (N, p), y (N,), and the models before and after the round, of which the i-th is asked model_of[i]."""

    learner: Learner
    before: Model
    after: Model
    model_of: IntArray
    x: FloatArray
    y: FloatArray

    def losses(self, model: Model) -> FloatArray:
        """Loss (N,) of each record under its own of these models."""
        return self.learner.record_losses(model, self.model_of, self.x, self.y)


class Inference(Named):
    """An attack on membership. It sees models that the threat grants, and records; never which of them are members."""

    kind: str
    needs: ClassVar = {
        "record loss": "asks how well a model knows a record; the learner cannot say",
    }

    @property
    def has_score_before(self) -> bool:
        """Whether it can be asked of the models before training: not where it compares with those of a round before."""
        return True

    @abstractmethod
    def score(self, asked: AskedRecords) -> FloatArray:
        """Scores (N,) of the records."""


class LossThreshold(Inference):
    """Says member where the model's error on the record is small: score = -loss(after).

    `reference_model: before` scores by how much the round improved it, loss(before) - loss(after): records that were
    hard or easy all along no longer hide the difference.
    """

    kind: Literal["loss-threshold"] = "loss-threshold"
    reference_model: Literal["none", "before"] = "none"
    """what the loss is compared with: nothing, or the loss before the round"""

    reference: ClassVar = (
        "Yeom, Giacomelli, Fredrikson, Jha, Privacy Risk in Machine Learning, 2018; "
        "Watson, Guo, Cormode, Sablayrolles, On the Importance of Difficulty Calibration, 2022 (reference model)"
    )

    @property
    def has_score_before(self) -> bool:
        return self.reference_model == "none"

    def score(self, asked: AskedRecords) -> FloatArray:
        score = -asked.losses(asked.after)
        return score if self.reference_model == "none" else score + asked.losses(asked.before)


class GradientNorm(Inference):
    """Says member where the record would hardly change the model: score = -|gradient of its loss in all parameters|."""

    kind: Literal["gradient-norm"] = "gradient-norm"
    needs: ClassVar = {
        "record gradient": "asks how far a single record would move the model; the learner cannot say",
    }

    reference: ClassVar = "Nasr, Shokri, Houmansadr, Comprehensive Privacy Analysis of Deep Learning, 2019"

    def score(self, asked: AskedRecords) -> FloatArray:
        return -asked.learner.record_gradient_norms(asked.after, asked.model_of, asked.x, asked.y)
