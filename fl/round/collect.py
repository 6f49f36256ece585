"""What UEs measured, which of them are asked, and the samples that they learn from: steps a to c of
a round.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.availability import Conditions
from fl.data import TakenData
from fl.round.learning import Learning
from fl.round.setup import PhaseDraws, RoundStreams, Setup
from fl.round.state import Collected, States
from fl.types import Curated, Local, RoundContext, State
from fl.withholding import RequestedData
from netsim.columns import no_places
from netsim.rng import Rng, Streams
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world.world import World


def take(
    world: World, learning: Learning, model_of_cell: IntArray, state: State, rng: Rng
) -> tuple[TakenData, State]:
    """Step a: the data of a window with positions as UEs report them; what was measured, by which
    leakage is scored, has true ones.
    """
    taken, state = learning.data.take(world.observations(), model_of_cell, state, rng)
    if not world.setting.ues.position_error_m:
        return taken, state
    held = taken.held_out
    return replace(
        taken,
        train=_reported(world, taken.train),
        held_out=replace(held, x=world.reported_m(held.ue, held.time_s, held.x)),
        fresh=None if taken.fresh is None else _reported(world, taken.fresh),
    ), state


def _reported(world: World, local: Local) -> Local:
    return replace(local, x=world.reported_m(local.ue[local.row_of_sample], local.time_s, local.x))


def first_sampled(
    world: World, learning: Learning, model_of_cell: IntArray, days: IntArray, streams: Streams
) -> FloatArray:
    """Places (n, 2) of the first round in which the server samples UEs, none if it never does; runs
    the world.

    days (n,) : on which UEs may measure.
    """
    state = learning.data.with_days(learning.data.start(len(world.ues), streams.at("data")), days)
    number = 0
    deadline = 0.0
    while deadline < world.duration_s:
        number += 1
        deadline = min(number * learning.round_s, world.duration_s)
        world.env.run(until=deadline)
        taken, state = take(world, learning, model_of_cell, state, streams.at("data", number))
        sampled = sample_ues(taken.train.nonempty(), learning, streams, number, len(world.ues))
        if len(sampled.x):
            return sampled.x
    return no_places()


def collect(
    world: World,
    setup: Setup,
    taken: TakenData,
    facts: RoundContext,
    states: States,
    streams: RoundStreams,
    free: BoolArray,
    most: float,
) -> Collected:
    """Steps b and c: the data that UEs learn from, at most `most` of those that are free (n_ue,).

    states: what parts remember, changed in place.
    """
    # b  the server samples some of those that are there and have data, and every UE has its own
    # policy
    learning = setup.learning
    now = _conditions(world)
    of_run = setup.streams
    there, states["availability"] = learning.availability.available(
        now, states["availability"], of_run.at("availability")
    )
    there = there & free
    taken = setup.probe.taken(taken)
    ready = taken.train.nonempty()
    sampled = sample_ues(ready.select(there[ready.ue]), learning, of_run, streams.round, len(there))
    sampled = _at_most(sampled, most, streams.at("concurrency"))
    accepted, states["query"] = learning.request_policy.accept(sampled.ue, facts, states["query"])
    local = sampled.select(accepted)
    # b  what they hold back, each rule by itself
    looks = any(rule.waits_for_a_cell for rule in learning.withholding)
    if looks:
        serving = world.serving(world.links())
    else:
        serving = np.full(len(now.home_m), -1)
    asked = RequestedData(local, taken.measured, facts, now.home_m, now.position_m, serving)
    withheld = list[tuple[str, Local, BoolArray]]()
    kept = np.ones(len(local.x), dtype=bool)
    for rule in learning.withholding:
        word = rule.word
        states[word] = rule.looked(asked, states[word], of_run.at(word))
        own = rule.keep(asked, states[word], of_run.at(word))
        withheld.append((rule.label, local, own))
        kept &= own
    if withheld:
        local = local.keep(kept).nonempty()
    # c  curate: what UEs do to their data before they learn from them
    local, steps = curated(learning, local, facts, states, streams)
    # what some rules of aggregation have UEs tell the server: histograms of their labels
    states["aggregation"] = learning.aggregation.receive_disclosed(
        local, facts, states["aggregation"]
    )
    for rule in learning.withholding:
        word = rule.word
        states[word] = rule.sent(np.unique(local.ue), facts, states[word], of_run.at(word))
    return Collected(taken, local, (~accepted).sum(), withheld, steps)


def curated(
    learning: Learning,
    local: Local,
    facts: RoundContext,
    states: States,
    streams: RoundStreams | PhaseDraws,
) -> tuple[Local, list[tuple[str, Local, Curated]]]:
    """Data after all steps of curation, in the order written; label of each step, what went in, and
    what came out.

    states: changed in place.
    """
    steps = list[tuple[str, Local, Curated]]()
    for step in learning.curation:
        word = step.word
        done = step.apply(local, facts, states[word], streams.at(word))
        steps.append((step.label, local, done))
        local = done.local.nonempty()
        states[word] = done.state
    return local, steps


def _conditions(world: World) -> Conditions:
    now_s = world.env.now
    wall_s = float(world.clock.wall_s(np.array(now_s)))
    return Conditions(now_s, wall_s, world.position_m(), world.places.home_m)


def sample_ues(ready: Local, learning: Learning, streams: Streams, number: int, n_ue: int) -> Local:
    """The rows of a random share of the UEs: at least one, or those chosen by independent coins.

    A cohort that is kept is drawn from all n_ue UEs by the lots of its first round. For cohorts
    that take turns, see `cohort`.
    """
    ue = np.unique(ready.ue)
    share = learning.participation
    if share == 1.0 or len(ue) == 0:
        return ready
    if learning.sampling == "cyclic":
        return ready.select(np.isin(ready.ue, cohort(learning, streams, number, n_ue)))
    ue = ue if learning.cohort_rounds == 1 else np.arange(n_ue)
    lot = streams.at("participation", number - (number - 1) % learning.cohort_rounds).uniform(
        "lot", ue
    )
    if learning.sampling == "poisson":
        chosen = ue[lot < share]
    else:
        chosen = ue[np.argsort(lot, kind="stable")[: max(1, round(share * len(ue)))]]
    return ready.select(np.isin(ready.ue, chosen))


def cohort(learning: Learning, streams: Streams, number: int, n_ue: int) -> IntArray:
    """UEs (n,) whose turn it is, of cohorts dealt over all once, whatever data they have; -1
    without turns.
    """
    if learning.separation == 1:
        return np.array([-1])
    lot = streams.at("participation").uniform("lot", np.arange(n_ue))
    turn = np.argsort(np.argsort(lot, kind="stable")) % learning.separation
    return np.flatnonzero(turn == (number - 1) % learning.separation)


def _at_most(ready: Local, most: float, rng: Rng) -> Local:
    ue = np.unique(ready.ue)
    if len(ue) <= most:
        return ready
    chosen = ue[np.argsort(rng.uniform("lot", ue), kind="stable")[: int(most)]]
    return ready.select(np.isin(ready.ue, chosen))
