"""Canaries: made-up updates beside those of a run, whose scores prove lower bounds beside the ledger's upper one.

In every round and phase a canary stands in the place of a UE that takes part. Its update, a direction v of the clip
norm c or ten times it, goes through the UE's half of all defenses with what they remember and their streams, so it gets
the very noise which that UE drew, then through the server's half. What others sent is subtracted: they send zeros here.

    response  = view with the canary - view with its neighbour
    score     = noise . v, plus response . v where the canary is there

in units of the deviation, added up over rounds by the matched filter. Directions are those of single numbers, evenly
spaced: a noise vector of d numbers has d independent scores, N of them with a canary, N without. Nothing of it enters
the run, so a map pays nothing. Phases of fewer than 2 N numbers have no canary.

The view is that of the receiver which the epsilon covers: `updates` for noise on UEs, `aggregate` of exactly as many
UEs as open a sum for shares, `model` for noise at the server. Noise vectors that agree (of two rounds, models, phases
or UEs) are subtracted from each other, and banded noise is whitened, as an attacker would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.signal import lfilter

from fl.learning import Learning
from fl.privacy.banded import coefficients
from fl.privacy.ledger import final_account
from fl.privacy.lower_bounds import proven
from fl.round.merge import finished
from fl.round.send import Departure, protected
from fl.round.setup import Setup
from fl.round.state import Phase, Scores, States, norm_bound
from fl.round.uploads import Uploads
from fl.types import DenseUpdates
from netsim.columns import evenly
from netsim.errors import BadInput
from netsim.record import Row
from netsim.units import BoolArray, FloatArray

SIGNIFICANCE = 0.001
"""probability with which the bound of one row exceeds the truth"""
_CURVE = 8  # rounds at which both bounds are stated
_ALIKE = 0.5  # correlation from which two noise vectors are one that is used twice


def observed(phase: Phase, uploads: Uploads, departure: Departure, before: States) -> Scores:
    """Scores after a phase whose updates have left; before: what parts remembered until then.

    Raises BadInput where an update has too few numbers.
    """
    scores: Scores = before["audit"]
    learning, made, view = phase.learning, uploads.made, phase.learning.audited_view
    n, d, n_model = scores.noise.shape[1], made.n_parameters, phase.setup.public.n_model
    if n > d and len(learning.learner.phases) == 1:
        raise BadInput(
            f"learning.audit.canaries: {n // 2} canaries need {n} independent numbers of noise, and an update here has "
            f"{d}; take at most {d // 2}"
        )
    published = view == "model"
    mine = int(scores.ue.max(initial=-1))
    if mine < 0 or (published and learning.separation == 1):  # then any UE may be in all rounds
        mine = int(np.append(made.ue[np.argsort(-made.count, kind="stable")], -1)[0])
    honest = phase.facts.least_honest(max(getattr(d, "honest_share", 0.0) for d in learning.defenses))
    party = {"updates": 2, "model": 1}.get(view, honest)
    at = uploads.first[np.argsort(made.ue[uploads.first] != mine, kind="stable")[:party]]
    if n > d or not (published or (mine in made.ue and (view == "updates" or len(at) == party))):
        return scores
    ring = any("whole numbers" in defense.offers for defense in learning.defenses)
    models = np.arange(n_model) if published or ring else made.model[made.ue == mine]  # that the account has noise for
    model, at = np.tile(models, len(at)), np.repeat(at, len(models))
    channel = departure.planned and departure.planned.select(departure.of_row[at])
    along = evenly(d, n)
    canary = np.zeros((len(at), d))
    canary[made.ue[at] == mine, along[0]] = 1.0

    def seen(norm: float, study: Learning) -> FloatArray:
        """What the view has in all directions (k, 2 N), with a canary of this norm."""
        known, facts = dict(before), replace(phase.facts, channel=channel)
        sent = DenseUpdates(made.ue[at], model, made.count[at], norm * canary, phase.name, made.bound)
        updates, _ = protected(study, sent, uploads.local.select(at), facts, known, phase.streams)
        values = updates.rows(slice(None))
        if view != "updates":
            total = updates.weighted_sum(np.full(len(at), facts.weight), n_model)
            values = finished(phase, total, len(at), facts, known)[0][models]
        return values[:, along]

    quiet = learning
    if ring:  # what is rounded at random, and again where it moves too far, has other noise then
        calm = [defense.model_copy(update={"noise_multiplier": 1e-9}) for defense in learning.defenses]
        quiet = learning.model_copy(update={"defenses": calm})
    norm = norm_bound(learning, before) or made.promise.norm
    relation = ["replace", *(r for d in learning.defenses if (r := getattr(d, "relation", "")))][-1]
    other = -norm if relation == "replace" else 0.0
    gain = np.array([(seen(t * norm, quiet) - seen(t * other, quiet))[:, 0] for t in (1, 10)]).T
    noise = seen(0.0, learning)
    k = len(noise)
    thermal = channel.thermal_std if channel and view == "updates" else np.zeros(k)
    number = phase.facts.round if learning.server.in_rounds else phase.version + 1
    return Scores.join([scores, Scores(np.full(k, number), np.full(k, mine), noise, gain, thermal)])


def audited(setup: Setup, scores: Scores, spends: Mapping[str, np.ndarray], names: Sequence[str]) -> Iterator[Row]:
    """Rows of the table `audit`, of some rounds and of the whole run (round 0); spends: that table as columns."""
    learning, ue = setup.learning, scores.ue.max(initial=-1)
    places = 1 + any("bound" in d.offers for d in learning.defenses)  # a learner bounds its own updates alone
    played = np.unique(scores.number)
    for until in [*played[evenly(len(played), _CURVE)].tolist(), 0] if len(played) else []:
        last = until or played[-1]
        now = spends["round"] <= last
        account = final_account({name: np.asarray(column)[now] for name, column in spends.items()})
        stated = [a for a in account if a["unit"] in ("user", "record") and a["ue"] in (-1, ue)][-1]
        rate = learning.sampling_rate if stated["relation"] == "add-remove" else 1.0
        away = "in-out" if stated["relation"] == "add-remove" and learning.audited_view == "model" else "in-zero"
        for place, column in product(range(places), ("epsilon", "with_channel")):
            upper = stated[column]
            if np.isnan(upper):
                continue
            sides = scored(setup, scores, scores.number <= last, place, column == "with_channel", rate)
            pair = "plus-minus" if stated["relation"] == "replace" else away
            pair += ", tenfold" * place + ", channel" * (column == "with_channel")
            for name, lower in proven(sides, stated["delta"], SIGNIFICANCE, rate == 1, not until):
                yield {
                    "mechanism": stated["mechanism"], "round": until, "view": learning.audited_view,
                    "half": "canaries", "quantity": name, "pair": pair, "ue": names[ue], "moved": np.nan,
                    "sensitivity": np.nan, "lower": lower, "upper": upper,
                    "verdict": "violated" if lower > upper else "within",
                }  # fmt: skip


def scored(
    setup: Setup, scores: Scores, here: BoolArray, place: int, channel: bool = False, rate: float = 1.0
) -> FloatArray:
    """Scores (2, N) with a canary and without one, of some rows (K,).

    channel: whether the receiver's noise is there; rate: of the coin that says in which rounds a canary is.
    """
    noise, gain, number = scores.noise[here], scores.gain[here, place], scores.number[here]
    n = noise.shape[1]
    if channel:
        drawn = setup.streams.at("audit").normal("channel", np.arange(len(here)), (n,))
        noise = noise + (scores.thermal[:, None] * drawn)[here]
    bands = max(getattr(d, "bands", None) or 1 for d in setup.learning.defenses)
    white = np.kron(coefficients(bands), np.eye(1, setup.public.n_model)[0])  # rows of a round are its models
    noise, gain = lfilter(white, 1, noise, axis=0), lfilter(white, 1, gain)
    std = np.maximum(np.sqrt((noise**2).mean(axis=1)), 1e-9 * gain.max() + 1e-300)
    noise, gain = noise / std[:, None], gain / std
    alike = noise @ noise.T / n
    alike[np.abs(alike) < max(_ALIKE, 8 / np.sqrt(n))] = 0.0
    gain = gain * (-1.0) ** (np.tril(alike, -1) > 0).sum(axis=1)  # canaries differ where the noise is the same
    weight = np.linalg.solve(alike + 1e-9 * np.eye(len(gain)), gain)
    # log likelihood ratios of rounds, each of which has one coin
    rounds = np.unique(number)
    of = 1.0 * (rounds[:, None] == number)
    power = (of @ (weight * gain))[:, None]
    ratio = of @ (weight[:, None] * noise) - power / 2
    lots = [setup.streams.at("participation", t).uniform("lot", -1 - np.arange(n // 2)) for t in rounds.tolist()]
    ratio[:, ::2] += power * (np.array(lots) < rate)
    if rate < 1:
        ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)
    return ratio.sum(axis=0).reshape(-1, 2).T
