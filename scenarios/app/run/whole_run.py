"""Tables that are computed once, when a run is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fl.leakage import leakage
from fl.leakage.linking import Linking, observe
from fl.leakage.lists import most_named, scores
from fl.leakage.tracking import belief_rows, compared
from fl.leakage.unicity import unicity
from fl.privacy.final import final_account
from fl.round import records
from fl.round.leaked import retold_of
from fl.round.learnt_map import learnt_map
from fl.round.setup import Setup
from fl.round.state import RoundState
from fl.tracking.belief import Belief
from fl.types import Facts
from netsim.radio.downlink import Downlink
from netsim.units import FloatArray
from netsim.world import World
from scenarios.app.results.folder import read_table
from scenarios.app.run.coverage import coverage, coverage_grid
from scenarios.app.run.public_map import floor_area


def write_whole_run(setup: Setup, state: RoundState, world: World, downlink: Downlink) -> None:
    """Exact Wasserstein distances, distances between UEs, privacy, hindsight, maps."""
    final = records.last_utility(setup.learning, state, world) | records.references(setup, state)
    setup.recorder.write("final", {"name": list(final), "value": list(final.values())})
    spends = read_table(setup.recorder.folder, "spends")
    for row in final_account(spends):
        setup.recorder.row("privacy", **row)
    for (ue, model, attack), distances in leakage.exact(state.leakage).items():
        setup.recorder.row("wasserstein", ue=ue, model=model, attack=attack, **distances)
    how = setup.learning.leakage
    named = leakage.named_at_end(how, state.leakage, world.area, world.places)
    for row in named:
        setup.recorder.row("named", **row)
    _write_lists(setup, state, world, named)
    facts = Facts(
        state.round, float(world.env.now), setup.public, round_s=setup.learning.round_s,
        week_s=world.clock.week_s(float(world.env.now)),
    )  # fmt: skip
    for label, belief in _in_hindsight(setup, state, facts):
        tracked = compared(belief, state.whereabouts.at(belief.round), None, how.near_m, hindsight=True)
        cells = belief_rows(belief, how.belief_ues, hindsight=True)
        records.write_tracked(setup.recorder, {label: tracked}, {label: cells})
    for rows in _linked_again(setup, state, facts) if setup.learning.threat.renames else ():
        setup.recorder.write("linking", rows)
    for row in unicity(state.whereabouts, setup.streams.at("unicity")) if setup.learning.threat.renames else ():
        setup.recorder.row("unicity", **row)
    for ue, other, sw1_m in leakage.pairs(state.leakage, how.directions):
        setup.recorder.row("user_distances", ue=ue, other=other, sw1_m=sw1_m, sqrt_sw1=float(np.sqrt(sw1_m)))
    place_m = coverage_grid(world)
    setup.recorder.write("coverage", coverage(world, downlink, place_m, learnt_map(setup, state, place_m)))


def _write_lists(setup: Setup, state: RoundState, world: World, named: list[dict[str, Any]]) -> None:
    """Lists of places that attacks make of what is not one UE's, and how good they are; no score without a place.

    named : what attacks name of each UE, of which a list is made where they make none.
    """
    learning, n = setup.learning, len(world.ues)
    if learning.threat.sees == "rows" and not learning.threat.renames:
        return
    listed_m = dict[str, FloatArray]()
    for one in learning.attacks:
        at = one.listed(state.parts.attacks[one.label], setup.public, learning.leakage.list_places)
        listed_m[one.label] = most_named(named, one.label, world.area, learning.leakage) if at is None else at
        for rank, (x, y) in enumerate(listed_m[one.label].tolist(), start=1):
            setup.recorder.row("listed", attack=one.label, rank=rank, x_m=x, y_m=y)
    aside = world.mobility.residents(np.arange(n, 2 * n), world.ground)
    town = {"participants": world.places, "aside": aside}
    found = any(map(len, listed_m.values()))
    for row in scores(listed_m, town, world.area, floor_area(world), learning.leakage) if found else ():
        setup.recorder.row("list_scores", **row)


def _in_hindsight(setup: Setup, state: RoundState, facts: Facts) -> Iterator[tuple[str, Belief]]:
    """What attacks believe of each round, now that they know all of them; by attack."""
    for attack in setup.learning.attacks:
        for belief in attack.hindsight(state.parts.attacks[attack.label], facts):
            yield attack.label, state.parts.names.of_ues(belief)


def _linked_again(setup: Setup, state: RoundState, facts: Facts) -> Iterator[dict[str, Any]]:
    """Columns of the table `linking` of attacks that link names anew, now that they know all rounds."""
    for label, retold in retold_of(setup, state.parts, facts).items():
        linking = Linking()
        for time_s, links in retold.links:
            linking, rows = observe(linking, {label: links}, state.parts.names, time_s)
            yield rows | {"round": [links.round]}
