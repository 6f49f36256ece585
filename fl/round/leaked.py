"""Leakage by the attacks of a round: truth meets estimates here (step m)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from fl.attacks.base import RevisedEstimates
from fl.leakage import leakage
from fl.leakage.linking import Linking, OwnedPlaces, identification, observe, of_ues, owners
from fl.leakage.named import NamedPlaces
from fl.leakage.tracking import Whereabouts, belief_rows, compared
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Leaked, Merged, RoundState, States
from fl.round.tables import Cells, table_of
from fl.tracking.belief import Belief
from fl.types import Estimates, Local, RoundContext
from netsim.columns import row_id, ue_and_model
from netsim.record import Row
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
    names, how = states["names"], learning.leakage
    estimates = {a.label: Estimates.join([p.attacks.estimates[a.label] for p in phases]) for a in learning.attacks}
    now = leakage.ComparedRound(
        number, watched, _selected(watched, collected.local), estimates, world.area, world.places, {}, last,
        heard=not learning.attacks or any(p.attacks.view is not None and len(p.attacks.view.ue) > 0 for p in phases),
        names_end=_names_end(setup, world, facts),
    )  # fmt: skip
    if leakage.is_due(how, state.leakage, now):
        revised = revised_of(setup, states, facts)
        estimates = estimates | {label: of_ues(one, names) for label, one in revised.items()}
        now = replace(now, estimates=estimates)
    linking, whereabouts, tables = state.linking, state.whereabouts, list[tuple[str, Cells]]()
    if learning.threat.renames:
        linking, rows, named = _linked(setup, linking, states, estimates, facts)
        tables.append(("linking", table_of("linking", rows)))
        now = replace(now, named=named)
    tables.append(("identities", _identified(setup, world, states, facts)))
    tracks, rows = leakage.observe(how, state.leakage, now, setup.streams.at("leakage"))
    held = phases[-1].attacks.beliefs
    if held or learning.threat.renames:
        there = Whereabouts.of(number, measured.select(targeted))
        whereabouts = whereabouts.plus(there)
        for label, belief in held.items():
            tables += believed(how, label, belief, there, estimates[label])
    return Leaked(tracks, whereabouts, linking, rows, tables)


def believed(
    how: leakage.Leakage, label: str, belief: Belief, there: Whereabouts, plain: Estimates | None = None
) -> list[tuple[str, Cells]]:
    """Columns of the tables `tracking` and `beliefs` about the beliefs of an attack; plain: as in `compared`, None in
    hindsight.
    """
    hindsight = plain is None
    tracked = compared(label, belief, there, plain, how.hit_radius_m, hindsight=hindsight)
    return [("tracking", tracked), ("beliefs", belief_rows(label, belief, how.belief_ues, hindsight=hindsight))]


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


def _identified(setup: Setup, world: World, states: States, facts: RoundContext) -> Cells:
    """Columns of the table `identities`: what attacks that know homes say of who sent, beside who did."""
    rows = []
    for attack in setup.learning.attacks:
        said, directory = attack.identities(states[f"attack.{attack.label}"]), attack.directory(facts.public)
        if said is not None and directory is not None and said.round == facts.round:
            row = identification(said, directory, world.ues, states["names"])
            rows.append({"round": facts.round, "time_s": facts.time_s, "attack": attack.label, **row})
    return table_of("identities", rows)


def _linked(
    setup: Setup, linking: Linking, states: States, estimates: dict[str, Estimates], facts: RoundContext
) -> tuple[Linking, list[Row], dict[str, dict[int, NamedPlaces]]]:
    """The state, rows of the table `linking`, and what each attack names of UEs by what it can tell to be of one."""
    names, area, width_m = states["names"], facts.public.area, setup.learning.leakage.peak_width_m
    rows, owned, named = list[Row](), dict(linking.owned), dict[str, dict[int, NamedPlaces]]()
    for attack in setup.learning.attacks:
        label, some = attack.label, estimates[attack.label]
        links = attack.links(states[f"attack.{label}"])
        if links is not None and links.round == facts.round:
            linking, row = observe(linking, label, links, names, facts.time_s)
            rows.append(row)
        else:
            links = None
        places = owned.get(label, OwnedPlaces()).plus(owners(some.ue, names, links), some, area)
        owned[label] = places
        ue = np.unique(some.ue)
        owner = owners(ue, names, links).tolist()
        named[label] = {one: places.named(of, area, width_m) for one, of in zip(ue.tolist(), owner, strict=True)}
    return replace(linking, owned=owned), rows, named


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
