"""Which studies have rounds that can be recorded once and judged again at other powers."""

from __future__ import annotations

from fl.availability.battery import Battery
from fl.defenses.budgeted import Budgeted
from fl.defenses.noise_switch import NoiseSwitch
from fl.server.synchronous import Synchronous
from netsim.radio.noma import Noma
from rl.settings import Online, Train
from scenarios.app.study.study import Study


def settings(study: Study) -> tuple[Train, Online]:
    """What is trained."""
    how = study.train or Train()
    if not isinstance(how.task, Online):
        raise TypeError("another task")
    return how, how.task


def unrecorded(study: Study) -> str | None:
    """Why rounds of a study cannot be judged again at other powers; None where the radio alone decides what they cost,
    by the laws of `rl.radio_records`.
    """
    uplink, learning, (_, task) = study.world.radio.uplink, study.learned, settings(study)
    noisy = [d for d in learning.defenses if isinstance(d, Budgeted | NoiseSwitch)]
    server = learning.server
    if not isinstance(uplink, Noma) or uplink.decoding != "noisy":
        return "world.radio.uplink: recorded rounds need kind: noma with decoding: noisy"
    if study.world.radio.air is not None:
        return "world.radio.air: recorded rounds need transmissions that are planned"
    if not isinstance(server, Synchronous) or server.first is not None or server.deadline_s is not None:
        return "learning.server: recorded rounds need a server that waits for all, until the uplink's deadline"
    if len(noisy) > 1 or any(not isinstance(d, NoiseSwitch) or d.mode != "top-up" for d in noisy):
        return "learning.defenses: recorded rounds need budgets of one noise-switch with mode: top-up, or none"
    if isinstance(learning.availability, Battery):
        return "learning.availability: recorded rounds need presence that powers do not change; kind: battery does"
    if task.reward.beyond_radio:
        return f"train.task.reward.{task.reward.beyond_radio[0]}: recorded rounds do not tell it"
    return None
