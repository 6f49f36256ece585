"""The ledger: what every UE has spent so far. Booked when noise is drawn; never added across kinds of unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fl.privacy import rdp
from fl.privacy.compose import ADD_REMOVE
from fl.privacy.filter import GaussianFilter
from fl.privacy.gaussian import epsilon_of
from fl.types import AnySpend, MetricSpend, Spend, State
from netsim.units import FloatArray

LOCATION = "location"
ALL = "all"
Account = tuple[str, str, str, float]
"""mechanism, unit, relation, delta: what is added up by itself."""


@dataclass(frozen=True)
class Statement:
    """What a mechanism has cost each UE (n_ue,) up to now: (epsilon, delta) for one unit and relation.

    `with_channel` is the epsilon if the noise of the radio channel counts too: true only against somebody who hears
    through that channel, and as long as its noise is what the channel law says. The mechanism `all` stands for all of
    one unit and relation together.
    """

    mechanism: str
    unit: str
    relation: str
    delta: float
    epsilon: FloatArray
    with_channel: FloatArray


def account(spend: AnySpend) -> Account:
    """Where a spend is booked."""
    if isinstance(spend, MetricSpend):
        return spend.mechanism, LOCATION, "per metre", 0.0
    return spend.mechanism, spend.unit, spend.relation, spend.delta


def empty(n_ue: int) -> State:
    """Nobody has spent anything."""
    return {"n_ue": n_ue, "total": {}, "with_channel": {}, "sampled": {}, "together": {}}


def book(state: State, spends: list[AnySpend]) -> State:
    """The ledger after a round: `spends` are all of its draws.

    Per account and UE: `total` adds up (sensitivity / std)^2 of all Gaussian draws, or epsilon per metre of all moved
    locations; `with_channel` the same with the channel's noise. Draws that a random part of the users takes part in are
    paid by everybody alike, and a round has one coin for each user, whatever it then sends to: to all its models, in
    all phases, through all mechanisms. So their mu^2 = sum (sensitivity / std)^2 adds up first, and the coin amplifies
    that one Gaussian: `sampled` (n_orders,) are its Renyi costs by account, `together` those of all accounts of one
    unit and relation. Raises ValueError for a sampled draw of some users only, and for two rates in one round.
    """
    total, channel = _copied(state["total"]), _copied(state["with_channel"])
    on_coin: dict[str, list[Spend]] = {}
    for spend in spends:
        key = "|".join(map(str, account(spend)))
        for sums in (total, channel):
            sums.setdefault(key, np.zeros(state["n_ue"]))
        if isinstance(spend, Spend) and spend.sampling_rate < 1 and spend.relation == ADD_REMOVE:
            on_coin.setdefault(key, []).append(spend)
            continue
        everybody = spend.ue < 0
        for sums, cost in ((total, _cost(spend, with_channel=False)), (channel, _cost(spend, with_channel=True))):
            np.add.at(sums[key], spend.ue[~everybody], cost[~everybody])
            sums[key] += cost[everybody].sum()
    by_group: dict[str, list[Spend]] = {}
    for key, drawn in on_coin.items():
        by_group.setdefault(_group(key), []).extend(drawn)
    return {
        **state, "total": total, "with_channel": channel,
        "sampled": _amplified(state["sampled"], on_coin), "together": _amplified(state["together"], by_group),
    }  # fmt: skip


def _amplified(costs: State, on_coin: dict[str, list[Spend]]) -> State:
    """The Renyi costs with those of one round added: the draws of a key are one Gaussian, on one coin."""
    found = _copied(costs)
    for key, drawn in on_coin.items():
        rates = {spend.sampling_rate for spend in drawn}
        if len(rates) > 1 or any(np.any(spend.ue >= 0) for spend in drawn):
            raise ValueError(
                f"{drawn[0].mechanism}: only noise that hides everybody, at one rate a round, can count on sampling"
            )
        mu2 = float(sum(_cost(spend, with_channel=False).sum() for spend in drawn))
        found[key] = found.get(key, 0.0) + rdp.renyi(1 / math.sqrt(mu2) if mu2 > 0 else math.inf, rates.pop())
    return found


def _copied(sums: State) -> State:
    return {key: value.copy() for key, value in sums.items()}


def _cost(spend: AnySpend, with_channel: bool) -> FloatArray:
    if isinstance(spend, MetricSpend):
        return np.asarray(spend.points * spend.epsilon_per_m)
    std = spend.std
    if with_channel and spend.channel_std is not None:
        std = np.hypot(std, spend.channel_std)
    with np.errstate(over="ignore", divide="ignore"):  # noise too small to protect anything: inf
        return np.asarray((spend.sensitivity / std) ** 2)


def statements(state: State) -> list[Statement]:
    """The epsilon of every UE and account, and of all accounts of one unit and relation where there are several.

    Exact for Gaussian draws that everybody takes part in; by RDP where users are sampled; for moved locations the sum,
    per metre by which all of them are displaced. Together they are stated at the smallest of their deltas.
    """
    found, groups = [], _groups(state)
    for key in state["total"]:
        mechanism, unit, relation, delta = key.split("|")
        found.append(_statement(state, mechanism, unit, relation, float(delta), [key], state["sampled"].get(key)))
    for (unit, relation), keys in groups.items():
        if len(keys) > 1 and unit != LOCATION:
            delta = min(float(key.split("|")[3]) for key in keys)
            coin = state["together"].get(_group(keys[0]))
            found.append(_statement(state, ALL, unit, relation, delta, keys, coin))
    return found


def exceeds(state: State, epsilon: float, delta: float | None) -> bool:
    """Whether any UE has spent more than epsilon on one unit and relation, all mechanisms together.

    delta: at which; None: the smallest that a mechanism states. Where everybody takes part it is the filter that
    decides, so that the total also holds for noise that was chosen as one went; sampled rounds go by RDP.
    """
    for (unit, _), keys in _groups(state).items():
        if unit == LOCATION:
            continue
        at = min(float(key.split("|")[3]) for key in keys) if delta is None else delta
        worst = sum(state["total"][key] for key in keys).max(initial=0.0)
        sampled = state["together"].get(_group(keys[0]))
        if sampled is not None:
            over = float(rdp.epsilon_of(rdp.full(float(worst)) + sampled, at)) > epsilon
        else:
            over = not GaussianFilter(epsilon, at).admits(0.0, float(worst))
        if over:
            return True
    return False


def _group(key: str) -> str:
    """unit|relation of an account's key."""
    return "|".join(key.split("|")[1:3])


def _groups(state: State) -> dict[tuple[str, str], list[str]]:
    """Accounts that may be added up: (unit, relation) -> keys."""
    groups: dict[tuple[str, str], list[str]] = {}
    for key in state["total"]:
        _, unit, relation, _ = key.split("|")
        groups.setdefault((unit, relation), []).append(key)
    return groups


def _statement(
    state: State, mechanism: str, unit: str, relation: str, delta: float, keys: list[str], sampled: FloatArray | None
) -> Statement:
    total, channel = (sum(state[which][key] for key in keys) for which in ("total", "with_channel"))
    if unit == LOCATION:
        return Statement(mechanism, unit, relation, delta, total, channel)
    epsilon, believed = (_epsilons(mu2, delta, sampled) for mu2 in (total, channel))
    return Statement(mechanism, unit, relation, delta, epsilon, believed)


def _epsilons(mu2: FloatArray, delta: float, renyi: FloatArray | None) -> FloatArray:
    levels, where = np.unique(mu2, return_inverse=True)  # one root a level, not one a UE
    if renyi is None:
        found = np.array([epsilon_of(delta, float(np.sqrt(level))) for level in levels])
    else:
        found = rdp.epsilon_of(rdp.full(levels) + renyi, delta)
    return np.asarray(found[where])
