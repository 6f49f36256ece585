"""Leaks that no epsilon of a study covers, in words that stand beside its figures in every run."""

from __future__ import annotations

from collections.abc import Iterator

from fl.data import SHARED_MODEL
from fl.round.learning import Learning
from netsim.mobility.replay import Replay
from netsim.world.setting import WorldSetting
from netsim.world.world import World


def disclosed(learning: Learning, setting: WorldSetting, world: World) -> list[str]:
    """Disclosures beside updates, which no noise hides and no ledger counts, and caveats of parts."""
    aggregation = learning.aggregation
    learner = learning.learner
    counted = any({"spend", "location spend"} & part.offers for part in (*learning.curation, *learning.defenses))
    disclosed = [f"aggregation {aggregation.kind_name()}: devices tell the server {aggregation.discloses}"]
    published = [f"learner {learner.kind_name()}: every UE receives {learner.discloses}, which no epsilon here covers"]
    return [
        *(disclosed if aggregation.discloses else []),
        *(published if learner.discloses and counted else []),
        *(_drawn_values(learning, setting, world) if counted else []),
        *caveats(learning, setting.radio.uplink.shares_band),
    ]


def _drawn_values(learning: Learning, setting: WorldSetting, world: World) -> list[str]:
    """Values published beforehand that follow from the data of all users."""
    mobility = setting.ues.mobility
    trace = world.trace
    drawn = list[str]()
    if isinstance(mobility, Replay) and trace is not None:
        by_day = "day" in getattr(learning.data, "held_out_by", ())
        recorded = setting.ues.position_error_m == "recorded"
        timed = setting.duration_s is not None
        drawn += mobility.drawn_values(trace, setting.city.has_size, timed, by_day, recorded)
        alike = SHARED_MODEL in learning.data.offers
        if mobility.cell == "all" and trace.rsrp_dbm is not None and not (alike or learning.data.named_cell):
            drawn.append("which cells there are (world.ues.mobility.cell)")
    if learning.data.wants_counts:
        drawn.append("the cell with most measurements (learning.data.cell)")
    if not drawn:
        return []
    return [
        f"public values: {', '.join(drawn)} follow from the data of all users, so one user can move them, and with "
        "them the updates of all; no epsilon here covers that. State them by the keys in brackets"
    ]


def caveats(learning: Learning, shared_band: bool) -> Iterator[str]:
    """One line each, headed by the part that it is about.

    shared_band: whether UEs share a radio in which one that sends can make the updates of others late, lost or noisier.
    """
    defenses = learning.defenses
    noisy = [d.label for d in learning.on_device]
    yield from (f"{d.label}: {d.caveat}" for d in defenses if d.caveat)
    yield from (f"{a.label}: the attacker is granted {a.granted}" for a in learning.attacks if a.granted)
    yield from _silence(learning)
    for i, defense in enumerate(defenses):
        later = [d.label for d in defenses[i + 1 :] if d.noise_on_device]
        if defense.tells_in_clear and later:  # noise on the device promises more
            yield (
                f"{defense.label}: every device tells the server in clear {defense.tells_in_clear}; against "
                f"the server the epsilon of {', '.join(later)} does not cover that bit"
            )
    if not learning.hides_who_came:
        noisy = [d.label for d in defenses if "spend" in d.offers] or noisy
    if noisy:  # which hides none of the facts around an update
        yield (
            f"{', '.join(noisy)}: noise covers the numbers sent; which windows are played, who sends to which model "
            "and how many samples weigh in are public, and no epsilon here covers them"
        )
        if learning.data.ties_ues and any("spend" in d.offers for d in defenses):
            yield (
                f"data: {learning.data.ties_ues}; noise covers each UE's own update, and no epsilon here what one UE "
                "moves of others"
            )
    sees = learning.threat.observes != "updates" and learning.threat.knows_participants and learning.hides_presence
    yield from (
        f"{step.label}: noise moves places alone; whether a UE sends, to which model and through which cell, what is "
        "lost, and labels as RSRP follow from the true place, and no epsilon per metre covers them"
        for step in learning.curation
        if step.displacement_per_m
    )
    if {"record bound", "signals"} <= learning.learner.offers:
        yield (
            "sample_clip: noise by its bound covers what a measurement says, and neither when and of which cell there "
            "is one nor how many are learnt from, which sets that noise"
        )
    for defense in defenses:  # one row moves the sum by its clip norm as long as it moves no other UE's in or out of it
        if "central noise" in defense.offers and sees:
            yield (
                f"{defense.label}: epsilon is for those who do not see which UEs take part, and the attacker of this "
                f"run does (threat.{'knowledge' if learning.threat.observes == 'model' else 'observes'}); against it "
                "neither presence is hidden, nor does sampling lower anything"
            )
        if "central noise" in defense.offers and shared_band:
            yield (
                f"{defense.label}: on a shared band whose updates are lost can hang on who else sends; epsilon takes "
                "the losses as given"
            )


def _silence(learning: Learning) -> Iterator[str]:
    """Information in the silence of UEs, and its effect on amplification by sampling."""
    yield from (f"{rule.label}: {rule.gives_away}" for rule in learning.withholding)
    why = dict.fromkeys(learning.by_history, "who is silent depends on who has sent before")
    if learning.cohort_rounds > 1:
        why["cohort_rounds"] = f"who is drawn stays for {learning.cohort_rounds} rounds"
    if why and learning.hides_who_came and learning.sampling == "poisson" and learning.participation < 1:
        yield (
            f"{', '.join(why)}: {' and '.join(dict.fromkeys(why.values()))}, so the coins of sampling are not "
            "independent from round to round; epsilon counts on no sampling"
        )
