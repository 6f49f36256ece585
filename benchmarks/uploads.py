"""What uploads that take their time cost: rounds of `EventUplink` beside `Uplink.plan`, in turns,
and whole runs.

Everybody is asked at once. At held rates everybody is ready at once as well, as in a plan; where
rates follow who comes and goes, UEs become ready one after the other, over a second. Interference
of all cells silences most UEs at first: all are heard at each end, for it may give one of them a
rate, and all rates follow then. Without other cells nobody is silenced, and a round is a plan and
its bookkeeping.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import simpy

from benchmarks.world import GROWTH_BAR, Row, digits, exponent, row
from netsim.radio.air import EventUplink
from netsim.radio.schedulers import AirInterface
from netsim.radio.shared_band import Noma
from netsim.radio.uplink import Cohort, Payload
from netsim.rng import Streams
from scenarios import load, run

N_BS = 21
UPLINK = Noma(norm_bound=1.0)
APART = Noma(norm_bound=1.0, interference="intra")
PAYLOAD = Payload(n_bits=1e6, n_numbers=10_000, norm_bound=1.0)
HELD = AirInterface(link_adaptation="grant")
STEP_S = 0.1
STEPS_GROWTH_BAR = 1.2  # rounds of more UEs last longer, and have more steps
Interval = tuple[float, float, float]


@dataclass(frozen=True)
class Bench:
    """Numbers of UEs: of rounds at held rates and in steps, of those in which every change is an
    event, and of whole runs; the least share of the time of a run that a planned one takes, and
    `bars`, that of a round of 4 antennas that its plan takes, by UEs.
    """

    ues: tuple[int, ...]
    every_change: tuple[int, ...]
    whole_run: int
    run_bar: float | None = None
    bars: tuple[tuple[int, float], ...] = ()


FULL = Bench((250, 1_000, 4_000), (250, 1_000), 1_000, 1 / 2.2, ((250, 1 / 4), (1_000, 1 / 2.5)))
SMALL = Bench((20, 40), (20,), 20)


def cohort(n: int, antennas: int, compute_s: float) -> Cohort:
    """UEs in random places, whose training takes up to compute_s longer than 0.5 s."""
    rng = np.random.default_rng(n)
    gain = 10 ** rng.uniform(-13, -7, (n, N_BS))
    shape = (n, N_BS, antennas)
    fading = (
        None
        if antennas == 1
        else (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / np.sqrt(2)
    )
    return Cohort(
        np.arange(n),
        gain.argmax(axis=1),
        gain,
        fading,
        np.full(n, 0.1),
        np.ones(n, dtype=int),
        np.full(n, 3.0),
        0.5 + rng.uniform(0, compute_s, n),
        np.full(n, 0.2),
    )


class Rounds:
    """Rounds of the same cohort over one air; as in a run, nothing is known of its links
    before.
    """

    def __init__(self, cohort: Cohort, interface: AirInterface, uplink: Noma = UPLINK) -> None:
        self.cohort = cohort
        self.events = 0
        self.air = EventUplink(simpy.Environment(), uplink, len(cohort.ue), Streams(1), interface)

    def play(self) -> None:
        """One round, and the number of its events."""
        done = self.air.submit(replace(self.cohort), PAYLOAD)
        self.events = 0
        while not done.processed:
            self.air.env.step()
            self.events += 1


def interval_ms(
    subjects: list[Callable[[], Any]], seconds: float, least: int = 7
) -> list[Interval]:
    """Median time of each subject, ms, with its 95 % interval; subjects take turns for `seconds` in
    all.
    """
    for subject in subjects:
        subject()  # loads and compiles
    times: list[list[float]] = []
    while len(times) < least or sum(map(sum, times)) < 1e3 * seconds:
        times.append([_once_ms(subject) for subject in subjects])
    return [median_interval(np.array(found)) for found in np.array(times).T]


def _once_ms(subject: Callable[[], Any]) -> float:
    started = perf_counter()
    subject()
    return 1e3 * (perf_counter() - started)


def median_interval(values: np.ndarray) -> Interval:
    """The median of independent values (n,), and two of them that enclose the median of their law
    in 95 % of cases.

    The number of values below that median is binomial (n, 1/2), here by its normal approximation.
    """
    ranked = np.sort(values)
    n = len(values)
    off = int(np.ceil(0.98 * np.sqrt(n)))  # 1.96 standard deviations
    low = max((n - 1) // 2 - off, 0)
    high = min(n // 2 + off, n - 1)
    return float(np.median(ranked)), float(ranked[low]), float(ranked[high])


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    for antennas in (1, 4):
        yield from held(bench, antennas, seconds)
    yield from held(bench, 4, seconds, APART)
    yield from followed(
        "steps of 0.1 s", bench.ues, AirInterface(step_s=STEP_S), seconds, STEPS_GROWTH_BAR
    )
    yield from followed("every change an event", bench.every_change, AirInterface(), seconds, None)
    yield whole_run(bench.whole_run, seconds, bench.run_bar)


def held(bench: Bench, antennas: int, seconds: float, uplink: Noma = UPLINK) -> Iterator[Row]:
    """Rounds at held rates beside plans; ratio: the plan's share of a round's time."""
    taken = []
    name = f"{_of(antennas)}: a round at held rates"
    if uplink is APART:
        name += ", nobody silenced"
    for n in bench.ues:
        one = cohort(n, antennas, 0.0)
        air, plan = interval_ms(
            [Rounds(one, HELD, uplink).play, lambda c=one: uplink.plan(replace(c), PAYLOAD)],
            seconds,
        )
        taken.append(air[0])
        ratio = plan[0] / air[0]
        bar = dict(bench.bars).get(n) if antennas == 4 else None
        beside = {
            "peer": "Uplink.plan",
            "theirs": digits(plan[0]),
            "ratio": digits(ratio),
            "bar": bar,
        }
        yield _row(f"{n:,} UEs, {name}", air, **beside, met=None if bar is None else ratio >= bar)
    yield from _growth(name, bench.ues, taken, GROWTH_BAR)


def followed(
    name: str, ues: tuple[int, ...], interface: AirInterface, seconds: float, bar: float | None
) -> Iterator[Row]:
    """Rounds in which rates follow who comes and goes."""
    taken = []
    for n in ues:
        rounds = Rounds(cohort(n, 1, 1.0), interface)
        (air,) = interval_ms([rounds.play], seconds)
        taken.append(air[0])
        rate = {"events": rounds.events, "events_per_s": digits(1e3 * rounds.events / air[0])}
        yield _row(f"{n:,} UEs, {_of(1)}: a round with {name}", air, **rate)
    yield from _growth(f"{_of(1)}: a round with {name}", ues, taken, bar)


def scenario(n_ue: int) -> dict[str, Any]:
    """Walkers under six base stations learn to tell digits, three rounds of one step on one image
    each.
    """
    sites = [(x, y) for y in (625, 1875) for x in (500, 1500, 2500)]
    uplink = {"kind": "noma", "decoding": "error-free"}
    ues = {
        "count": n_ue,
        "mobility": {"kind": "random-waypoint"},
        "measurement_period_s": 300,
        "training_s_per_sample": 0.1,
    }
    learner = {"kind": "torch", "module": "perceptron"}
    return {
        "title": "Walkers send updates",
        "seed": 1,
        "world": {
            "duration_s": 900,
            "city": {"kind": "open-field", "width_m": 3000, "height_m": 2500},
            "base_stations": [
                {"name": f"b{k}", "position_m": list(at)} for k, at in enumerate(sites)
            ],
            "ues": ues,
            "radio": {
                "path_loss": {"kind": "uma"},
                "shadowing": {"kind": "correlated"},
                "uplink": uplink,
            },
        },
        "learning": {
            "round_s": 300,
            "data": {"kind": "images", "partition": {"kind": "dirichlet"}, "samples": 1},
            "learner": learner,
        },
    }


def whole_run(n_ue: int, seconds: float, bar: float | None) -> Row:
    """A run with transmissions at held rates beside the same with planned ones; ratio: the share of
    the latter.
    """
    with TemporaryDirectory() as name:
        file = Path(name) / "walkers.yaml"
        out = Path(name) / "run"
        file.write_text(json.dumps(scenario(n_ue)))
        settings = [{"world.radio.dynamic_uplink": {"link_adaptation": "grant"}}, {}]
        studies = [load(file, settings_of) for settings_of in settings]
        plays = [lambda one=one: run(one, out, replace=True) for one in studies]
        air, plan = interval_ms(plays, seconds, least=3)
    beside = {
        "peer": "planned",
        "theirs": digits(plan[0]),
        "ratio": digits(plan[0] / air[0]),
        "bar": bar,
    }
    met = None if bar is None else plan[0] / air[0] >= bar
    return _row(f"{n_ue:,} UEs, 3 rounds: a whole run at held rates", air, **beside, met=met)


def _growth(work: str, ues: tuple[int, ...], ms: list[float], bar: float | None) -> Iterator[Row]:
    if len(ues) > 1:
        slope = exponent(list(ues), ms)
        name = f"{work}, growth with UEs, {ues[0]:,} to {ues[-1]:,}"
        yield row(name, slope, "exponent", bar) | {"subject": "uploads"}


def _of(antennas: int) -> str:
    return "1 antenna" if antennas == 1 else f"{antennas} antennas"


def _row(work: str, ms: Interval, **more: Any) -> Row:
    found = {"subject": "uploads", "low": digits(ms[1]), "high": digits(ms[2])}
    return row(work, ms[0], "ms") | found | more
