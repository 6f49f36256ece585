"""What a person should know of learning before it is played: above all leaks that no epsilon of a
study covers.
"""

from fl.data import SHARED_MODEL
from fl.notice import Prepared, notice
from fl.round.learning import Learning
from netsim.mobility.replay import Replay
from netsim.notice import Notices
from netsim.part import collect_parts
from netsim.radio.uplink import Ideal
from netsim.world.setting import WorldSetting
from netsim.world.world import World


def collect_notices(
    learning: Learning, prepared: Prepared, setting: WorldSetting, world: World
) -> Notices:
    """Those of all parts of learning, disclosures beside updates, which no noise hides, and limits
    of epsilon.
    """
    for part in collect_parts(learning):
        yield from part.notices(prepared)
    if prepared.has_epsilon and (values := _list_published_values(learning, setting, world)):
        yield notice("values-of-all-users", values=", ".join(values))
    if isinstance(setting.radio.uplink, Ideal) and not setting.ues.training_s_per_sample:
        for attack in learning.attacks:
            if attack.reads_times and learning.threat.times:
                yield notice("arrivals-at-once", attack.label)
    yield from collect_caveats(learning, setting.radio.uplink.shares_band)


def _list_published_values(learning: Learning, setting: WorldSetting, world: World) -> list[str]:
    """Values published beforehand that follow from the data of all users."""
    mobility = setting.ues.mobility
    trace = world.trace
    drawn = list[str]()
    if isinstance(mobility, Replay) and trace is not None:
        by_day = "day" in getattr(learning.data, "held_out_by", ())
        recorded = setting.ues.position_error_m == "recorded"
        timed = setting.duration_s is not None
        drawn += mobility.list_drawn_values(trace, setting.city.has_size, timed, by_day, recorded)
        alike = SHARED_MODEL in learning.data.offers
        if (
            mobility.cell == "all"
            and trace.rsrp_dbm is not None
            and not (alike or learning.data.named_cell)
        ):
            drawn.append("which cells there are (world.ues.mobility.cell)")
    if learning.data.wants_counts:
        drawn.append("the cell with most measurements (learning.data.cell)")
    return drawn


def collect_caveats(learning: Learning, shared_band: bool) -> Notices:
    """What several parts leave open together.

    shared_band: whether UEs share a radio in which one that sends can make the updates of others
    late, lost or noisier.
    """
    defenses = learning.defenses
    noisy = [d.label for d in learning.on_device]
    reasons = dict.fromkeys(learning.by_history, "who is silent depends on who has sent before")
    if learning.cohort_rounds > 1:
        reasons["cohort_rounds"] = f"who is drawn stays for {learning.cohort_rounds} rounds"
    if (
        reasons
        and learning.hides_who_came
        and learning.sampling == "poisson"
        and learning.participation < 1
    ):
        yield notice(
            "sampling-not-independent",
            rules=", ".join(reasons),
            reasons=" and ".join(dict.fromkeys(reasons.values())),
        )
    if not learning.hides_who_came:
        noisy = [d.label for d in defenses if "spend" in d.offers] or noisy
    if noisy:  # which hides none of the facts around an update
        yield notice("noise-covers-numbers", defenses=", ".join(noisy))
        if learning.data.ties_ues and any("spend" in d.offers for d in defenses):
            yield notice("data-of-other-ues", reason=learning.data.ties_ues)
    sees = (
        learning.threat.observes != "updates"
        and learning.threat.knows_participants
        and learning.hides_presence
    )
    for step in learning.curation:
        if step.displacement_per_m:
            yield notice("noise-covers-places", step.label)
    if {"record bound", "signals"} <= learning.learner.offers:
        yield notice("noise-covers-measurements")
    for defense in (
        defenses
    ):  # one row moves the sum by its clip norm as long as it moves no other UE's in or out of it
        if "central noise" in defense.offers and sees:
            key = "knowledge" if learning.threat.observes == "model" else "observes"
            yield notice("presence-seen", defense.label, key=key)
        if "central noise" in defense.offers and shared_band:
            yield notice("losses-as-given", defense.label)
