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

from dataclasses import replace
from math import inf

import numpy as np

from fl.attacks.base import RevisedEstimates
from fl.leakage import leakage
from fl.leakage.linking import (
    Linking,
    OwnedPlaces,
    find_estimate_owners,
    record_links,
    tabulate_identification,
    translate_to_ues,
)
from fl.leakage.tracks import NamedByAttack, Whereabouts, collect_answers_inside
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Merge, RoundState, States
from fl.round.tables import Cells, Tables, build_columns, to_columns, to_xy_columns
from fl.tracking.belief import (
    Belief,
    answer_beliefs,
    compute_expected_distances_m,
    compute_probability_within,
    is_in_credible_area,
)
from fl.types import Estimates, Local, RoundContext
from netsim.columns import look_up_or_nan, match_rows, split_row_id
from netsim.geometry import measure_lengths
from netsim.record import TableRows
from netsim.units import FloatArray, IntArray
from netsim.world.world import World

_HELD = 0.95  # of a belief in the table `beliefs`
_MOST_CELLS = 60


def measure_leakage(
    setup: Setup,
    world: World,
    state: RoundState,
    facts: RoundContext,
    collected: Collected,
    merges: list[Merge],
    last: bool,
) -> tuple[TableRows, Tables]:
    """Measure leakage by the attacks of a round: rows of `leakage`, without round and time, and of
    other tables.

    state : with the attacks after the round, and leakage before it, which becomes that after it:
    changed in place; last: no round can follow. Data without places leak none.
    """
    states = state.parts
    learning = setup.learning
    if "positions" not in learning.data.offers:
        return [], []
    measured = _add_learners(collected.taken.measured, collected.local)
    targeted = learning.threat.is_targeted(measured.ue, len(world.ues))
    learnt = np.isin(measured.row, collected.local.row)
    watched = measured.select(targeted & (learnt | (measured.count > 0)))
    names = states["names"]
    settings = learning.leakage
    estimates = {
        a.label: Estimates.join([p.estimates[a.label] for p in merges]) for a in learning.attacks
    }
    compared_round = leakage.ComparedRound(
        facts.round,
        watched,
        _average_selected(watched, collected.local),
        estimates,
        world.area,
        world.places,
        {},
        last,
        heard=not learning.attacks or any(p.view and len(p.view.ue) for p in merges),
        names_end=_find_names_end(setup, world, facts),
    )
    if leakage.is_due(settings, state.leakage, compared_round):
        for label, revised in collect_revised(setup, states, facts).items():
            estimates[label] = translate_to_ues(revised, names)
    if last:
        estimates |= conclude_attacks(setup, world, state, facts)
    tables = Tables()
    named = compared_round.named
    if learning.threat.renames:
        state.linking, rows, named = _link_names(setup, state.linking, states, estimates, facts)
        tables.append(("linking", to_columns("linking", rows)))
    tables.append(("identities", _tabulate_identities(setup, world, states, facts)))
    compared_round = replace(compared_round, estimates=estimates, named=named)
    rng = setup.streams.derive_rng("leakage")
    state.leakage, rows = leakage.compare_round(settings, state.leakage, compared_round, rng)
    beliefs = merges[-1].beliefs
    if beliefs or learning.threat.renames:
        whereabouts = Whereabouts.average_measured(facts.round, measured.select(targeted))
        state.whereabouts = state.whereabouts.plus(whereabouts)
        for label, belief in beliefs.items():
            tables += tabulate_beliefs(settings, label, belief, whereabouts, estimates[label])
    return rows, tables


def conclude_attacks(
    setup: Setup, world: World, state: RoundState, facts: RoundContext
) -> dict[str, Estimates]:
    """Estimates by label, about UEs, of attacks that look at a run once more after its last round.

    state : with their answers in place of all earlier ones; changed in place.
    """
    state.concluded = True
    estimates = {}
    answers = {}
    for attack in setup.learning.attacks:
        rng = setup.streams.derive_rng(f"{attack.word}.conclude")
        concluded = attack.conclude(state.parts[attack.word], facts, rng)
        if concluded is not None:
            translated = state.parts["names"].translate(concluded)
            estimates[attack.label] = translated
            answers[attack.label] = collect_answers_inside(translated, world.area)
    state.leakage = leakage.keep_answers(state.leakage, answers, facts.round)
    return estimates


def tabulate_beliefs(
    settings: leakage.Leakage,
    label: str,
    belief: Belief,
    whereabouts: Whereabouts,
    plain: Estimates | None = None,
) -> Tables:
    """Columns of the tables `tracking` and `beliefs` about the beliefs of an attack; plain: as in
    `tabulate_tracking`, None in hindsight.
    """
    tracking = tabulate_tracking(label, belief, whereabouts, plain, settings.hit_radius_m)
    cells = tabulate_likely_cells(label, belief, settings.belief_ues, hindsight=plain is None)
    return [("tracking", tracking), ("beliefs", cells)]


def tabulate_tracking(
    label: str,
    belief: Belief,
    whereabouts: Whereabouts,
    plain: Estimates | None,
    hit_radius_m: float,
) -> Cells:
    """Columns of the table `tracking`, for the UEs that are in both; plain : what the tracked
    attack said in this round by itself, None in hindsight.
    """
    mine, theirs = match_rows(belief.ue, whereabouts.ue)
    ue = belief.ue[mine]
    p = belief.probability[mine]
    x = whereabouts.place_m[theirs]
    grid = belief.grid
    point_m = None if belief.point_m is None else belief.point_m[mine]
    best = answer_beliefs(p, grid, hit_radius_m, point_m, belief.alone)
    prior = answer_beliefs(belief.prior[None], grid, hit_radius_m)
    first_row = np.zeros_like(ue)
    priors = np.broadcast_to(belief.prior, p.shape)
    plain_error_m = _measure_distance_m(_find_plain_places(plain, ue), x)
    return build_columns(
        "tracking",
        len(ue),
        best,
        belief,
        attack=label,
        ue=ue,
        hindsight=plain is None,
        **to_xy_columns(best.place_m),
        **to_xy_columns(best.disc_m, "disc_"),
        **to_xy_columns(x, "truth_"),
        error_m=_measure_distance_m(best.place_m, x),
        near=_measure_distance_m(best.disc_m, x) <= hit_radius_m,
        expected_distance_m=compute_expected_distances_m(p, grid, x),
        in50=is_in_credible_area(p, grid, x, best.least50),
        in90=is_in_credible_area(p, grid, x, best.least90),
        plain_error_m=plain_error_m,
        plain_near=plain_error_m <= hit_radius_m,
        prior_error_m=_measure_distance_m(prior.place_m[first_row], x),
        prior_near=_measure_distance_m(prior.disc_m[first_row], x) <= hit_radius_m,
        prior_expected_distance_m=compute_expected_distances_m(priors, grid, x),
        prior_draw_near=compute_probability_within(priors, grid, x, hit_radius_m),
    )


def _find_plain_places(estimates: Estimates | None, ue: IntArray) -> FloatArray:
    """Where the tracked attack itself puts UEs (n,): its first estimate of each that is inside the
    area, or NaN.
    """
    if estimates is None:
        return np.full((len(ue), 2), np.nan)
    rows = np.flatnonzero(estimates.kind == "plain")
    known_ue, first = np.unique(estimates.ue[rows], return_index=True)
    return look_up_or_nan(known_ue, estimates.position_m[rows[first]], ue)


def _measure_distance_m(a_m: FloatArray, b_m: FloatArray) -> FloatArray:
    return measure_lengths(a_m - b_m)


def tabulate_likely_cells(
    label: str, belief: Belief, number_of_ues: int, *, hindsight: bool
) -> Cells:
    """Columns of the table `beliefs`: the likeliest cells of the UEs of smallest number."""
    shown = belief.select_ues(belief.ue < number_of_ues)
    count = min(_MOST_CELLS, len(belief.grid))
    order = np.argsort(-shown.probability, axis=1, kind="stable")[:, :count]
    probability = np.take_along_axis(shown.probability, order, axis=1).astype(float)
    before = np.cumsum(probability, axis=1) - probability
    row, rank = np.nonzero((before < _HELD) & (probability > 0))
    place_m = belief.grid.place_m[order[row, rank]]
    return build_columns(
        "beliefs",
        len(row),
        belief,
        attack=label,
        ue=shown.ue[row],
        hindsight=hindsight,
        **to_xy_columns(place_m),
        probability=probability[row, rank],
        cell_m=np.sqrt(np.prod(belief.grid.cell_m)),
    )


def collect_revised(
    setup: Setup, states: States, facts: RoundContext
) -> dict[str, RevisedEstimates]:
    """Revised estimates of all rounds so far, by label; none of attacks that revise nothing."""
    streams = RoundStreams(setup.streams, facts.round)
    estimates = {}
    for attack in setup.learning.attacks:
        revised = attack.revise(states[attack.word], facts, streams.derive_rng(attack.word))
        if revised is not None:
            estimates[attack.label] = revised
    return estimates


def _find_names_end(setup: Setup, world: World, facts: RoundContext) -> int:
    """The last round before all names change at once; 0 where they never do, or no clock says when
    merges are.
    """
    learning = setup.learning
    if not learning.threat.renames or not learning.server.in_rounds:
        return 0
    until_s = learning.threat.pseudonyms.lasts_until_s(facts.time_s)
    if until_s == inf:
        return 0
    return world.clock.find_rounds(np.array([until_s]), learning.round_s)[0]


def _tabulate_identities(setup: Setup, world: World, states: States, facts: RoundContext) -> Cells:
    """Columns of the table `identities`: what attacks that know homes say of who sent, beside who
    did.
    """
    rows = []
    names = states["names"]
    for attack in setup.learning.attacks:
        identities = attack.identities(states[attack.word])
        directory = attack.directory(facts.public)
        if identities is None or directory is None or identities.round != facts.round:
            continue
        head = {"round": facts.round, "time_s": facts.time_s, "attack": attack.label}
        rows.append(head | tabulate_identification(identities, directory, world.ues, names))
    return to_columns("identities", rows)


def _link_names(
    setup: Setup,
    linking: Linking,
    states: States,
    estimates: dict[str, Estimates],
    facts: RoundContext,
) -> tuple[Linking, TableRows, NamedByAttack]:
    """The state, rows of the table `linking`, and what each attack names of UEs by what it can tell
    to be of one.
    """
    names = states["names"]
    area = facts.public.area
    width_m = setup.learning.leakage.peak_width_m
    rows = []
    owned = dict(linking.owned)
    named: NamedByAttack = {}
    for attack in setup.learning.attacks:
        label = attack.label
        attack_estimates = estimates[label]
        links = attack.links(states[attack.word])
        if links is not None and links.round == facts.round:
            linking, row = record_links(linking, label, links, names, facts.time_s)
            rows.append(row)
        else:
            links = None
        owner_of_estimate = find_estimate_owners(attack_estimates.ue, names, links)
        places = owned.get(label, OwnedPlaces())
        places = places.plus(owner_of_estimate, attack_estimates, area)
        owned[label] = places
        named[label] = {}
        ue = np.unique(attack_estimates.ue)
        owner_of_ue = find_estimate_owners(ue, names, links)
        for target, owner in zip(ue.tolist(), owner_of_ue.tolist(), strict=True):
            named[label][target] = places.name_places(owner, area, width_m)
    return replace(linking, owned=owned), rows, named


def _add_learners(measured: Local, local: Local) -> Local:
    """Measured data, with empty rows for UEs that learnt from earlier measurements only."""
    rows = measured.row
    missing = np.setdiff1d(local.row, rows)
    if not len(missing):
        return measured
    place = np.searchsorted(rows, missing)
    ue, model = split_row_id(np.insert(rows, place, missing))
    ptr = np.insert(measured.ptr, place, measured.ptr[place])
    return replace(measured, ue=ue, model=model, ptr=ptr)


def _average_selected(measured: Local, local: Local) -> FloatArray:
    """Mean of what each measured row learnt from (n, 2); NaN where nothing was sent."""
    selected_m = np.full((len(measured.ue), measured.x.shape[1]), np.nan)
    rows, local_rows = match_rows(measured.row, local.row)
    selected_m[rows] = local.average_x()[local_rows]
    return selected_m
