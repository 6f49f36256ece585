"""Canaries: made-up updates beside those of a run, whose scores prove lower bounds beside the
ledger's upper one.

In every round and phase a canary stands in the place of a UE that takes part. Its update, a
direction v of the clip norm c or ten times it, goes through the UE's half of all defenses with what
they remember and their streams, so it gets the very noise which that UE drew, then through the
server's half. What others sent is subtracted: they send zeros here.

    response  = view with the canary - view with an update of zeros, twice that where data are
    replaced
    score     = noise . v, plus response . v where the canary is there

in units of the deviation, added up over rounds by the matched filter. Directions are those of
single numbers, evenly spaced: a noise vector of d numbers has d independent scores, N of them with
a canary, N without. Nothing of it enters the run, so a map pays nothing. Phases of fewer than 2 N
numbers have no canary.

The view is that of the receiver which the epsilon covers: `updates` for noise on UEs, `aggregate`
of exactly as many UEs as open a sum for shares, `model` for noise at the server. Noise vectors that
agree (of two rounds, models, phases or UEs) are subtracted from each other, and banded noise is
whitened, as an attacker would.

What is remembered is an array (K, 5 + 2 N), a row for each noise vector: number of the round, UE in
whose place the canary is, deviation of the receiver's noise, what a canary of norm c adds, what one
of 10 c adds, and the noise in all directions, of which every other has a canary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.signal import lfilter

from fl.privacy.banded import compute_coefficients
from fl.privacy.ledger import tabulate_account
from fl.privacy.lower_bounds import (
    bound_epsilon_by_one_run,
    bound_gaussian_epsilon_by_clopper_pearson,
    bound_gaussian_epsilon_by_f_dp,
    bound_gaussian_epsilon_by_normal,
)
from fl.round.learn import protect_updates
from fl.round.learning import Learning
from fl.round.send import Sending
from fl.round.setup import Setup
from fl.round.state import Phase, States, find_norm_bound
from fl.round.uploads import Uploads
from fl.types import DenseUpdates
from netsim.columns import number_row, pick_even_indices
from netsim.record import Row
from netsim.units import Arrays, FloatArray

SIGNIFICANCE = 0.001
"""probability with which the bound of one row exceeds the truth"""
_PLACES = (3, ""), (4, ", tenfold")  # columns of what is remembered, see above
_CHANNELS = ("epsilon", ""), ("with_channel", ", channel")
_PAIRS = {"replace": "plus-minus", "add-remove": "in-out"}
_BOUNDS = {
    "clopper-pearson": bound_gaussian_epsilon_by_clopper_pearson,
    "normal": bound_gaussian_epsilon_by_normal,
    "one-run": bound_epsilon_by_one_run,
    "f-dp": bound_gaussian_epsilon_by_f_dp,
}
_CURVE = 8  # rounds at which both bounds are stated
_ALIKE = 0.5  # correlation from which two noise vectors are one that is used twice


def record_canaries(phase: Phase, uploads: Uploads, sending: Sending, before: States) -> FloatArray:
    """What is remembered after a phase whose updates have left; before: what parts remembered until
    then.
    """
    table = before["audit"]
    learning = phase.learning
    learnt = uploads.made
    facts = phase.facts
    view = learning.audited_view
    n = table.shape[1] - 5
    d = learnt.n_parameters
    published = view == "model"
    keeps_ue = not published or learning.separation > 1  # else any UE, which may be in all rounds
    earlier_ue = table[: int(keeps_ue), 1]
    party = {"updates": 2, "model": 1}.get(view, facts.least_opened)
    if view == "updates" and any(
        step.needs_rounds and "bound" not in step.offers for step in learning.defenses
    ):
        party = len(learnt.ue)  # a budget looks at all
    first = uploads.first_rows
    is_another = ~np.isin(learnt.ue[first], earlier_ue)
    members = first[np.argsort(is_another, kind="stable")[:party]]
    canary_ue = np.append(earlier_ue, learnt.ue[members])[:1]
    if n > d or (canary_ue not in learnt.ue and not published):
        return table
    if view == "aggregate" and len(members) < party:
        return table
    models = learnt.model[learnt.ue == canary_ue]
    pairs = np.meshgrid(members, models, indexing="ij")
    member, model = np.reshape(pairs, (2, -1))  # (k,), of each all models
    row_ids = number_row(learnt.ue[member], model)
    row = np.searchsorted(learnt.row, row_ids) % len(learnt.row)
    # (k,): of the model, where the UE has it
    rows = np.where(learnt.row[row] == row_ids, row, member)
    ue = learnt.ue[rows]
    canary = np.outer(np.isin(ue, canary_ue), np.eye(1, d))
    directions = pick_even_indices(d, n)
    channel = sending.planned
    if channel is not None:
        channel = channel.select(sending.of_row[rows])
    facts = replace(facts, channel=channel)

    def view_directions(norm: float, study: Learning) -> FloatArray:
        """What the view has in all directions (k, 2 N), with a canary of this norm."""
        states = dict(before)
        local = uploads.local.select(rows)
        sent = DenseUpdates(ue, model, learnt.count[rows], norm * canary, phase.name, learnt.bound)
        updates, _ = protect_updates(study, sent, local, facts, states, phase.streams)
        if view == "updates":
            shown = updates.rows(slice(2 * len(models)))  # its own, and those of one other UE
            return shown[:, directions]
        total = updates.sum_weighted(np.full(len(rows), facts.weight), phase.setup.public.n_model)
        for step in reversed(learning.defenses):
            rng = phase.streams.derive_rng(f"{step.word}.server")
            total, _, _ = step.finish(total, len(rows), facts, states[step.word], rng)
        return total[:, directions]

    # responses without noise: what is rounded at random, and again where it moves too far, has
    # other noise then
    calm = [step.change("noise_multiplier", 1e-9) for step in learning.defenses]
    quiet = learning.change("defenses", calm)
    bound = find_norm_bound(learning, before)
    norm = bound or learnt.promise.norm
    factors = (0, 1, 10 if bound else 1)
    zero, single, tenfold = (view_directions(k * norm, quiet)[:, 0] for k in factors)
    thermal: FloatArray | float = 0.0
    if channel is not None and view == "updates":
        thermal = channel.thermal_std[: len(zero)]
    number = facts.round if learning.server.in_rounds else phase.version + 1
    replaced_ue = canary_ue.max(initial=0)
    columns = np.broadcast_arrays(number, replaced_ue, thermal, single - zero, tenfold - zero)
    return np.vstack([table, np.column_stack([*columns, view_directions(0.0, learning)])])


def tabulate_canaries(
    setup: Setup, table: FloatArray, spends: Arrays, names: Sequence[str]
) -> Iterator[Row]:
    """Rows of the table `audit`, of some rounds and of the whole run (round 0); spends: that table
    as columns.
    """
    learning = setup.learning
    played = np.unique(table[:, 0])
    if not len(played):
        return
    ue = table[0, 1]
    for until in (*played[pick_even_indices(len(played), _CURVE)], 0):
        last = until or np.inf
        is_before = spends["round"] <= last
        seen = table[table[:, 0] <= last]
        rows = tabulate_account({name: column[is_before] for name, column in spends.items()})
        accounts = [row for row in rows if row["unit"] in ("user", "record")]
        account = [row for row in accounts if row["ue"] in (-1, ue)][-1]
        pair = _PAIRS.get(account["relation"], "in-zero")
        rate = learning.sampling_rate if pair == "in-out" else 1.0
        names_of_bounds = ["one-run"] if rate != 1 else [*_BOUNDS][: 2 if until else 4]
        for (k, place), (column, channel), name in product(_PLACES, _CHANNELS, names_of_bounds):
            upper = account[column]
            if np.isnan(upper) or (channel and (until or not seen[:, 2].any())):
                continue
            gain = seen[:, k] * (1 + (pair == "plus-minus"))
            scores = score_canaries(setup, seen, gain, bool(channel), rate)
            lower = _BOUNDS[name](scores, account["delta"], SIGNIFICANCE)
            yield {
                "mechanism": account["mechanism"],
                "round": until,
                "view": learning.audited_view,
                "half": "canaries",
                "quantity": name,
                "pair": pair + place + channel,
                "ue": names[int(ue)],
                "moved": np.nan,
                "sensitivity": np.nan,
                "lower": lower,
                "upper": upper,
                "verdict": "violated" if lower > upper else "within",
            }


def score_canaries(
    setup: Setup, table: FloatArray, gain: FloatArray, channel: bool, rate: float
) -> FloatArray:
    """Scores (2, N) with a canary and without one, of rows (K,) of what is remembered, to which a
    canary adds gain.

    channel: whether the receiver's noise is there; rate: of the coin that says in which rounds a
    canary is.
    """
    streams = setup.streams
    noise = table[:, 5:]
    k, n = noise.shape
    if channel:
        rng = streams.derive_rng("audit")
        noise = noise + table[:, 2:3] * rng.normal("channel", np.arange(k), (n,))
    bands = max(getattr(d, "bands", None) or 1 for d in setup.learning.defenses)
    first_model = np.eye(1, setup.public.n_model)[0]  # rows of a round are its models
    white = np.kron(compute_coefficients(bands), first_model)
    noise = lfilter(white, 1, noise, axis=0)
    gain = lfilter(white, 1, gain)
    cov = noise @ noise.T / n
    std = np.sqrt(np.diag(cov))
    correlation = max(_ALIKE, 8 / np.sqrt(n))
    cov[np.abs(cov) < correlation * np.outer(std, std)] = 0.0
    n_alike = (np.tril(cov, -1) > 0).sum(axis=1)
    gain = gain * (-1.0) ** n_alike  # canaries differ where the noise is the same
    ridge = 1e-12 * cov.trace() + 1e-100
    weight = np.linalg.solve(cov + ridge * np.eye(k), gain)
    power = (weight * gain)[:, None]
    ratio = weight[:, None] * noise - power / 2  # log likelihood ratios
    items = -1 - np.arange(n // 2)
    lots = [streams.derive_rng("participation", int(t)).uniform("lot", items) for t in table[:, 0]]
    ratio[:, ::2] += power * (np.array(lots) < rate)
    if rate < 1:
        ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)
    return ratio.sum(axis=0).reshape(-1, 2).T
