"""The round of the switch that a learned policy planned for, written into the study that plays it."""

from __future__ import annotations

import numpy as np

from netsim.errors import BadInput
from netsim.units import w_from_dbm
from rl.ddpg_power import Ddpg, settled
from scenarios.app.run.channel import snr_of_round
from scenarios.app.run.simulate import Planned
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
