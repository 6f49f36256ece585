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

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.signal import lfilter

from fl.privacy.banded import coefficients
from fl.privacy.ledger import final_account
from fl.privacy.lower_bounds import clopper_pearson, f_dp, normal, one_run
from fl.round.learn import protected
from fl.round.learning import Learning
from fl.round.send import Sending
from fl.round.setup import Setup
from fl.round.state import Phase, States, norm_bound
from fl.round.uploads import Uploads
from fl.types import DenseUpdates
from netsim.columns import evenly, row_id
from netsim.record import Row
from netsim.units import FloatArray

SIGNIFICANCE = 0.001
"""probability with which the bound of one row exceeds the truth"""
_PLACES = (3, ""), (4, ", tenfold")  # columns of what is remembered, see above
_CHANNELS = ("epsilon", ""), ("with_channel", ", channel")
_CURVE = 8  # rounds at which both bounds are stated
_ALIKE = 0.5  # correlation from which two noise vectors are one that is used twice


def observed(phase: Phase, uploads: Uploads, sending: Sending, before: States) -> FloatArray:
    """What is remembered after a phase whose updates have left; before: what parts remembered until
    then.
    """
    table = before["audit"]
    learning = phase.learning
    made = uploads.made
    facts = phase.facts
    view = learning.audited_view
    n = table.shape[1] - 5
    d = made.n_parameters
    published = view == "model"
    before_it = table[
        : int(not published or learning.separation > 1), 1
    ]  # else any UE, which may be in all rounds
    party = {"updates": 2, "model": 1}.get(view, facts.least_opened)
    if (
        any(step.needs_rounds and "bound" not in step.offers for step in learning.defenses)
        and view == "updates"
    ):
        party = len(made.ue)  # a budget looks at all
    members = uploads.first[
        np.argsort(~np.isin(made.ue[uploads.first], before_it), kind="stable")[:party]
    ]
    mine = np.append(before_it, made.ue[members])[:1]
    if (
        n > d
        or (mine not in made.ue and not published)
        or (view == "aggregate" and len(members) < party)
    ):
        return table
    models = made.model[made.ue == mine]
    member, model = np.reshape(
        np.meshgrid(members, models, indexing="ij"), (2, -1)
    )  # (k,), of each all models
    wanted = row_id(made.ue[member], model)
    row = np.searchsorted(made.row, wanted) % len(made.row)
    at = np.where(
        made.row[row] == wanted, row, member
    )  # rows (k,): of the model, where the UE has it
    canary = np.outer(np.isin(made.ue[at], mine), np.eye(1, d))
    along = evenly(d, n)
    own = replace(facts, channel=sending.planned and sending.planned.select(sending.of_row[at]))

    def seen(norm: float, study: Learning) -> FloatArray:
        """What the view has in all directions (k, 2 N), with a canary of this norm."""
        known = dict(before)
        sent = DenseUpdates(
            made.ue[at], model, made.count[at], norm * canary, phase.name, made.bound
        )
        updates, _ = protected(study, sent, uploads.local.select(at), own, known, phase.streams)
        if view == "updates":
            return updates.rows(slice(2 * len(models)))[
                :, along
            ]  # its own, and those of one other UE
        total = updates.weighted_sum(np.full(len(at), facts.weight), phase.setup.public.n_model)
        for step in reversed(learning.defenses):
            total, _, _ = step.finish(
                total, len(at), own, known[step.word], phase.streams.at(f"{step.word}.server")
            )
        return total[:, along]

    # responses without noise: what is rounded at random, and again where it moves too far, has
    # other noise then
    calm = [step.model_copy(update={"noise_multiplier": 1e-9}) for step in learning.defenses]
    quiet = learning.model_copy(update={"defenses": calm})
    bound = norm_bound(learning, before)
    norm = bound or made.promise.norm
    zero, *moved = (seen(times * norm, quiet)[:, 0] for times in (0, 1, 10 if bound else 1))
    thermal = own.channel.thermal_std[: len(zero)] if own.channel and view == "updates" else 0.0
    number = facts.round if learning.server.in_rounds else phase.version + 1
    columns = np.broadcast_arrays(
        number, mine.max(initial=0), thermal, *(each - zero for each in moved)
    )
    return np.vstack([table, np.column_stack([*columns, seen(0.0, learning)])])


def audited(
    setup: Setup, table: FloatArray, spends: Mapping[str, np.ndarray], names: Sequence[str]
) -> Iterator[Row]:
    """Rows of the table `audit`, of some rounds and of the whole run (round 0); spends: that table
    as columns.
    """
    learning = setup.learning
    played = np.unique(table[:, 0])
    for until in [*played[evenly(len(played), _CURVE)], 0] if len(played) else []:
        last = until or np.inf
        now = spends["round"] <= last
        here = table[table[:, 0] <= last]
        account = final_account({name: column[now] for name, column in spends.items()})
        of = [
            a for a in account if a["unit"] in ("user", "record") and a["ue"] in (-1, table[0, 1])
        ][-1]
        pair = {"replace": "plus-minus", "add-remove": "in-out"}.get(of["relation"], "in-zero")
        rate = learning.sampling_rate if pair == "in-out" else 1.0
        if rate == 1:
            bounds = [clopper_pearson, normal, one_run, f_dp][: 2 if until else 4]
        else:
            bounds = [one_run]
        for (k, place), (column, channel), bound in product(_PLACES, _CHANNELS, bounds):
            gain = here[:, k] * (1 + (pair == "plus-minus"))
            upper = of[column]
            if np.isnan(upper) or (channel and (until or not here[:, 2].any())):
                continue
            lower = bound(scored(setup, here, gain, bool(channel), rate), of["delta"], SIGNIFICANCE)
            yield {
                "mechanism": of["mechanism"],
                "round": until,
                "view": learning.audited_view,
                "half": "canaries",
                "quantity": bound.__name__.replace("_", "-"),
                "pair": pair + place + channel,
                "ue": names[int(table[0, 1])],
                "moved": np.nan,
                "sensitivity": np.nan,
                "lower": lower,
                "upper": upper,
                "verdict": "violated" if lower > upper else "within",
            }


def scored(
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
        noise = noise + table[:, 2:3] * streams.at("audit").normal("channel", np.arange(k), (n,))
    bands = max(getattr(d, "bands", None) or 1 for d in setup.learning.defenses)
    white = np.kron(
        coefficients(bands), np.eye(1, setup.public.n_model)[0]
    )  # rows of a round are its models
    noise = lfilter(white, 1, noise, axis=0)
    gain = lfilter(white, 1, gain)
    cov = noise @ noise.T / n
    std = np.sqrt(np.diag(cov))
    cov[np.abs(cov) < max(_ALIKE, 8 / np.sqrt(n)) * np.outer(std, std)] = 0.0
    gain = gain * (-1.0) ** (np.tril(cov, -1) > 0).sum(
        axis=1
    )  # canaries differ where the noise is the same
    weight = np.linalg.solve(cov + (1e-12 * cov.trace() + 1e-100) * np.eye(k), gain)
    power = (weight * gain)[:, None]
    ratio = weight[:, None] * noise - power / 2  # log likelihood ratios
    lots = [
        streams.at("participation", int(t)).uniform("lot", -1 - np.arange(n // 2))
        for t in table[:, 0]
    ]
    ratio[:, ::2] += power * (np.array(lots) < rate)
    if rate < 1:
        ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)
    return ratio.sum(axis=0).reshape(-1, 2).T
