r"""Membership inference by models that the attacker trains by itself, with each record and without
it.

How well a model knows a record, compared with how well models know it that learned from it, and
models that did not: what is easy or hard to learn for everybody hides nothing. What a shadow model
is says `Membership`.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fl.membership.base import AskedRecords, Inference
from netsim.units import ArrayPair, BoolArray, FloatArray


class ShadowInference(Inference):
    """An attack that compares with shadow models."""

    needs = {
        **Inference.needs,
        "starting weights": "its shadow models start there; add weights to threat.knowledge",
        "training details": "it trains shadow models as UEs do; add training to threat.knowledge",
    }

    has_score_before = False


class Lira(ShadowInference, kind="lira"):
    r"""Likelihood ratio attack: how a model knows the record, by normal laws of those with it and
    those without it::

        online    score = log N(phi; mu_in, sigma_in^2) - log N(phi; mu_out, sigma_out^2)
        offline   score = (phi - mu_out) / sigma_out

    phi is a statistic of the record's loss l that is nearly normal over models. Of a class with
    probability p = exp(-l) it is log(p / (1 - p)). Of a squared error it is -l^(1/3) [Wilson and
    Hilferty 1931]: l / sigma^2 is then a chi-square, whose cube root is nearly normal. Means are of
    each record; variances too from 64 shadow models on, of fewer all records share them.
    """

    mode: Literal["online", "offline"] = "online"
    """models it compares with: those with and those without the record, or those without it
    alone"""

    reference = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramer, Membership Inference Attacks From First "
        "Principles, 2022; Wilson and Hilferty 1931"
    )

    def score(self, query: AskedRecords) -> FloatArray:
        loss, inside = query.shadows()
        shadow_phi = _compute_phi(query, loss)
        phi = _compute_phi(query, query.compute_losses(query.after))
        mean, std = _fit_normal(shadow_phi, ~inside)
        if self.mode == "offline":
            return (phi - mean) / std
        from scipy.stats import norm  # here, since it loads for long

        return norm.logpdf(phi, *_fit_normal(shadow_phi, inside)) - norm.logpdf(phi, mean, std)


class Rmia(ShadowInference, kind="rmia"):
    r"""Robust attack: how much likelier the record is under the model than under others::

        score = log p - log q,    q = q_in + q_out,    offline    q = (1 + a) q_out + 1 - a

    p is its likelihood under the model, q_in and q_out the mean likelihoods under shadow models
    with it and without it. Of a squared error l it is exp(-l / 2 s^2), s^2 the mean loss under all
    shadow models. The published score is the share of population records z with (p / q) / (p_z /
    q_z) >= gamma: where all records are compared with the same z, here all that the attacker holds,
    it orders them as p / q does, and a gamma far from 1 only makes ties.
    """

    offline_a: float | None = Field(default=None, ge=0, le=1)
    """how likelihoods with the record follow from those without it (a); none: online"""

    reference = "Zarifzadeh, Liu, Shokri, Low-Cost High-Power Membership Inference Attacks, 2024"

    def score(self, query: AskedRecords) -> FloatArray:
        loss, inside = query.shadows()
        scale = 1.0 if query.learner.loss_in_nats else 2 * np.nanmean(loss)
        likelihood = np.exp(-loss / scale)
        q_in, _ = _fit_normal(likelihood, inside)
        q, _ = _fit_normal(likelihood, ~inside)
        if self.offline_a is not None:
            q_in = 1 - self.offline_a * (1 - q)
        return -query.compute_losses(query.after) / scale - np.log(q_in + q + 1e-12)


def _compute_phi(query: AskedRecords, loss: FloatArray) -> FloatArray:
    """The statistic phi of losses that is nearly normal over models, see `Lira`."""
    if query.learner.loss_in_nats:
        return -np.log(np.expm1(np.clip(loss, 1e-12, 500.0)))
    return -np.cbrt(loss)


def _fit_normal(value: FloatArray, is_used: BoolArray) -> ArrayPair:
    """Mean and standard deviation (N,) of some of the values (N, K)."""
    std = value.std(axis=1, ddof=1, where=is_used)
    if is_used.shape[1] < 64:
        std[:] = np.sqrt(np.nanmean(std**2))
    return value.mean(axis=1, where=is_used), std + 1e-12
