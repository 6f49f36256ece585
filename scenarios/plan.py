"""A plan: powers, the round of the switch and the receiver's noise, found on a reference run before the real one.

The reference is the study itself with its own power and receiver, with artificial noise in every round and nobody
looking: the trajectory for which the convergence bound is a law of power (`fl.bound`), frozen, as in the source. What
the plan finds is written into the study, which then runs as any other; `plan.json` in the run folder says what was
found. The run's own budgets may ask for more noise than the reference did: `enough_percent` of the switch says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fl.bound import Convergence, Criterion, Objective, Trajectory
from fl.defenses.noise_switch import NoiseSwitch
from fl.power_plan import Limits, average, evolution, full, plateaus
from netsim.errors import BadInput
from netsim.part import Part
from netsim.radio.power import Listed
from netsim.radio.shared_band import SharedBand
from netsim.radio.uplink import Uplink
from netsim.rng import Streams
from netsim.units import FloatArray, w_from_dbm

if TYPE_CHECKING:
    from scenarios.study import Study


class Plan(Part):
    """How powers are found, on the bound of a reference run."""

    power: Literal["average", "full", "plateaus", "evolution"] = "plateaus"
    """equal split of the middle or the most of the allowed total, SLSQP on each plateau, differential evolution"""
    limits: Limits = Limits()
    """what powers may be"""
    criterion: Criterion = "device"
    """when the channel's noise is enough: for each device, their sum, or (top-up) filled up by artificial noise"""
    bound: Convergence = Convergence()
    """constants of the bound"""
    switch_share: float | None = Field(default=None, gt=0, lt=1)
    """sets the receiver's noise so that, at the study's own power, it is enough after this share of the reference"""

    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 23-28"

    @model_validator(mode="after")
    def _has_plateaus(self) -> Self:
        if self.criterion == "top-up" and (self.power == "plateaus" or self.switch_share is not None):
            raise ValueError(
                "criterion: top-up has no switch, so no plateaus and no switch_share; take power: evolution, or "
                "criterion: device"
            )
        return self


@dataclass(frozen=True)
class Found:
    """The study with the plan written into it, and what was found, for plan.json."""

    study: Study
    said: dict[str, Any]


def check_plannable(uplink: Uplink) -> None:
    """Raise ValueError for an uplink whose noise does not fall with each UE's own power alone.

    Without interference what the model suffers and what may count as privacy are the same noise, so one trajectory
    serves both parts of the bound.
    """
    if not isinstance(uplink, SharedBand) or uplink.interference != "none" or uplink.decoding != "noisy":
        raise ValueError(
            "world.radio.uplink: the bound takes noise that falls with each UE's own power; set kind: noma with "
            "interference: none and decoding: noisy"
        )


def planned(study: Study, cache: Path) -> Found:
    """The study with powers, switch and noise in their places. Reference runs come from the cache where they are there.

    Raises
    ------
    BadInput : one line: a bound that does not contract, limits that nobody can keep, an uplink without a plan.
    """
    plan = study.plan
    if plan is None:
        return Found(study, {})
    try:
        return _planned(study, plan, cache)
    except ValueError as error:
        raise BadInput(f"plan: {error}") from None


def _planned(study: Study, plan: Plan, cache: Path) -> Found:
    from scenarios.trajectory import reference

    found, written = reference(_reference_of(study), cache), study
    own = _own(found)[None]
    if plan.switch_share is not None:
        calm = Objective(found, plan.bound, plan.criterion)
        factor = calm.noise_factor(own[0], max(1, round(plan.switch_share * len(found.std))))
        found, written = found.louder(factor), _with_noise(study, _noise_w(study) * factor)
    objective, limits = Objective(found, plan.bound, plan.criterion), _reachable(plan.limits, study)
    if plan.power == "evolution":
        best = evolution(objective, limits, Streams(study.seed).at("plan"))
    else:
        best = {"average": average, "full": full, "plateaus": plateaus}[plan.power](objective, limits)
    written = written.model_copy(
        update={
            "plan": None, "power": Listed(each_w=tuple(float(w) for w in best.power_w)),
            "learning": study.learning.model_copy(
                update={"defenses": tuple(_switched(d, best.switch) for d in study.learning.defenses)}
            ),
        }
    )  # fmt: skip
    said = {
        "reference": found.content, "noise_w": _noise_w(written),
        "own_switch_round": int(objective.switch(own)[0]), "own_objective": float(objective(own)[0]),
        "own_total_w": float(own.sum()), "switch_round": best.switch, "objective": best.value,
        "total_w": float(best.power_w.sum()), "evaluations": best.evaluations,
        "power_w": [float(w) for w in best.power_w],
    }  # fmt: skip
    return Found(written, said)


def _reachable(limits: Limits, study: Study) -> Limits:
    """The limits, with no more for each UE than it can send with."""
    most_w = float(w_from_dbm(study.world.ues.max_power_dbm))
    if most_w < limits.each_min_w:
        raise ValueError(
            f"limits: world.ues.max_power_dbm is {most_w:.4g} W, below each_min_w {limits.each_min_w:g}; lower "
            "that, or raise the other"
        )
    return limits.model_copy(update={"each_max_w": min(limits.each_max_w, most_w)})


def _own(found: Trajectory) -> FloatArray:
    """What each UE sent with in the reference run (K,)."""
    if found.power_w is None or not (found.power_w > 0).all():
        raise ValueError("a UE never sent in the reference run; plan for UEs that take part")
    return found.power_w


def _reference_of(study: Study) -> Study:
    """The study of the reference run: all artificial noise, nobody who looks."""
    learning = study.learning
    defenses = tuple(d.noise if isinstance(d, NoiseSwitch) else d for d in learning.defenses)
    unseen = {"defenses": defenses, "attacks": (), "membership": None}
    return study.model_copy(update={"plan": None, "vary": None, "learning": learning.model_copy(update=unseen)})


def _switched(defense: Any, switch: int) -> Any:
    """A noise switch that waits for the plan, with its round."""
    waits = isinstance(defense, NoiseSwitch) and defense.waits
    return defense.model_copy(update={"until_round": switch}) if waits else defense


def _noise_w(study: Study) -> float:
    """Noise power of the receiver."""
    uplink = study.world.radio.uplink
    return uplink.band_noise_w() if isinstance(uplink, SharedBand) else 0.0


def _with_noise(study: Study, noise_w: float) -> Study:
    """The study with this much receiver noise."""
    world = study.world
    uplink = world.radio.uplink.model_copy(update={"noise_w": noise_w})
    radio = world.radio.model_copy(update={"uplink": uplink})
    return study.model_copy(update={"world": world.model_copy(update={"radio": radio})})
