"""Tables that are computed once, when a run is over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl.leakage import leakage
from fl.leakage.lists import Town, true_places
from fl.leakage.tracking import belief_rows, compared
from fl.leakage.unicity import unicity
from fl.privacy.final import final_account
from fl.round import records
from fl.round.learnt_map import learnt_map
from fl.round.setup import Setup
from fl.round.state import RoundState
from fl.tracking.belief import Belief
from fl.types import Facts
from netsim.mobility.base import Places
from netsim.radio.downlink import Downlink
from netsim.units import FloatArray
from netsim.world import World
from scenarios.app.results.folder import read_table
from scenarios.app.run.coverage import coverage, coverage_grid
from scenarios.app.run.public_map import floor_area


def write_whole_run(setup: Setup, state: RoundState, world: World, downlink: Downlink) -> None:
    """Exact Wasserstein distances, distances between UEs, privacy, hindsight, maps."""
    scores = records.last_utility(setup.learning, state, world) | records.references(setup, state)
    setup.recorder.write("final", {"name": list(scores), "value": list(scores.values())})
    spends = read_table(setup.recorder.folder, "spends")
    for row in final_account(spends):
        setup.recorder.row("privacy", **row)
    for (ue, model, attack), distances in leakage.exact(state.leakage).items():
        setup.recorder.row("wasserstein", ue=ue, model=model, attack=attack, **distances)
    how = setup.learning.leakage
    for row in leakage.named_at_end(how, state.leakage, world.area, world.places):
        setup.recorder.row("named", **row)
    _write_lists(setup, state, world)
    for label, belief in _in_hindsight(setup, state, world):
        tracked = compared(belief, state.whereabouts.at(belief.round), None, how.near_m, hindsight=True)
        cells = belief_rows(belief, how.belief_ues, hindsight=True)
        records.write_tracked(setup.recorder, {label: tracked}, {label: cells})
    for row in unicity(state.whereabouts, setup.streams.at("unicity")) if setup.learning.threat.renames else ():
        setup.recorder.row("unicity", **row)
    for ue, other, sw1_m in leakage.pairs(state.leakage, how.directions):
        setup.recorder.row("user_distances", ue=ue, other=other, sw1_m=sw1_m, sqrt_sw1=float(np.sqrt(sw1_m)))
    place_m = coverage_grid(world)
    setup.recorder.write("coverage", coverage(world, downlink, place_m, learnt_map(setup, state, place_m)))


def _write_lists(setup: Setup, state: RoundState, world: World) -> None:
    """Lists of places that attacks make of what is not one UE's, and how good they are; none without a true place."""
    learning, n = setup.learning, len(world.ues)
    how, threat, true_m = learning.leakage, learning.threat, true_places(world.places)
    own = threat.sees == "rows" and not threat.renames
    if own or not how.list_places or not len(true_m) or "positions" not in learning.data.offers:
        return
    others = world.mobility.residents(np.arange(n, 2 * n), world.ground) or Places.unknown(0)
    town = Town(world.area, true_m, true_places(others), floor_area(world))
    listed_m = dict[str, FloatArray]()
    for attack in learning.attacks:
        at = attack.listed(state.parts.attacks[attack.label], setup.public, how.list_places)
        listed_m[attack.label] = (
            leakage.listed_at_end(how, state.leakage, attack.label, world.area) if at is None else at
        )
    for row in town.listed(listed_m):
        setup.recorder.row("listed", **row)
    for row in town.scores(listed_m, how.list_places, (how.list_near_m, how.near_m)) if listed_m else ():
        setup.recorder.row("list_scores", **row)


def _in_hindsight(setup: Setup, state: RoundState, world: World) -> Iterator[tuple[str, Belief]]:
    """What attacks believe of each round, now that they know all of them; by attack."""
    facts = Facts(
        state.round, float(world.env.now), setup.public, round_s=setup.learning.round_s,
        week_s=world.clock.week_s(float(world.env.now)),
    )  # fmt: skip
    for attack in setup.learning.attacks:
        for belief in attack.hindsight(state.parts.attacks[attack.label], facts):
            yield attack.label, state.parts.names.of_ues(belief)
