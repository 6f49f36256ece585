"""steps d to l of one phase"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fl.round.power_context import situation
from fl.round.state import Overheard, Phase, Setup
from fl.round.transmit import overheard, payload_of, send
from fl.types import (
    Facts,
    Local,
    Model,
    State,
)
from netsim.radio.uplink import Channel, Cohort, Payload
from netsim.units import FloatArray, IntArray
from netsim.world import World


def play_phase(
    world: World,
    setup: Setup,
    parts: dict[str, State],
    facts: Facts,
    name: str,
    model: Model,
    local: Local,
    asked_s: float,
    rng: Callable[[str], Any],
) -> tuple[Model, Phase]:
    """Steps d to j, and l, of one phase that begins at asked_s; `parts` is this round's own and is updated in place."""
    learning, spends = setup.learning, []
    first = name == learning.learner.phases[0]

    def drawn(purpose: str) -> Any:
        """The stream of a part in this phase: phases never share a draw."""
        return rng(purpose if first else f"{purpose}.{name}")

    # d  learn
    made = learning.learner.local(model, name, local, rng(f"learner.{name}"))
    bad = ~np.isfinite(made.norm())
    updates = made.scaled(np.where(bad, 0.0, 1.0), made.bound) if bad.any() else made
    # e  power, f  plan the uplink
    ues, of_row = np.unique(made.ue, return_inverse=True)
    work = learning.learner.passes * np.bincount(of_row, weights=made.count).astype(np.float64)
    cohort = world.cohort(ues, world.links(), facts.round, np.bincount(of_row), work)
    if setup.power.wants_situation:
        known = situation(world, learning, setup.uplink, parts, made.n_parameters, facts.round, ues)
        parts["power"] = setup.power.told(known, parts["power"])
    power_w, parts["power"] = setup.power.of(ues).power_w(
        cohort.gain, cohort.serving, world.max_power_w, parts["power"], drawn("power")
    )
    payload = payload_of(learning, parts, made.n_parameters)
    # who has not come when the next round begins is too late, whatever the uplink's own deadline
    left_s = learning.round_s - (asked_s - facts.time_s)
    sending = replace(cohort.at_power(power_w), limit_s=left_s)
    channel = setup.uplink.plan(sending, payload).within(left_s).rows(of_row)
    facts = replace(facts, channel=channel)
    # g  protect: the devices' half
    for defense in learning.defenses:
        key = f"defense.{defense.label}"
        updates, parts[key], spent = defense.protect(updates, local, facts, parts[key], drawn(key))
        spends += spent
    # h  send
    received = send(updates, channel, drawn("uplink.send"))
    # i  merge, then the defenses' server half in reverse order
    weights, parts["aggregation"] = learning.aggregation.weights(received, facts, parts["aggregation"])
    total = received.updates.weighted_sum(weights, setup.public.n_model)
    merged = total
    for defense in reversed(learning.defenses):
        key = f"defense.{defense.label}"
        merged, parts[key], spent = defense.finish(merged, len(made.ue), facts, parts[key], drawn(f"{key}.server"))
        spends += spent
    after = learning.learner.step(model, name, merged)
    # j  observe what was published
    for defense in learning.defenses:
        key = f"defense.{defense.label}"
        parts[key] = defense.observe(received, weights, facts, parts[key])
    # l  spy: exactly the view that the threat grants
    caught, spied = received, None
    if learning.threat.at_m is not None:
        spied = _overhear(world, setup, facts, cohort.at_power(power_w), payload, channel, of_row)
        caught = send(updates, spied.channel, drawn("eavesdropper.send"))
    looks = bool(learning.attacks) or learning.membership is not None
    whom = learning.threat.after(caught.updates.ue, len(world.ues)) & looks
    caught = replace(caught, decoded=caught.decoded & whom)  # rows that nobody looks at are not written out
    view = learning.threat.view(learning.learner, name, caught, total, model, after)
    estimates, self_tests = {}, {}
    for attack in learning.attacks:
        key = f"attack.{attack.label}"
        estimates[attack.label], parts[key] = attack.run(view, facts, parts[key], drawn(key))
        if learning.threat.can_train:
            self_tests[attack.label] = attack.self_test(view, facts, drawn(key))
    arrived_s = np.where(np.isfinite(channel.delay_s), asked_s + channel.delay_s, np.nan)
    merged_s = _latest_s(asked_s, arrived_s[channel.decoded])
    attacked_s = merged_s
    if spied is not None:  # she has heard what the devices sent, until the next round silences them
        attacked_s = _latest_s(asked_s, np.fmin(arrived_s, asked_s + left_s)[spied.channel.decoded])
    return after, Phase(
        name, asked_s, arrived_s, merged_s, attacked_s, made, received, channel, spends, weights, estimates, self_tests,
        spied, int(bad.sum()), view,
    )  # fmt: skip


def _latest_s(asked_s: float, arrived_s: FloatArray) -> float:
    """When the last of those who came (n,) had come; at the request itself where nobody did."""
    return float(arrived_s.max(initial=asked_s))


def _overhear(
    world: World, setup: Setup, facts: Facts, cohort: Cohort, payload: Payload, channel: Channel, of_row: IntArray
) -> Overheard:
    """The same transmissions at the eavesdropper's antenna; `channel` has the rows of the round."""
    threat = setup.learning.threat
    if threat.at_m is None:
        raise ValueError("nobody overhears")
    heard, links = world.cohort_at(threat.at_m, threat.antenna_m, cohort, facts.time_s, facts.round)
    first = np.unique(of_row, return_index=True)[1]
    found = overheard(setup.uplink, heard, payload, channel.rows(first))
    return Overheard(found.rows(of_row), links.distance_m[cohort.ue, 0], links.los[cohort.ue, 0])
