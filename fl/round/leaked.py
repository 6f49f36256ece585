r"""Leakage by the attacks of a round: truth meets estimates and beliefs here (step m).

Of beliefs, one row per round and UE. With the belief p over places c of a UE that is truly at x,
and the attacker's best answers (`fl.tracking.belief`):

    privacy (correctness)   sum_c p_c d(c, x)         expected distance of an answer that is drawn
    from the belief
    error                   d(best answer, x)
    success                 whether x is within hit_radius_m of the best disc's centre, whose mass
    is stated
    uncertainty             -sum_c p_c log2 p_c, credible areas, and whether x lies in them

[Shokri et al. 2011, Quantifying Location Privacy, Section III.] The same is said of the prior
alone, and of the attack whose estimates the attacker tracks. How long a UE is known is the sum of
windows in which the answer succeeds.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from fl.attacks.base import RevisedEstimates, recall
from fl.leakage import leakage
from fl.leakage.linking import Linking, OwnedPlaces, identification, observe, of_ues, owners
from fl.leakage.tracks import NamedPlaces, Whereabouts
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Merge, RoundState, States
from fl.round.tables import Cells, Tables, cells, table_of, xy
from fl.tracking.belief import Belief, answers, expected_distance_m, in_area, probability_within
from fl.types import Estimates, Local, RoundContext
from netsim.columns import ue_and_model
from netsim.record import Row
from netsim.units import FloatArray, IntArray
from netsim.world.world import World

_HELD = 0.95  # of a belief in the table `beliefs`
_MOST_CELLS = 60


def leaked(
    setup: Setup,
    world: World,
    state: RoundState,
    facts: RoundContext,
    collected: Collected,
    merges: list[Merge],
    last: bool,
) -> tuple[list[Row], Tables]:
    """Measure leakage by the attacks of a round: rows of `leakage`, without round and time, and of
    other tables.

    state : with the attacks after the round, and leakage before it, which becomes that after it:
    changed in place; last: no round can follow. Data without places leak none.
    """
    states = state.parts
    learning = setup.learning
    if "positions" not in learning.data.offers:
        return [], []
    measured = _with_learners(collected.taken.measured, collected.local)
    targeted = learning.threat.after(measured.ue, len(world.ues))
    learnt = np.isin(measured.row, collected.local.row)
    watched = measured.select(targeted & (learnt | (measured.count > 0)))
    names = states["names"]
    how = learning.leakage
    estimates = {
        a.label: Estimates.join([p.estimates[a.label] for p in merges]) for a in learning.attacks
    }
    now = leakage.ComparedRound(
        facts.round,
        watched,
        _selected(watched, collected.local),
        estimates,
        world.area,
        world.places,
        {},
        last,
        heard=not learning.attacks or any(p.view and len(p.view.ue) for p in merges),
        names_end=_names_end(setup, world, facts),
    )
    if leakage.is_due(how, state.leakage, now):
        revised = revised_of(setup, states, facts)
        estimates = estimates | {label: of_ues(one, names) for label, one in revised.items()}
    # none yet
    tables = Tables()
    named = now.named
    if learning.threat.renames:
        state.linking, rows, named = _linked(setup, state.linking, states, estimates, facts)
        tables.append(("linking", table_of("linking", rows)))
    tables.append(("identities", _identified(setup, world, states, facts)))
    now = replace(now, estimates=estimates, named=named)
    state.leakage, rows = leakage.observe(how, state.leakage, now, setup.streams.at("leakage"))
    held = merges[-1].beliefs
    if held or learning.threat.renames:
        there = Whereabouts.of(facts.round, measured.select(targeted))
        state.whereabouts = state.whereabouts.plus(there)
        for label, belief in held.items():
            tables += believed(how, label, belief, there, estimates[label])
    return rows, tables


def believed(
    how: leakage.Leakage,
    label: str,
    belief: Belief,
    there: Whereabouts,
    plain: Estimates | None = None,
) -> Tables:
    """Columns of the tables `tracking` and `beliefs` about the beliefs of an attack; plain: as in
    `compared`, None in hindsight.
    """
    hindsight = plain is None
    tracked = compared(label, belief, there, plain, how.hit_radius_m, hindsight=hindsight)
    return [
        ("tracking", tracked),
        ("beliefs", belief_rows(label, belief, how.belief_ues, hindsight=hindsight)),
    ]


def compared(
    label: str,
    belief: Belief,
    there: Whereabouts,
    plain: Estimates | None,
    hit_radius_m: float,
    *,
    hindsight: bool,
) -> Cells:
    """Columns of the table `tracking`, for the UEs that are in both; plain : what the tracked
    attack said in this round by itself, None where it is not at hand.
    """
    ue, mine, theirs = np.intersect1d(belief.ue, there.ue, assume_unique=True, return_indices=True)
    p = belief.probability[mine]
    x = there.place_m[theirs]
    grid = belief.grid
    point_m = None if belief.point_m is None else belief.point_m[mine]
    said = answers(p, grid, hit_radius_m, point_m, belief.alone)
    prior = answers(belief.prior[None], grid, hit_radius_m)
    every = np.zeros_like(ue)
    priors = np.broadcast_to(belief.prior, p.shape)
    plain_error_m = _away(_plain(plain, ue), x)
    return cells(
        "tracking",
        len(ue),
        said,
        belief,
        attack=label,
        ue=ue,
        hindsight=hindsight,
        **xy(said.place_m),
        **xy(said.disc_m, "disc_"),
        **xy(x, "truth_"),
        error_m=_away(said.place_m, x),
        near=_away(said.disc_m, x) <= hit_radius_m,
        expected_distance_m=expected_distance_m(p, grid, x),
        in50=in_area(p, grid, x, said.least50),
        in90=in_area(p, grid, x, said.least90),
        plain_error_m=plain_error_m,
        plain_near=plain_error_m <= hit_radius_m,
        prior_error_m=_away(prior.place_m[every], x),
        prior_near=_away(prior.disc_m[every], x) <= hit_radius_m,
        prior_expected_distance_m=expected_distance_m(priors, grid, x),
        prior_draw_near=probability_within(priors, grid, x, hit_radius_m),
    )


def _plain(estimates: Estimates | None, ue: IntArray) -> FloatArray:
    """Where the tracked attack itself puts UEs (n,): its first estimate of each that is inside the
    area, or NaN.
    """
    if estimates is None:
        return np.full((len(ue), 2), np.nan)
    own = np.flatnonzero([what == "plain" for what in estimates.what])
    known, first = np.unique(estimates.ue[own], return_index=True)
    return recall(known, estimates.position_m[own[first]], ue)


def _away(a_m: FloatArray, b_m: FloatArray) -> FloatArray:
    return np.hypot(*(a_m - b_m).T)


def belief_rows(label: str, belief: Belief, number_of_ues: int, *, hindsight: bool) -> Cells:
    """Columns of the table `beliefs`: the likeliest cells of the UEs of smallest number."""
    some = belief.only(belief.ue < number_of_ues)
    count = min(_MOST_CELLS, len(belief.grid))
    order = np.argsort(-some.probability, axis=1, kind="stable")[:, :count]
    held = np.take_along_axis(some.probability, order, axis=1).astype(float)
    before = np.cumsum(held, axis=1) - held
    row, rank = np.nonzero((before < _HELD) & (held > 0))
    return cells(
        "beliefs",
        len(row),
        belief,
        attack=label,
        ue=some.ue[row],
        hindsight=hindsight,
        **xy(belief.grid.place_m[order[row, rank]]),
        probability=held[row, rank],
        cell_m=np.sqrt(np.prod(belief.grid.cell_m)),
    )


def revised_of(setup: Setup, states: States, facts: RoundContext) -> dict[str, RevisedEstimates]:
    """Revised estimates of all rounds so far, by label; none of attacks that revise nothing."""
    streams = RoundStreams(setup.streams, facts.round)
    found = {}
    for attack in setup.learning.attacks:
        revised = attack.revised(states[attack.word], facts, streams.at(attack.word))
        if revised is not None:
            found[attack.label] = revised
    return found


def _names_end(setup: Setup, world: World, facts: RoundContext) -> int:
    """The last round before all names change at once; 0 where they never do, or no clock says when
    merges are.
    """
    learning = setup.learning
    until_s = learning.threat.pseudonyms.lasts_until_s(facts.time_s)
    if not learning.threat.renames or not learning.server.in_rounds or until_s == inf:
        return 0
    return world.clock.round_of(np.array([until_s]), learning.round_s)[0]


def _identified(setup: Setup, world: World, states: States, facts: RoundContext) -> Cells:
    """Columns of the table `identities`: what attacks that know homes say of who sent, beside who
    did.
    """
    rows = []
    for attack in setup.learning.attacks:
        said = attack.identities(states[attack.word])
        directory = attack.directory(facts.public)
        if said is not None and directory is not None and said.round == facts.round:
            row = identification(said, directory, world.ues, states["names"])
            rows.append(
                {"round": facts.round, "time_s": facts.time_s, "attack": attack.label, **row}
            )
    return table_of("identities", rows)


def _linked(
    setup: Setup,
    linking: Linking,
    states: States,
    estimates: dict[str, Estimates],
    facts: RoundContext,
) -> tuple[Linking, list[Row], dict[str, dict[int, NamedPlaces]]]:
    """The state, rows of the table `linking`, and what each attack names of UEs by what it can tell
    to be of one.
    """
    names = states["names"]
    area = facts.public.area
    width_m = setup.learning.leakage.peak_width_m
    rows = []
    owned = dict(linking.owned)
    named = {}
    for attack in setup.learning.attacks:
        label = attack.label
        some = estimates[label]
        links = attack.links(states[attack.word])
        if links is not None and links.round == facts.round:
            linking, row = observe(linking, label, links, names, facts.time_s)
            rows.append(row)
        else:
            links = None
        places = owned.get(label, OwnedPlaces()).plus(owners(some.ue, names, links), some, area)
        owned[label] = places
        ue = np.unique(some.ue)
        owner = owners(ue, names, links).tolist()
        named[label] = {
            one: places.named(of, area, width_m) for one, of in zip(ue.tolist(), owner, strict=True)
        }
    return replace(linking, owned=owned), rows, named


def _with_learners(measured: Local, local: Local) -> Local:
    """Measured data, with empty rows for UEs that learnt from earlier measurements only."""
    rows = measured.row
    more = np.setdiff1d(local.row, rows)
    if not len(more):
        return measured
    place = np.searchsorted(rows, more)
    ue, model = ue_and_model(np.insert(rows, place, more))
    return replace(
        measured, ue=ue, model=model, ptr=np.insert(measured.ptr, place, measured.ptr[place])
    )


def _selected(measured: Local, local: Local) -> FloatArray:
    """Mean of what each measured row learnt from (n, 2); NaN where nothing was sent."""
    selected_m = np.full((len(measured.ue), measured.x.shape[1]), np.nan)
    _, rows, mine = np.intersect1d(measured.row, local.row, assume_unique=True, return_indices=True)
    selected_m[rows] = local.mean_x()[mine]
    return selected_m
