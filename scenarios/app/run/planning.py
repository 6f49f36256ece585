"""A study with its plan written in: powers, the round of the switch, the noise of the receiver."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fl.power.bound import PowerLoss, Trajectory
from fl.power.search import Limits, average, evolution, full, plateaus
from netsim.errors import BadInput
from netsim.radio.power_rules import Listed
from netsim.rng import Streams
from netsim.units import FloatArray, w_from_dbm
from rl.ddpg_power import Ddpg, settled
from scenarios.app.run.channel import snr_of_round
from scenarios.app.run.reference_run import reference
from scenarios.app.run.simulate import Planned
from scenarios.app.study.plan import Plan
from scenarios.app.study.study import Study


def learned_plan(study: Study) -> Planned:
    """The study with T_th of its policy in defenses that wait for one; as it is where none waits or none has learnt.

    T_th is that of the policy's reference run at the powers that UEs send with, over the first round's channel if the
    policy observes channels.

    Raises
    ------
    BadInput : one line: a policy that plans no switch.
    """
    waiting = [d.label for d in study.learned.defenses if d.waits]
    if not waiting or not isinstance(study.power, Ddpg):
        return Planned(study, {})
    policy = study.power.learnt()
    if policy.card.task == "online" or policy.card.criterion == "top-up":
        what = "acts online" if policy.card.task == "online" else "was trained with criterion: top-up"
        raise BadInput(
            f"learning.defenses: {waiting[0]} with mode: planned has no round: the policy {what}; give until_round "
            "or mode: top-up"
        )
    snr_per_w = snr_of_round(study, study.seed) if policy.card.observe == "channel" else np.zeros(policy.card.ues)
    problem, wanted_w = settled(policy, snr_per_w)
    power_w = np.minimum(wanted_w, float(w_from_dbm(study.world.ues.max_power_dbm)))
    outcome = problem.tried(power_w)
    defenses = tuple(d.switched(outcome.switch) for d in study.learned.defenses)
    written = study.model_copy(update={"learning": study.learned.model_copy(update={"defenses": defenses})})
    said = {
        "reference": problem.objective.trajectory.content, "switch_round": outcome.switch, "objective": outcome.value,
        "total_w": float(power_w.sum()), "power_w": [float(w) for w in power_w],
    }  # fmt: skip
    return Planned(written, said)


def planned(study: Study, cache: Path) -> Planned:
    """The study with powers, switch and noise in their places; without a plan, with the switch of its learned policy.

    Reference runs come from the cache where they are there.

    Raises
    ------
    BadInput : one line: a bound that does not contract, limits that nobody can keep, an uplink without a plan.
    """
    plan = study.plan
    if plan is None:
        return learned_plan(study)
    try:
        return _planned(study, plan, cache)
    except ValueError as error:
        raise BadInput(f"plan: {error}") from None


def _planned(study: Study, plan: Plan, cache: Path) -> Planned:
    trajectory, written = reference(reference_study(study), cache), study
    own = _own(trajectory)[None]
    if plan.switch_share is not None:
        calm = PowerLoss(trajectory, plan.bound, plan.criterion)
        factor = calm.noise_factor(own[0], max(1, round(plan.switch_share * len(trajectory.std))))
        trajectory, written = trajectory.louder(factor), _with_noise(study, _noise_w(study) * factor)
    objective, limits = PowerLoss(trajectory, plan.bound, plan.criterion), reachable(plan.limits, study)
    if plan.power == "evolution":
        best = evolution(objective, limits, Streams(study.seed).at("plan"))
    else:
        best = {"average": average, "full": full, "plateaus": plateaus}[plan.power](objective, limits)
    written = written.model_copy(
        update={
            "plan": None, "power": Listed(each_w=tuple(float(w) for w in best.power_w)),
            "learning": study.learned.model_copy(
                update={"defenses": tuple(d.switched(best.switch) for d in study.learned.defenses)}
            ),
        }
    )  # fmt: skip
    said = {
        "reference": trajectory.content, "noise_w": _noise_w(written),
        "own_switch_round": int(objective.switch(own)[0]), "own_objective": float(objective(own)[0]),
        "own_total_w": float(own.sum()), "switch_round": best.switch, "objective": best.value,
        "total_w": float(best.power_w.sum()), "evaluations": best.evaluations,
        "power_w": [float(w) for w in best.power_w],
    }  # fmt: skip
    return Planned(written, said)


def reachable(limits: Limits, study: Study) -> Limits:
    """The limits, with no more for each UE than it can send with."""
    most_w = float(w_from_dbm(study.world.ues.max_power_dbm))
    if most_w < limits.each_min_w:
        raise ValueError(
            f"limits: world.ues.max_power_dbm is {most_w:.4g} W, below each_min_w {limits.each_min_w:g}; lower "
            "that, or raise the other"
        )
    return limits.model_copy(update={"each_max_w": min(limits.each_max_w, most_w)})


def _own(trajectory: Trajectory) -> FloatArray:
    """What each UE sent with in the reference run (K,)."""
    if trajectory.power_w is None or not (trajectory.power_w > 0).all():
        raise ValueError("a UE never sent in the reference run; plan for UEs that take part")
    return trajectory.power_w


def reference_study(study: Study) -> Study:
    """The study of the reference run: all artificial noise, nobody who looks."""
    learning = study.learned
    defenses = tuple(d.all_drawn() for d in learning.defenses)
    unseen = {"defenses": defenses, "attacks": (), "membership": None}
    return study.model_copy(update={"plan": None, "vary": None, "learning": learning.model_copy(update=unseen)})


def _noise_w(study: Study) -> float:
    """Noise power of the receiver."""
    return study.world.radio.uplink.band_noise_w()


def _with_noise(study: Study, noise_w: float) -> Study:
    """The study with this much receiver noise."""
    world = study.world
    uplink = world.radio.uplink.model_copy(update={"noise_w": noise_w})
    radio = world.radio.model_copy(update={"uplink": uplink})
    return study.model_copy(update={"world": world.model_copy(update={"radio": radio})})
