"""An optimiser that plans one round ahead with what is known without any learning: gains, and the noise that budgets
asked for in the last round.

It searches like the oracle (see `rl.oracle`), but in a round that it expects: what two UEs of M antennas' links disturb
each other is taken as the mean over phases, |h_k^H h_j|^2 = ||h_k||^2 ||h_j||^2 / M, and every UE sends one update that
asks for the noise of its last one. Later rounds do not count.
"""

from __future__ import annotations

import numpy as np

from netsim.radio.uplink import ComplexArray
from netsim.units import FloatArray
from rl.look import Look
from rl.oracle import best_powers
from rl.radio_records import Air, Links, Rounds
from rl.reward import Reward
from rl.rules import Known, within


def planned_w(
    look: Look, factor: float, lost_noise: FloatArray, air: Air, reward: Reward, multipliers: FloatArray,
    start_dbw: FloatArray,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Powers (1, K) in W for one round, and how many power vectors were judged.

    The start (1, K) in dBW is kept where no requirement is known yet. factor : A^(T-1-t); lost_noise (1,) : kappa;
    multipliers (m,) : of the reward's bounds.
    """
    known = Known(expected(look, factor, lost_noise), look, air, reward, multipliers)
    if not (look.required_std > 0).any():
        return within(start_dbw, look.limits), 0
    found = best_powers(known, [start_dbw])
    return found.power_w, found.judged


def expected(look: Look, factor: float, lost_noise: FloatArray) -> Rounds:
    """One round as it is expected: one row a UE that is there, with the requirement of its last one; that of one which
    never sent is the root mean square of the others.
    """
    k = look.there.shape[1]
    asked = look.required_std
    usual = np.sqrt(np.mean(asked[asked > 0] ** 2)) if (asked > 0).any() else 0.0
    there = look.there.astype(np.int64)
    return Rounds(
        links=phaseless(look.links),
        rows=there,
        n_bits=look.n_bits,
        compute_s=np.zeros((1, k)),
        compute_j=np.zeros((1, k)),
        rho=look.rho,
        factor=np.array([factor]),
        lost_noise=lost_noise,
        of=np.where(look.there, np.arange(k), -1),
        weight=there / max(int(there.sum()), 1),
        required_std=np.where(asked > 0, asked, usual),
    )


def phaseless(links: Links) -> Links:
    """Links of the same gains whose channels are all aligned alike: |h_k^H h_j|^2 = ||h_k||^2 ||h_j||^2 / M.

    With c = 1 / sqrt(M) rows of L, L L^T = (1 - c) I + c 1 1^T, are unit vectors of K numbers with inner products c.
    """
    return Links(_alike(links.h), _alike(links.heard), links.serving, links.downlink_bps)


def _alike(h: ComplexArray) -> ComplexArray:
    """Amplitudes (S, K, n_bs, K) for (S, K, n_bs, M); of one antenna, which has no alignment, as they are."""
    antennas, k = h.shape[3], h.shape[1]
    if antennas < 2 or not h.shape[2]:
        return h
    c = 1.0 / np.sqrt(antennas)
    unit = np.linalg.cholesky((1.0 - c) * np.eye(k) + c)
    size = np.sqrt((h.real**2 + h.imag**2).sum(axis=3))
    return np.asarray(size[..., None] * unit[:, None, :], dtype=np.complex128)
