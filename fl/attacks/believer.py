"""Attacks on what another attack says of each round, with errors that are learnt on UEs made up."""

from dataclasses import field, replace
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field

from fl.attacks import ATTACKS
from fl.attacks.base import Attack, View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.learnt_errors import MAX_RANKS, LearntErrors, rank_places
from fl.attacks.place_maps import NeuronVotes
from fl.attacks.shadow_ues import Population
from fl.attacks.span import Span
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import History, Lifetimes
from fl.types import Estimates, Metrics, RoundContext, State
from netsim.columns import frozen
from netsim.part import Needs
from netsim.rng import Rng

OF_ROUNDS = ATTACKS.restrict(
    "closed-form",
    "dlg",
    "span",
    "neuron-votes",
    "weighted-centroid",
    "link-filter",
    "density-peak",
    "posterior",
)
"""Attacks that name places in every round"""
OUTLIER = 0.1
"""share of estimates that carry no information, where none is given"""
_SIMULATED_UES = 64
_ADD_UP = (
    Span,
    NeuronVotes,
)  # whose answers are of all rounds so far: they start from scratch in every round


@frozen
class Remembered:
    """of : state of the wrapped attack; errors : learnt on shadow UEs; history, lifetimes : of all
    its estimates.
    """

    of: State
    errors: LearntErrors = field(default_factory=LearntErrors)
    history: History = field(default_factory=lambda: History.empty(MAX_RANKS))
    lifetimes: Lifetimes = field(default_factory=Lifetimes)


Past = TypeVar("Past", bound=Remembered)


class Believer(Attack):
    """Makes something of the estimates of all rounds, by the law of their errors: given, or learnt
    on UEs made up.
    """

    of: Annotated[Attack, OF_ROUNDS] = ClosedForm(cloud=False)
    """the attack that names places in every round"""
    shadow_ues: int | None = Field(None, ge=1, le=10_000)
    """number of UEs that the attacker makes up; none: 64"""
    sigma_m: float | None = Field(None, ge=0.1, le=1e6)
    """error of an estimate, standard deviation a axis, m; none: learnt on UEs that the attacker
    makes up"""
    outlier: float | None = Field(None, ge=1e-6, lt=1)
    """with sigma_m: probability that an estimate says nothing; none: 0.1"""
    bias_m: float | None = Field(None, ge=0, le=1e6)
    """with sigma_m: the part of sigma_m that stays the same over rounds, m; none: 0"""

    space = {
        "of": (
            {"kind": "closed-form", "cloud": False},
            {"kind": "span", "layer": 1},
            {"kind": "neuron-votes"},
        ),
        "sigma_m": (100.0, 30.0, 300.0),
    }

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """Needs of the wrapped attack, and to make up UEs."""
        reason = (
            "learns the errors of estimates on UEs that it makes up; add {} to "
            "threat.knowledge, or give sigma_m"
        )
        learns = {
            "starting weights": reason.format("weights"),
            "training details": reason.format("training"),
        }
        return self.of.needs | (learns if self.sigma_m is None else {})

    def self_test(self, view: View, facts: RoundContext, rng: Rng) -> float | None:
        """Self-test of the wrapped attack on one round."""
        return self.of.self_test(view, facts, rng)

    def remember_estimates(
        self, view: View, facts: RoundContext, state: Past, population: Population, rng: Rng
    ) -> tuple[Estimates, Past]:
        """Estimates of the wrapped attack, and the state with them; its errors are learnt before.

        Where nothing is known of errors, nothing can be made of estimates, and the history has NaN.
        """
        fresh = isinstance(self.of, _ADD_UP)
        errors = state.errors
        if self.sigma_m is None:
            errors = errors.plus(
                view, facts, self.of, population, self.shadow_ues or _SIMULATED_UES, rng, fresh
            )
        estimates, inner = self.of.run(view, facts, self.of.start() if fresh else state.of, rng)
        names, z_m = rank_places(estimates, facts.public.area)
        is_named = np.isfinite(z_m[:, :, 0]).any(axis=1)
        names = names[is_named]
        z_m = z_m[is_named]
        if self.sigma_m is None:
            errors = replace(errors, pace=errors.pace.with_estimates(facts.round, names, z_m[:, 0]))
        model = self.choose_errors(errors)
        if model is None:
            model = ErrorModel.from_sigma(1.0, OUTLIER)
            z_m = np.full_like(z_m, np.nan)
        lives = state.lifetimes.add_round(names, facts, view.renames)
        history = state.history.add_look(facts, model, lives.find_senders(names), z_m)
        return estimates, replace(state, of=inner, errors=errors, history=history, lifetimes=lives)

    def choose_errors(self, learnt: LearntErrors) -> ErrorModel | None:
        """Given, or learnt; None before anything was learnt."""
        if self.sigma_m is None:
            return learnt.fitted
        return ErrorModel.from_sigma(self.sigma_m, self.outlier or OUTLIER, self.bias_m or 0.0)

    def summarise_errors(self, learnt: LearntErrors) -> Metrics:
        """The errors as figures: means over ranks."""
        errors = self.choose_errors(learnt)
        if errors is None:
            return {}
        return {
            "error_sigma_m": float(errors.share @ errors.sigma_m),
            "error_bias_m": errors.bias_m,
            "error_outlier": errors.outlier,
            "error_gain": float(errors.share @ errors.gain),
        }
