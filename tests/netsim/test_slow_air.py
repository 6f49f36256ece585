"""Uploads as events against the same rules upload by upload (`slow_air.py`), over scenarios that a
seed draws."""

from collections import Counter
from itertools import product
from math import inf, nan

import simpy
from numpy import (
    arange,
    array,
    concatenate,
    flatnonzero,
    full,
    ones,
    repeat,
    sqrt,
    where,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose
from slow_air import Band, SlowAir, Upload

from netsim.radio.air import EventUplink
from netsim.radio.rate import LinkAdaptation, Shannon
from netsim.radio.schedulers import SCHEDULERS, AirInterface
from netsim.radio.shared_band import Noma, Oma
from netsim.radio.transmissions import Fate, SeenLinks
from netsim.radio.uplink import Cohort, Payload
from netsim.rng import Streams

SEED = 70
N_SCENARIOS = 100
N_BLOCKS = 400
SLOT_S = 1 / 64
BAND_HZ = 1e6
NOISE_W = 1e-3
N_BITS = 1e5


class Scenario:
    """A random one: the same settings for both simulators."""

    def __init__(self, number):
        self.rng = rng = default_rng((SEED, number))
        self.kind = list(SCHEDULERS.parts)[number % len(SCHEDULERS.parts)]
        pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
        self.adaptation = pick("change", "grant")
        self.block_s = pick(None, 1 / 8)
        self.step_s = pick(None, None, 1 / 32)
        self.tries = pick(0, 1, 3)
        self.per_s = pick(0.0, 0.0, 0.3)
        self.size = pick(1, 2, 3)
        self.uplink_deadline_s = pick(None, 2.5)
        self.round_deadline_s = pick(inf, 3.0)
        self.n_ue = int(rng.integers(2, 9))
        self.n_bs = int(rng.integers(1, 4))
        self.antennas = pick(None, 2)
        self.battery = pick(False, True)
        self.uplink = self.draw_uplink(pick)
        self.draw_links()
        n = self.n_ue
        self.power_w = rng.uniform(0.2, 1.0, n)
        self.rows = rng.integers(1, 8, n)
        self.downlink = rng.choice([0.05, 1.0, 3.0, 9.0], n, p=[0.05, 0.25, 0.3, 0.4])
        self.compute_s = pick(zeros(n), rng.uniform(0, 0.6, n))
        self.compute_j = rng.uniform(0, 0.2, n)
        self.battery_j = rng.uniform(0.05, 0.8, n) if self.battery else full(n, inf)
        first = arange(n) % 2 == 0
        second = arange(n) % 2 == 1
        self.waves = [(0.0, first), (0.1875, second), (4.0, ones(n, bool))]

    def draw_uplink(self, pick):
        rate = pick(
            Shannon(),
            LinkAdaptation(),
            LinkAdaptation(attenuation=0.7, max_bps_per_hz=3.0, min_sinr_db=0.0),
        )
        extra = {"bandwidth_hz": BAND_HZ, "noise_w": NOISE_W, "norm_bound": 1.0, "rate": rate}
        extra |= {
            "max_ser": pick(None, None, 0.2),
            "interference": pick("all", "all", "intra", "none"),
        }
        extra |= {"deadline_s": self.uplink_deadline_s}
        if pick(True, False):
            return pick(Noma, Oma)(**extra)
        return Noma(sic_residual=pick(0.0, 0.1, 1.0), **extra)

    def draw_links(self):
        """Cells (blocks, n_ue) and gains (blocks, n_ue, n_bs), some of them far too low; NaN
        without a cell."""
        rng = self.rng
        shape = (N_BLOCKS, self.n_ue, self.n_bs)
        base = where(
            rng.uniform(size=shape[1:]) < 0.2, 1e-6, 10 ** rng.uniform(-3.5, -1, shape[1:])
        )
        lasts = repeat(arange(N_BLOCKS // 4), 4)  # cells change every half second at most
        self.gain = base * rng.exponential(1.0, shape)
        self.cell = self.gain[4 * lasts].argmax(axis=2)
        self.cell[rng.uniform(size=(N_BLOCKS // 4, self.n_ue))[lasts] < 0.05] = -1
        self.gain[self.cell < 0] = nan
        if self.block_s is None:
            self.gain[:] = self.gain[0]
            self.cell[:] = self.cell[0]
        self.fading = None
        if self.antennas:
            size = (*shape, self.antennas)
            self.fading = (rng.normal(size=size) + 1j * rng.normal(size=size)) / sqrt(2)
            if self.block_s is None:
                self.fading[:] = self.fading[0]

    # -- of the package

    def play(self):
        settings = {"kind": self.kind}
        settings |= {"size": self.size} if self.kind == "groups" else {}
        settings |= {"slot_s": SLOT_S} if self.kind in ("round-robin", "proportional-fair") else {}
        settings |= {"time_constant_s": 0.25} if self.kind == "proportional-fair" else {}
        interface = AirInterface.model_validate(
            {
                "scheduler": settings,
                "link_adaptation": self.adaptation,
                "block_s": self.block_s,
                "step_s": self.step_s,
                "retransmissions": self.tries,
                "client_dropout_per_s": self.per_s,
            }
        )
        env = simpy.Environment()
        if self.block_s is None:
            look = None
        else:

            def look(ue, round_):
                return SeenLinks(*self.links(env.now, ue))

        air = EventUplink(env, self.uplink, self.n_ue, Streams(SEED), interface, look=look)
        result = []
        for asked_s, owner in self.waves:
            if asked_s:
                env.run(until=asked_s)
            ue = flatnonzero(owner)
            cell, gain, fading = self.links(asked_s, ue)
            cohort = Cohort(
                ue,
                cell,
                gain,
                fading,
                self.power_w[ue],
                self.rows[ue],
                self.downlink[ue],
                self.compute_s[ue],
                self.compute_j[ue],
            )
            payload = Payload(N_BITS, 100, 1.0)
            deadline_s = min(self.round_deadline_s, 3.5)
            result.append(air.submit(cohort, payload, deadline_s, battery_j=self.battery_j[ue]))
        env.run()
        return [event.value for event in result]

    def links(self, time_s, ue):
        k = 0 if self.block_s is None else int(time_s / self.block_s)
        return (
            self.cell[k, ue],
            self.gain[k, ue],
            None if self.fading is None else self.fading[k, ue],
        )

    # -- of the slow one

    def play_slowly(self):
        up = self.uplink
        law = self.uplink.rate.law
        of_broadcast = self.uplink.rate.broadcast_law
        band = Band(
            NOISE_W,
            BAND_HZ,
            up.kind == "oma",
            up.interference,
            getattr(up, "sic_residual", 0.0),
            law.attenuation,
            law.max_bps_per_hz,
            law.min_sinr,
            up.max_ser,
        )
        down = Band(NOISE_W, BAND_HZ, False, "none", 0.0, *of_broadcast)
        ups = []
        for asked_s, owner in self.waves:
            for u in flatnonzero(owner).tolist():
                bits = N_BITS * self.rows[u]
                rate = down.rate(self.downlink[u])
                prepared_s = (bits / rate if rate else inf) + self.compute_s[u]
                limit_s = min(self.round_deadline_s, 3.5, self.uplink_deadline_s or inf)
                ups.append(
                    Upload(
                        u,
                        [
                            (int(cells[u]), self.amplitudes(k, u))
                            for k, cells in enumerate(self.cell)
                        ],
                        self.power_w[u],
                        bits,
                        asked_s,
                        asked_s + prepared_s,
                        self.compute_s[u],
                        self.compute_j[u],
                        asked_s + limit_s,
                        self.leaves_s(u, asked_s),
                        self.battery_j[u],
                    )
                )
        slow = SlowAir(
            band,
            sorted(ups, key=lambda up: (up.ue, up.asked_s)),
            self.kind,
            self.size,
            SLOT_S,
            0.25,
            self.adaptation == "grant",
            self.block_s,
            self.step_s,
            self.tries,
        )
        slow.play()
        return [up.result() for up in ups]

    def leaves_s(self, u, asked_s):
        if not self.per_s:
            return inf
        draw = Streams(SEED).derive_rng("radio.dropout").exponential
        return (
            asked_s + draw("stays", array([u]), item=array([round(1e3 * asked_s)]))[0] / self.per_s
        )

    def amplitudes(self, k, u):
        if self.fading is None:
            fading = ones((self.n_bs, 1))
        else:
            fading = self.fading[k, u]
        return [
            [complex(g**0.5 * z) for z in row]
            for g, row in zip(self.gain[k, u], fading, strict=True)
        ]


def compare(number, fates):
    """Fates and flags are equal, and times, energy, bits and SINR to rounding."""
    scenario = Scenario(number)
    fast = scenario.play()
    slow = scenario.play_slowly()
    for name in slow[0]:
        result = concatenate([getattr(wave, name) for wave in fast])
        expected = [row[name] for row in slow]
        about = f"scenario {number}, {scenario.kind}: {name}"
        if name == "fate":
            assert [Fate(fate).word for fate in result] == expected, about
            fates.update((fate, scenario.adaptation, scenario.block_s is None) for fate in expected)
        elif name in ("decoded", "late"):
            assert result.tolist() == expected, about
        else:
            arrived = array([value is not None for value in expected])
            expected = array([value for value in expected if value is not None])
            assert_allclose(result[arrived], expected, rtol=1e-9, atol=1e-12, err_msg=about)


def test_scenarios_end_as_those_of_a_slow_simulator():
    """A hundred, in which uploads end in every way, at held rates and others, with blocks and
    without."""
    fates = Counter()
    for number in range(N_SCENARIOS):
        compare(number, fates)
    ways = ("arrived", "undecoded", "late", "dropped", "exhausted", "no-cell")
    assert all(fates[way] for way in product(ways, ("change", "grant"), (True, False)))
