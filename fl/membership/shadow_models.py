r"""Membership inference by models that the attacker trains by itself, with each record and without it.

How well a model knows a record, compared with how well models know it that learned from it, and models that did not:
what is easy or hard to learn for everybody hides nothing. What a shadow model is says `Membership`.
"""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.learners import Learner
from fl.membership.base import AskedRecords, Inference, Shadows
from netsim.units import BoolArray, FloatArray

_FEW = 64  # shadow models below which records share their variances
_LEAST = 1e-12  # variance
_TINY = float(np.finfo(np.float64).tiny)


class ShadowInference(Inference):
    """An attack that compares with shadow models."""

    kind: str
    needs: ClassVar = {
        "record loss": "asks how well a model knows a record; the learner cannot say",
        "starting weights": "its shadow models start there; add weights to threat.knowledge",
        "training details": "it trains shadow models as UEs do; add training to threat.knowledge",
    }

    @property
    def has_score_before(self) -> bool:
        return False

    def score(self, asked: AskedRecords) -> FloatArray:
        if asked.shadows is None:
            raise ValueError(f"{self.label}: no shadow models were trained")
        return self.compared(asked.learner, asked.losses(asked.after), asked.shadows)

    @abstractmethod
    def compared(self, learner: Learner, loss: FloatArray, shadows: Shadows) -> FloatArray:
        """Scores (N,) of records with these losses (N,) under the models that are asked."""


class Lira(ShadowInference):
    r"""Likelihood ratio attack: how a model knows the record, by normal laws of those with it and those without it::

        online    score = log N(phi; mu_in, sigma_in^2) - log N(phi; mu_out, sigma_out^2)
        offline   score = (phi - mu_out) / sigma_out

    phi is a statistic of the record's loss l that is nearly normal over models. Of a class with probability p = exp(-l)
    it is log(p / (1 - p)). Of a squared error it is -l^(1/3) [Wilson and Hilferty 1931]: l / sigma^2 is then a
    chi-square, whose cube root is nearly normal. Means are of each record; variances too from 64 shadow models on, of
    fewer all records share them.
    """

    kind: Literal["lira"] = "lira"
    mode: Literal["online", "offline"] = "online"
    """models it compares with: those with and those without the record, or those without it alone"""

    reference: ClassVar = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramer, Membership Inference Attacks From First Principles, 2022; "
        "Wilson and Hilferty 1931"
    )

    def compared(self, learner: Learner, loss: FloatArray, shadows: Shadows) -> FloatArray:
        known = _confidence(learner, loss)
        of_models = _confidence(learner, shadows.loss)
        score = np.zeros(len(loss))
        for sign, inside in ((-1.0, ~shadows.inside), (1.0, shadows.inside)):
            mean, variance = _moments(of_models, inside)
            if inside.shape[1] < _FEW:
                there = np.isfinite(variance)
                variance = np.where(there, variance[there].sum() / max(there.sum(), 1), np.nan)
            variance = np.maximum(variance, _LEAST)
            if self.mode == "offline":
                return (known - mean) / np.sqrt(variance)
            score -= sign * 0.5 * ((known - mean) ** 2 / variance + np.log(variance))
        return score


class Rmia(ShadowInference):
    r"""Robust attack: the share of the population against which the record's likelihood ratio is large enough::

        score(x) = share of z with  (p(x) / q(x)) / (p(z) / q(z)) >= gamma

    p is the likelihood of a record under the model, q the mean of those under shadow models: half with the record, half
    without it; offline those without it alone, from which q = ((1 + a) q_out + 1 - a) / 2 is guessed. Of a squared
    error l it is exp(-l / 2 s^2), s^2 the mean loss where a shadow model did not learn from the record. The population
    are all records that the attacker holds, each under the model that is asked about it: those of one UE are few.
    """

    kind: Literal["rmia"] = "rmia"
    likelihood_ratio: float = Field(default=1.0, gt=0, le=1e6)
    """ratio from which a record is likelier a member than one of the population (gamma)"""
    offline_a: float | None = Field(default=None, ge=0, le=1)
    """how likelihoods with the record follow from those without it (a); none: online"""

    reference: ClassVar = (
        "Zarifzadeh, Liu, Shokri, Low-Cost High-Power Membership Inference Attacks, 2024 (Equations 2 to 4, 10)"
    )

    def compared(self, learner: Learner, loss: FloatArray, shadows: Shadows) -> FloatArray:
        scale = 1.0
        if not learner.loss_in_nats:
            outside = shadows.loss[~shadows.inside & np.isfinite(shadows.loss)]
            scale = 0.5 * outside.size / max(float(outside.sum()), _TINY)
        q_in, q = (_moments(np.exp(-scale * shadows.loss), of)[0] for of in (shadows.inside, ~shadows.inside))
        q = 0.5 * (q_in + q) if self.offline_a is None else 0.5 * ((1 + self.offline_a) * q + 1 - self.offline_a)
        ratio = (np.exp(-scale * loss) + _TINY) / (q + _TINY)
        known = np.isfinite(ratio)
        population = np.sort(ratio[known])
        beaten = np.searchsorted(population, ratio / self.likelihood_ratio, side="right") / max(len(population), 1)
        return np.where(known, beaten, np.nan)


def _confidence(learner: Learner, loss: FloatArray) -> FloatArray:
    """Statistic of losses, the higher the better a model knows a record; see `Lira`."""
    if not learner.loss_in_nats:
        return -np.cbrt(loss)
    return -loss - np.log(-np.expm1(-np.maximum(loss, _LEAST)))


def _moments(value: FloatArray, of: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (N,) of those of the values (N, K) that are finite; NaN of none."""
    of = of & np.isfinite(value)
    count = of.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(of, value, 0.0).sum(axis=1) / count
        square = np.where(of, value - mean[:, None], 0.0) ** 2
        return mean, square.sum(axis=1) / (count - 1)
