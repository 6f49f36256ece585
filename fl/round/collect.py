"""What UEs measured, which of them are asked, and the samples that they learn from: steps a to c of
a round.
"""

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


def take_data(
    world: World, learning: Learning, model_of_cell: IntArray, state: State, rng: Rng
) -> tuple[TakenData, State]:
    """Step a: the data of a window with positions as UEs report them; what was measured, by which
    leakage is scored, has true ones.
    """
    taken, state = learning.data.take(world.drain_observations(), model_of_cell, state, rng)
    if not world.setting.ues.position_error_m:
        return taken, state
    train = _report_positions(world, taken.train)
    fresh = taken.fresh
    if fresh is not None:
        fresh = _report_positions(world, fresh)
    held_out = taken.held_out
    reported_m = world.draw_reported_m(held_out.ue, held_out.time_s, held_out.x)
    held_out = replace(held_out, x=reported_m)
    return replace(taken, train=train, held_out=held_out, fresh=fresh), state


def _report_positions(world: World, local: Local) -> Local:
    ue = local.ue[local.row_of_sample]
    return replace(local, x=world.draw_reported_m(ue, local.time_s, local.x))


def find_first_sampled(
    world: World, learning: Learning, model_of_cell: IntArray, days: IntArray, streams: Streams
) -> FloatArray:
    """Places (n, 2) of the first round in which the server samples UEs, none if it never does; runs
    the world.

    days (n,) : on which UEs may measure.
    """
    n_ue = len(world.ues)
    state = learning.data.with_days(learning.data.start(n_ue, streams.derive_rng("data")), days)
    number = 0
    deadline = 0.0
    while deadline < world.duration_s:
        number += 1
        deadline = min(number * learning.round_s, world.duration_s)
        world.env.run(until=deadline)
        rng = streams.derive_rng("data", number)
        taken, state = take_data(world, learning, model_of_cell, state, rng)
        sampled = sample_ues(taken.train.nonempty(), learning, streams, number, n_ue)
        if len(sampled.x):
            return sampled.x
    return no_places()


def collect_samples(
    world: World,
    setup: Setup,
    taken: TakenData,
    facts: RoundContext,
    states: States,
    streams: RoundStreams,
    free: BoolArray,
    max_ues: float,
) -> Collected:
    """Steps b and c: the data that UEs learn from; at most `max_ues` of the free ones (n_ue,).

    states: what parts remember, changed in place.
    """
    # b  the server samples some of those that are there and have data, and every UE has its own
    # policy
    learning = setup.learning
    now_s = world.env.now
    wall_s = float(world.clock.wall_s(np.array(now_s)))
    conditions = Conditions(
        now_s, wall_s, world.locate_ues(), world.places.home_m, *states["links"]
    )
    of_run = setup.streams
    rng = of_run.derive_rng("availability")
    is_available, states["availability"] = learning.availability.find_available(
        conditions, states["availability"], rng
    )
    is_available = is_available & free
    taken = setup.probe.swap_first_sample(taken)
    ready = taken.train.nonempty()
    ready = ready.select(is_available[ready.ue])
    sampled = sample_ues(ready, learning, of_run, streams.round, len(is_available))
    sampled = _limit_ues(sampled, max_ues, streams.derive_rng("concurrency"))
    accepted, states["query"] = learning.request_policy.accept(sampled.ue, facts, states["query"])
    local = sampled.select(accepted)
    # b  what they hold back, each rule by itself
    serving = np.full(len(conditions.home_m), -1)
    if any(rule.waits_for_a_cell for rule in learning.withholding):
        serving = world.find_serving(world.compute_links())
    requested = RequestedData(
        local, taken.measured, facts, conditions.home_m, conditions.position_m, serving
    )
    withheld = []
    kept = np.ones(len(local.x), dtype=bool)
    for rule in learning.withholding:
        word = rule.word
        states[word] = rule.note_places(requested, states[word], of_run.derive_rng(word))
        is_kept_by_rule = rule.keep(requested, states[word], of_run.derive_rng(word))
        withheld.append((rule.label, local, is_kept_by_rule))
        kept &= is_kept_by_rule
    if withheld:
        local = local.keep(kept).nonempty()
    local = replace(local, x=np.asarray(local.x))  # large arrays are read here
    # c  curate: what UEs do to their data before they learn from them
    local, steps = curate(learning, local, facts, states, streams)
    # what some rules of aggregation have UEs tell the server: histograms of their labels
    states["aggregation"] = learning.aggregation.receive_disclosed(
        local, facts, states["aggregation"]
    )
    senders = np.unique(local.ue)
    for rule in learning.withholding:
        word = rule.word
        states[word] = rule.note_sent(senders, facts, states[word], of_run.derive_rng(word))
    return Collected(taken, local, (~accepted).sum(), withheld, steps)


def curate(
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
    steps = []
    for step in learning.curation:
        word = step.word
        done = step.apply(local, facts, states[word], streams.derive_rng(word))
        steps.append((step.label, local, done))
        local = done.local.nonempty()
        states[word] = done.state
    return local, steps


def sample_ues(ready: Local, learning: Learning, streams: Streams, number: int, n_ue: int) -> Local:
    """The rows of a random share of the UEs: at least one, or those chosen by independent coins.

    A cohort that is kept is drawn from all n_ue UEs by the lots of its first round. For cohorts
    that take turns, see `find_cohort`.
    """
    ue = np.unique(ready.ue)
    share = learning.participation
    if share == 1.0 or len(ue) == 0:
        return ready
    if learning.sampling == "cyclic":
        return ready.select(np.isin(ready.ue, find_cohort(learning, streams, number, n_ue)))
    ue = ue if learning.cohort_rounds == 1 else np.arange(n_ue)
    lot = streams.derive_rng(
        "participation", number - (number - 1) % learning.cohort_rounds
    ).uniform("lot", ue)
    if learning.sampling == "poisson":
        chosen = ue[lot < share]
    else:
        chosen = ue[np.argsort(lot, kind="stable")[: max(1, round(share * len(ue)))]]
    return ready.select(np.isin(ready.ue, chosen))


def find_cohort(learning: Learning, streams: Streams, number: int, n_ue: int) -> IntArray:
    """UEs (n,) whose turn it is, of cohorts dealt over all once, whatever data they have; -1
    without turns.
    """
    if learning.separation == 1:
        return np.array([-1])
    lot = streams.derive_rng("participation").uniform("lot", np.arange(n_ue))
    turn = np.argsort(np.argsort(lot, kind="stable")) % learning.separation
    return np.flatnonzero(turn == (number - 1) % learning.separation)


def _limit_ues(ready: Local, max_ues: float, rng: Rng) -> Local:
    ue = np.unique(ready.ue)
    if len(ue) <= max_ues:
        return ready
    chosen = ue[np.argsort(rng.uniform("lot", ue), kind="stable")[: int(max_ues)]]
    return ready.select(np.isin(ready.ue, chosen))
