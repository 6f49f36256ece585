"""Canaries: made-up updates beside those of a run, whose scores prove lower bounds beside the ledger's upper one.

In every round and phase a canary stands in the place of a UE that takes part. Its update, a direction v of the clip norm
c or ten times it, goes through the UE's half of all defenses with what they remember and their streams, so it gets the
very noise which that UE drew, then through the server's half. What others sent is subtracted: they send zeros here.

    response  = view with the canary - view with its neighbour
    score     = noise . v, plus response . v where the canary is there

in units of the deviation, added up over rounds by the matched filter. Directions are those of single numbers, evenly
spaced: a noise vector of d numbers has d independent scores, N of them with a canary, N without. Nothing of it enters
the run, so a map pays nothing.

Views are those of the receivers that an epsilon covers: `updates` for noise on UEs, `aggregate` of exactly as many UEs
as open a sum for shares, `model` for noise at the server. Noise vectors that agree (of two rounds, models, phases or
UEs) are subtracted from each other, and banded noise is whitened, as an attacker would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.signal import lfilter

from fl.learning import BITS_PER_NUMBER, Learning
from fl.privacy import lower_bounds
from fl.privacy.banded import coefficients
from fl.privacy.ledger import final_account
from fl.round.merge import finished
from fl.round.send import Departure, protected
from fl.round.setup import Setup
from fl.round.state import AUDIT, Phase, Scores, States, norm_bound
from fl.round.uploads import Uploads
from fl.types import DenseUpdates
from netsim.columns import evenly
from netsim.errors import BadInput
from netsim.record import Row
from netsim.units import FloatArray

SIGNIFICANCE = 0.001
"""probability with which the bound of one row exceeds the truth"""
_CURVE = 8  # rounds at which both bounds are stated
_ALIKE = 0.5  # correlation from which two noise vectors are one that is used twice


def observed(phase: Phase, uploads: Uploads, departure: Departure, before: States) -> States:
    """Scores after a phase whose updates have left; before: what defenses remembered until then.

    Raises BadInput where an update has too few numbers.
    """
    return {
        word: _scored(word.removeprefix(AUDIT), scores, phase, uploads, departure, before)
        for word, scores in before.items()
        if word.startswith(AUDIT)
    }


def _scored(
    view: str, scores: Scores, phase: Phase, uploads: Uploads, departure: Departure, before: States
) -> Scores:  # fmt: skip
    learning, made, n = phase.learning, uploads.made, scores.noise.shape[1]
    d, n_model = made.n_parameters, phase.setup.public.n_model
    if n > d and len(learning.learner.phases) > 1:
        return scores  # a phase of few numbers
    if n > d:
        raise BadInput(
            f"learning.audit.canaries: {n // 2} canaries need {n} independent numbers of noise, and an update here has "
            f"{d}; take at most {d // 2}"
        )
    published = view == "model"
    free = published and learning.separation == 1  # any UE may be in all rounds
    ues, first = np.unique(made.ue, return_index=True)
    mine = scores.ue[:1]
    if free or not len(mine):
        mine = made.ue[np.argsort(-made.count, kind="stable")[:1]]
    company = {"updates": 1, "model": 0}.get(view, _together(phase) - 1)
    party = np.concatenate([np.intersect1d(mine, ues), np.setdiff1d(ues, mine)[:company]])
    models = np.arange(n_model)
    if not (published or learning.bits_per_number < BITS_PER_NUMBER):  # the account has noise on its own models
        models = made.model[made.ue == mine]
    if not published and len(party) * len(models) == 0 or (view == "aggregate" and len(party) <= company):
        return scores
    at = np.repeat(first[np.searchsorted(ues, party)], len(models))
    model = np.tile(models, len(party))
    along = evenly(d, n)
    canary = np.zeros((len(at), d))
    canary[np.isin(made.ue[at], mine), along[0]] = 1.0

    def seen(norm: float, rows: slice = slice(None), of_study: Learning = learning) -> FloatArray:
        """What the view has of these rows in the directions (k, 2 N), with a canary of this norm."""
        of, known = at[rows], dict(before)
        channel = None if departure.planned is None else departure.planned.select(departure.of_row[of])
        facts = replace(phase.facts, channel=channel)
        sent = DenseUpdates(made.ue[of], model[rows], made.count[of], norm * canary[rows], phase.name, made.bound)
        updates, _ = protected(of_study, sent, uploads.local.select(of), facts, known, phase.streams)
        if view == "updates":
            return updates.rows(slice(None))[:, along]
        total = updates.weighted_sum(np.full(len(of), facts.weight), n_model)
        return finished(phase, total, len(of), facts, known)[0][np.ix_(models, along)]

    relation = [getattr(d, "relation", "") for d in learning.defenses if "bound" in d.offers] or ["replace"]
    noise = seen(0.0)
    # what is rounded at random, and again where it moves too far, has other noise then
    ring = [d.model_copy(update={"noise_multiplier": 1e-9}) if "whole numbers" in d.offers else d for d in learning.defenses]
    quiet = learning.model_copy(update={"defenses": ring})
    gain = np.zeros((len(noise), 2))
    norm = norm_bound(learning, before) or made.promise.norm
    for place, times in enumerate((1, 10)):
        other = -times * norm * (relation[-1] == "replace")
        gain[:, place] = (seen(times * norm, of_study=quiet) - seen(other, of_study=quiet))[:, 0]
    if free and relation[-1] == "add-remove":
        noise[:, 1::2] = seen(0.0, slice(0))[:, 1::2]
    thermal = np.zeros(len(noise))
    if view == "updates" and departure.planned is not None:
        thermal = departure.planned.thermal_std[departure.of_row[at]]
    number = phase.facts.round if learning.server.in_rounds else phase.version + 1
    new = Scores(np.full(len(noise), number), np.resize(mine, len(noise)), noise, gain, thermal)
    return Scores.join([scores, new])


def _together(phase: Phase) -> int:
    """UEs whose noise a sum has for certain."""
    honest = [getattr(d, "honest_share", 1.0) for d in phase.learning.defenses if "shared noise" in d.offers]
    return phase.facts.least_honest(*honest) if honest else 1


def audited(
    setup: Setup, parts: States, spends: Mapping[str, np.ndarray], names: Sequence[str]
) -> Iterator[Row]:
    """Rows of the table `audit`, of some rounds and of the whole run (round 0); spends: that table as columns."""
    learning = setup.learning
    places = 2 if any("bound" in d.offers for d in learning.defenses) else 1  # a learner's own bound clips nothing else
    for view in dict.fromkeys(d.covers for d in learning.defenses if d.covers):
        scores = parts[AUDIT + view]
        labels = [d.label for d in learning.defenses if d.covers == view]
        played = np.unique(scores.number)
        for until in [*played[evenly(len(played), _CURVE)].tolist(), 0] if len(played) else []:
            now = spends["round"] <= (until or played[-1])
            account = final_account({name: np.asarray(column)[now] for name, column in spends.items()})
            group = next((a["unit"], a["relation"]) for a in account if a["mechanism"] in labels)
            stated = [a for a in account if (a["unit"], a["relation"]) == group and a["ue"] in (-1, scores.ue[0])][-1]
            rate = learning.sampling_rate if group[1] == "add-remove" else 1.0
            bounds = lower_bounds.GAUSSIAN if rate == 1 else lower_bounds.ANY
            pair = {"replace": "plus-minus", "add-remove": "in-out" if view == "model" else "in-zero"}.get(group[1], "in-zero")
            for place, column in product(range(places), ("epsilon", "with_channel")):
                inside, outside = sides(setup, scores, place, until or played[-1], column == "with_channel", rate)
                upper = stated[column]
                for name in list(bounds)[: 2 if until else None] if upper == upper else ():
                    lower = bounds[name](inside, outside, stated["delta"], SIGNIFICANCE)
                    yield {
                        "mechanism": stated["mechanism"], "round": until, "view": view, "half": "canaries",
                        "quantity": name, "pair": pair + ", tenfold" * place + ", channel" * (column != "epsilon"),
                        "ue": names[scores.ue[0]], "moved": np.nan, "sensitivity": np.nan, "lower": lower,
                        "upper": upper, "verdict": "violated" if lower > upper else "within",
                    }  # fmt: skip


def sides(
    setup: Setup, scores: Scores, place: int, until: int, channel: bool = False, rate: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Scores (N,) with a canary and (N,) without one, after round `until`.

    channel: whether the receiver's noise is there; rate: of the coin that says in which rounds a canary is.
    """
    here = scores.number <= until
    noise, n = scores.noise, scores.noise.shape[1]
    if channel:
        drawn = setup.streams.at("audit.channel").normal("noise", np.arange(len(noise)), (n,))
        noise = noise + scores.thermal[:, None] * drawn
    bands = max(getattr(d, "bands", None) or 1 for d in setup.learning.defenses)
    white = np.kron(coefficients(bands), np.eye(1, setup.public.n_model)[0])  # rows of a round are its models
    noise, gain = lfilter(white, 1, noise[here], axis=0), lfilter(white, 1, scores.gain[here, place])
    std = np.maximum(np.sqrt((noise**2).mean(axis=1)), 1e-9 * gain.max() + 1e-300)
    noise, gain = noise / std[:, None], gain / std
    alike = noise @ noise.T / n
    alike[np.abs(alike) < max(_ALIKE, 8 / np.sqrt(n))] = 0.0
    gain = gain * (-1.0) ** (np.tril(alike, -1) > 0).sum(axis=1)  # canaries differ where the noise is the same
    weight = np.linalg.solve(alike + 1e-9 * np.eye(len(gain)), gain)
    # a likelihood ratio for each round, which has one coin for a UE
    rounds = np.unique(scores.number[here])
    of = (rounds[:, None] == scores.number[here]).astype(float)
    score, power = of @ (weight[:, None] * noise), (of @ (weight * gain))[:, None]
    lots = [setup.streams.at("participation", t).uniform("lot", -1 - np.arange(n // 2)) for t in rounds.tolist()]
    score[:, ::2] += power * (np.array(lots) < rate)
    score -= power / 2
    if rate < 1:
        score = np.logaddexp(np.log1p(-rate), np.log(rate) + score)
    total = score.sum(axis=0)
    return total[::2], total[1::2]
