"""Recorded rounds that are made up: five UEs, two base stations, an eavesdropper."""

import numpy as np

from fl.power.search import Limits
from rl.look import Look
from rl.radio_records import Air, Links, Rounds, Rows
from rl.reward import Weighted
from rl.rules import LAWS, KnownRounds, TunedRule

K = 5
S = 12
RULE = TunedRule(LAWS[1], np.array([-20.0, 0.3]), 0.0, 0)


def known(seed=0):
    """Rounds of five UEs and two base stations, made up; UE 2 is away in every third of them."""
    draw = np.random.default_rng(seed)
    size_db = draw.uniform(-115, -85, (S, K, 2, 1))
    h = 10 ** (size_db / 20) * (
        draw.normal(size=(S, K, 2, 2)) + 1j * draw.normal(size=(S, K, 2, 2))
    )
    serving = (np.abs(h) ** 2).sum(axis=3).argmax(axis=2)
    serving[::3, 2] = -1
    heard = 1e-5 * (draw.normal(size=(S, K, 1, 2)) + 1j * draw.normal(size=(S, K, 1, 2)))
    links = Links(h, heard, serving, np.full((S, K), 1e6))
    is_there = serving >= 0
    required = draw.uniform(0.01, 0.05, (S, K))
    ue_of_row = np.where(is_there, np.arange(K), -1)
    rows = Rows(
        ue_of_row,
        is_there / K,
        required,
        np.full(S, 0.05),
        np.ones(S),
        np.full(S, 10.0),
        np.zeros(S, int),
    )
    rounds = Rounds(
        links,
        rows,
        is_there.astype(np.int64),
        n_bits=np.full(S, 10_000.0),
        compute_s=np.zeros((S, K)),
        compute_j=np.zeros((S, K)),
    )
    limits = Limits(each_min_w=1e-6, each_max_w=0.2, total_min_w=0.0, total_max_w=1.0)
    air = Air(1e-13, 0.05, "all", 99, 1e6, 1.0, 8.0, 0.0, 0.0, 0.01)
    look = Look(links, required, rows.rho, rounds.n_bits, np.linspace(0, 1, S), air, limits)
    return KnownRounds(rounds, look, air, Weighted(noise=1, lost=1, leak=5, energy_per_j=100))
