"""Leakage by the attacks of a round: truth meets estimates here (step m)."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from fl.attacks.base import RevisedEstimates
from fl.leakage import leakage
from fl.leakage.linking import Linking, OwnedPlaces, identification, observe, of_ues, owners
from fl.leakage.named import NamedPlaces
from fl.leakage.tracking import Whereabouts, belief_rows, compared
from fl.round.records import table_of
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Leaked, Merged, RoundState, States
from fl.round.tables import TABLES
from fl.types import Estimates, Local, RoundContext
from netsim.columns import row_id, ue_and_model
from netsim.units import FloatArray
from netsim.world import World


def leaked(
    setup: Setup, world: World, state: RoundState, facts: RoundContext, collected: Collected, phases: list[Merged],
    last: bool,
) -> Leaked:  # fmt: skip
    """Measure leakage by the attacks of a round; data without places leak none.

    state : with the attacks after the round, and leakage before it; last: no round can follow.
    """
    number, states, learning = facts.round, state.parts, setup.learning
    if "positions" not in learning.data.offers:
        return Leaked(state.leakage, state.whereabouts, state.linking)
    measured = _with_learners(collected.taken.measured, collected.local)
    targeted = learning.threat.after(measured.ue, len(world.ues))
    learnt = np.isin(row_id(measured.ue, measured.model), row_id(collected.local.ue, collected.local.model))
    watched = measured.select(targeted & (learnt | (measured.count > 0)))
    estimates = {a.label: Estimates.join([p.attacks.estimates[a.label] for p in phases]) for a in learning.attacks}
    now = leakage.ComparedRound(
        number, watched, _selected(watched, collected.local), {}, world.area, world.places, {}, last,
        heard=not learning.attacks or any(p.attacks.view is not None and len(p.attacks.view.ue) > 0 for p in phases),
        names_end=_names_end(setup, world, facts),
    )  # fmt: skip
    if leakage.is_due(learning.leakage, state.leakage, now):
        revised = revised_of(setup, states, facts)
        estimates |= {label: of_ues(one, states["names"]) for label, one in revised.items()}
    linking, named, tables = state.linking, dict[str, dict[int, NamedPlaces]](), list[tuple[str, dict[str, Any]]]()
    if learning.threat.renames:
        linking, linked, named = _linked(setup, linking, states, estimates, facts)
        if linked:
            tables.append(("linking", linked | {"round": [number] * len(linked["attack"])}))
    tables.append(("identities", _identified(setup, world, states, facts)))
    now = replace(now, estimates=estimates, named=named)
    tracks, rows = leakage.observe(learning.leakage, state.leakage, now, setup.streams.at("leakage"))
    held, how, whereabouts = phases[-1].attacks.beliefs, learning.leakage, state.whereabouts
    if held or learning.threat.renames:
        there = Whereabouts.of(number, measured.select(targeted))
        whereabouts = whereabouts.plus(there)
        for label, belief in held.items():
            tracked = compared(belief, there, estimates[label], how.hit_radius_m, hindsight=False)
            likeliest = belief_rows(belief, how.belief_ues, hindsight=False)
            tables += believed(label, tracked, likeliest)
    return Leaked(tracks, whereabouts, linking, rows, tables)


def believed(label: str, tracked: dict[str, Any], likeliest: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Columns of the tables `tracking` and `beliefs` about the beliefs of an attack."""
    tables = (("tracking", tracked), ("beliefs", likeliest))
    return [(table, columns | {"attack": [label] * len(columns["ue"])}) for table, columns in tables]


def revised_of(setup: Setup, states: States, facts: RoundContext) -> dict[str, RevisedEstimates]:
    """Revised estimates of all rounds so far, by label; none of attacks that revise nothing."""
    streams = RoundStreams(setup.streams, facts.round)
    found = {}
    for attack in setup.learning.attacks:
        label = attack.label
        revised = attack.revised(states[f"attack.{label}"], facts, streams.at(f"attack.{label}"))
        if revised is not None:
            found[label] = revised
    return found


def _names_end(setup: Setup, world: World, facts: RoundContext) -> int:
    """The last round before all names change at once; 0 where they never do, or no clock says when merges are."""
    learning = setup.learning
    until_s = learning.threat.pseudonyms.lasts_until_s(facts.time_s)
    if not learning.threat.renames or not learning.server.in_rounds or until_s == inf:
        return 0
    return int(world.clock.round_of(np.array([until_s]), learning.round_s)[0])


def _identified(setup: Setup, world: World, states: States, facts: RoundContext) -> dict[str, Any]:
    """Columns of the table `identities`: what attacks that know homes say of who sent, beside who did."""
    rows = []
    for attack in setup.learning.attacks:
        said, directory = attack.identities(states[f"attack.{attack.label}"]), attack.directory(facts.public)
        if said is not None and directory is not None and said.round == facts.round:
            row = identification(said, directory, world.ues, states["names"])
            rows.append({"round": facts.round, "time_s": facts.time_s, "attack": attack.label, **row})
    return table_of(rows, TABLES["identities"])


def _linked(
    setup: Setup, before: Linking, states: States, estimates: dict[str, Estimates], facts: RoundContext
) -> tuple[Linking, dict[str, Any], dict[str, dict[int, NamedPlaces]]]:
    """The state, columns of the table `linking`, and what each attack names of UEs by what it can tell to be of one."""
    learning, names, area = setup.learning, states["names"], facts.public.area
    said = {a.label: a.links(states[f"attack.{a.label}"]) for a in learning.attacks}
    links = {label: some for label, some in said.items() if some is not None and some.round == facts.round}
    linking, linked = observe(before, links, names, facts.time_s)
    owned, named = dict(linking.owned), dict[str, dict[int, NamedPlaces]]()
    for label, some in estimates.items():
        owned[label] = (owned.get(label) or OwnedPlaces()).plus(owners(some.ue, names, links.get(label)), some, area)
        ue = np.unique(some.ue)
        of = zip(ue.tolist(), owners(ue, names, links.get(label)).tolist(), strict=True)
        named[label] = {one: owned[label].named(owner, area, learning.leakage.peak_width_m) for one, owner in of}
    return replace(linking, owned=owned), linked, named


def _with_learners(measured: Local, local: Local) -> Local:
    """Measured data, with empty rows for UEs that learnt from earlier measurements only."""
    rows, learnt = row_id(measured.ue, measured.model), row_id(local.ue, local.model)
    more = np.setdiff1d(learnt, rows)
    if not len(more):
        return measured
    place = np.searchsorted(rows, more)
    ue, model = ue_and_model(np.insert(rows, place, more))
    return replace(measured, ue=ue, model=model, ptr=np.insert(measured.ptr, place, measured.ptr[place]))


def _selected(measured: Local, local: Local) -> FloatArray:
    """Mean of what each measured row learnt from (n, 2); NaN where nothing was sent."""
    selected_m = np.full((len(measured.ue), measured.x.shape[1]), np.nan)
    _, rows, mine = np.intersect1d(
        row_id(measured.ue, measured.model), row_id(local.ue, local.model), assume_unique=True, return_indices=True
    )
    selected_m[rows] = local.mean_x()[mine]
    return selected_m
