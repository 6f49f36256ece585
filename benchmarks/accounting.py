"""The Renyi epsilon of rounds whose noise differs, beside dp-accounting and Opacus.

Each is given the same multipliers and rates, and answers with one epsilon at delta 1e-5.
dp-accounting and we look at its orders (1.1 to 10.9, whole ones to 63, four larger ones), Opacus at
its own (1.1 to 10.9, 12 to 63). They cost every round at every order; we cost the orders that can
be the best (`fl.privacy.rdp`). dp-accounting takes too long for all rounds: it is given a part of
them, and its time is scaled, for it costs rounds one by one.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from time import process_time

import numpy as np

from benchmarks.paired import without
from benchmarks.world import Row, digits
from fl.privacy import rdp
from fl.privacy.compose import RoundKinds, compute_rdp_epsilon
from netsim.units import FloatArray

DELTA = 1e-5
_OPACUS_ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
Account = Callable[[FloatArray, float], float]


@dataclass(frozen=True)
class Bench:
    """How many rounds, of which dp-accounting is given a part; the least ratios to it and to
    Opacus.
    """

    rounds: int
    part: int
    dp_accounting: float | None = None
    opacus: float | None = None


def ours(z: FloatArray, q: float) -> float:
    """Epsilon of one round with each multiplier."""
    return compute_rdp_epsilon(RoundKinds(z, np.full(len(z), q), np.ones(len(z))), DELTA)


def by_dp_accounting(z: FloatArray, q: float) -> float:
    """The same, composed by `RdpAccountant`."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(rdp.ORDERS.tolist())
    for one in z.tolist():
        event = GaussianDpEvent(one)
        accountant.compose(event if q == 1 else PoissonSampledDpEvent(q, event))
    return float(accountant.get_epsilon(DELTA))


def by_opacus(z: FloatArray, q: float) -> float:
    """The same, from the functions that `opacus.accountants.RDPAccountant` calls."""
    from opacus.accountants.analysis import rdp as opacus_rdp

    cost = sum(
        opacus_rdp.compute_rdp(q=q, noise_multiplier=one, steps=1, orders=_OPACUS_ORDERS)
        for one in z.tolist()
    )
    return float(opacus_rdp.get_privacy_spent(orders=_OPACUS_ORDERS, rdp=cost, delta=DELTA)[0])


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured; peers and we take turns."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        for q in (1.0, 0.1):
            z = np.linspace(0.8, 6.0, bench.rounds)
            some = z[:: bench.rounds // bench.part][: bench.part]
            for peer, account, given, bar in (
                ("dp-accounting", by_dp_accounting, some, bench.dp_accounting),
                ("opacus", by_opacus, z, bench.opacus),
            ):
                yield _against(peer, account, q, z, given, bar, seconds)
    finally:
        log.setLevel(level)


def _against(
    peer: str,
    account: Account,
    q: float,
    z: FloatArray,
    given: FloatArray,
    bar: float | None,
    seconds: float,
) -> Row:
    """A row: pairs of turns, the median of their ratios and how they spread."""
    work = f"epsilon of {len(z):,} rounds with noise of their own, q = {q:g}"
    begun: Row = {"subject": "accounting", "work": work, "unit": "ms", "peer": peer, "bar": bar}
    try:
        begun["peer"] = f"{peer} {version(peer)}"
    except PackageNotFoundError:
        reason = f"{peer} is not installed; pip install 'netsim-fl[bench]'"
        return {**without(work, peer, bar, reason), "subject": "accounting"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ours(z, q), account(given[:2], q)  # both are loaded
        pairs: list[tuple[float, float]] = []
        while len(pairs) < 3 or sum(map(sum, pairs)) < seconds:
            mine = _time(ours, z, q)
            pairs.append((mine, _time(account, given, q) * len(z) / len(given)))
        found = ours(z, q), account(given, q)
    ratios = sorted(theirs / mine for mine, theirs in pairs)
    ratio = median(ratios)
    return {
        **begun,
        "ours": digits(1e3 * median(p[0] for p in pairs)),
        "theirs": digits(1e3 * median(p[1] for p in pairs)),
        "ratio": digits(ratio),
        "least_ratio": digits(ratios[0]),
        "most_ratio": digits(ratios[-1]),
        "met": None if bar is None else ratio >= bar,
        "epsilon": digits(found[0]),
        "their_epsilon": digits(found[1]) if len(given) == len(z) else None,
    }


def _time(account: Account, z: FloatArray, q: float) -> float:
    """CPU seconds of an account; ours, which is brief, many times."""
    many = 20 if account is ours and q == 1 else 1
    started = process_time()
    for _ in range(many):
        account(z, q)
    return (process_time() - started) / many
