"""The world's chain of one tick, measured alone: time, growth with the number of links, peak
memory.

One tick of ours, through the calls that a round of learning makes (`fl/round/server.py`):

1. ``world.env.run(until=...)`` moves every UE along its random waypoints (no pauses: everybody
   moves every tick),
2. ``world.links()`` measures all pairs: UMa path loss, line of sight by probability (spatially
   correlated),
   spatially correlated shadowing,
3. ``links.sinr(...)`` is the downlink SINR of all pairs,
4. ``world.cohort(...)`` and ``uplink.plan(...)`` let everybody send at once: NOMA with successive
   cancellation and
   interference from all cells.

Drawing the city (the shadowing of each base station) happens once and is not counted, for nobody.

    python -m benchmarks.world N_BS N_UE SECONDS     # one size in a process of its own, one JSON
    object
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from math import ceil, sqrt
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from netsim.radio.rate import Shannon
from netsim.radio.shared_band import Noma
from netsim.radio.uplink import Channel, Payload
from netsim.rng import Streams
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

PATH_LOSS: dict[str, Any] = {"kind": "uma"}
LINE_OF_SIGHT: dict[str, Any] = {"kind": "probability"}
CARRIER_HZ = 3.5e9
INTER_SITE_M = 500.0
BS_HEIGHT_M = 25.0
UE_HEIGHT_M = 1.5
TICK_S = 1.0
NEVER_S = 1e9  # between measurements: they are no part of the chain (there is one, at time 0)
WARM_UP = 3  # ticks before the clock runs; one of a subject that takes longer than
SLOW_S = 0.2
FULL_POWER_W = 0.2

MEMORY_BAR_GB = 2.0
LARGE = (2, 10)  # times the base stations and UEs of the size whose memory is looked at first
# exponent of time a tick over the number of links; 1 is proportional, and timing is noisy
GROWTH_BAR = 1.1

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]


def sites_m(n_bs: int) -> np.ndarray:
    """Base stations on a square lattice (n_bs, 2), each in the middle of a square of
    INTER_SITE_M.
    """
    columns = ceil(sqrt(n_bs))
    index = np.arange(n_bs)
    return (np.column_stack([index % columns, index // columns]) + 0.5) * INTER_SITE_M


def area_m(n_bs: int) -> tuple[float, float]:
    """Width and height of the area that `sites_m` covers."""
    columns = ceil(sqrt(n_bs))
    return columns * INTER_SITE_M, ceil(n_bs / columns) * INTER_SITE_M


def setting(n_bs: int, n_ue: int) -> WorldSetting:
    """The `world:` section of the benchmark."""
    width_m, height_m = area_m(n_bs)
    document = {
        "duration_s": 1e9,
        "tick_s": TICK_S,
        "city": {"kind": "open-field", "width_m": width_m, "height_m": height_m},
        "base_stations": [
            {"name": f"b{k}", "position_m": list(at), "height_m": BS_HEIGHT_M}
            for k, at in enumerate(sites_m(n_bs).tolist())
        ],
        "ues": {
            "count": n_ue,
            "height_m": UE_HEIGHT_M,
            "mobility": {"kind": "random-waypoint", "pause_s": [0.0, 0.0]},
            "measurement_period_s": NEVER_S,
        },
        "radio": {
            "carrier_hz": CARRIER_HZ,
            "path_loss": PATH_LOSS,
            "line_of_sight": LINE_OF_SIGHT,
            "shadowing": {"kind": "correlated"},
        },
    }
    return WorldSetting.model_validate_json(json.dumps(document))


class Ours:
    """A world that ticks."""

    name = "netsim"

    def __init__(self, n_bs: int, n_ue: int, seed: int = 0) -> None:
        self.world = build_world(setting(n_bs, n_ue), Streams(seed), TICK_S)
        self.uplink = Noma(norm_bound=1.0, rate=Shannon())
        self.payload = Payload(n_bits=32e4, n_numbers=10_000, norm_bound=1.0)
        self.ue = np.arange(n_ue)
        self.one = np.ones(n_ue, dtype=np.int64)
        self.work = np.zeros(n_ue)
        self.power_w = np.full(n_ue, FULL_POWER_W)
        self.now = 0

    def tick(self) -> tuple[np.ndarray, Channel]:
        """Downlink SINR of all pairs (n_ue, n_bs), and everybody's uplink."""
        self.now += 1
        self.world.env.run(until=self.now * TICK_S)
        links = self.world.compute_links()
        sinr = links.compute_sinr(self.world.setting.radio.downlink.noise_dbm)
        cohort = self.world.build_cohort(self.ue, links, self.now, self.one, self.work)
        return sinr, self.uplink.plan(cohort.with_power_w(self.power_w), self.payload)


def tick_ms(subjects: list[Callable[[], Any]], seconds: float, blocks: int = 9) -> list[float]:
    """Median time of a tick of each subject, in ms, from blocks of ticks that take turns.

    All subjects together take about `seconds`, warm-up apart; each gets as many blocks, however
    slow it is, and a block is at least one tick.
    """
    counts = []
    first = []
    for tick in subjects:
        tick()  # loads and compiles
        for _ in range(WARM_UP):
            started = perf_counter()
            tick()
            once = perf_counter() - started
            if once > SLOW_S:
                break
        share = seconds / len(subjects) / blocks
        counts.append(max(1, int(share / once)))
        first.append(once)
    # one tick a block is all that fits: then fewer blocks, but three at least
    blocks = max(
        3, min(blocks, int(seconds / sum(c * t for c, t in zip(counts, first, strict=True))))
    )
    times: list[list[float]] = [[] for _ in subjects]
    for _ in range(blocks):
        for tick, count, found in zip(subjects, counts, times, strict=True):
            started = perf_counter()
            for _ in range(count):
                tick()
            found.append((perf_counter() - started) / count)
    return [1e3 * median(found) for found in times]


def digits(value: float) -> float:
    """Four significant ones."""
    return float(f"{value:.4g}")


def row(work: str, ours: float, unit: str, bar: float | None = None, **more: Any) -> Row:
    """One line of the result; without a peer, `bar` is the largest value that is good enough."""
    met = None if bar is None else ours <= bar
    return {
        "subject": "world",
        "work": work,
        "ours": digits(ours),
        "unit": unit,
        "peer": None,
        "theirs": None,
        "ratio": None,
        "bar": bar,
        "met": met,
        **more,
    }


def size_name(n_bs: int, n_ue: int) -> str:
    """`20 base stations x 1,000 UEs`."""
    return f"{n_bs} base stations x {n_ue:,} UEs"


def alone(n_bs: int, n_ue: int, seconds: float) -> dict[str, float]:
    """One size in a process of its own: `ms` a tick, `build_s`, and `peak_gb` of the whole
    process.
    """
    command = [sys.executable, "-m", "benchmarks.world", str(n_bs), str(n_ue), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return dict(json.loads(done.stdout))


def exponent(n: list[int], ms: list[float]) -> float:
    """Slope of log time over log n: 1 for a time proportional to n."""
    return float(np.polyfit(np.log(n), np.log(ms), 1)[0])


def ladder_rows(
    ladder: list[tuple[int, int]], seconds: float, memory: tuple[int, int]
) -> list[Row]:
    """Time a tick over UEs and over base stations, its growth, and peak memory.

    `ladder` are sizes (n_bs, n_ue), which take turns; growth is fitted to those that share a number
    with `memory`. Memory is measured there, and in a world `LARGE` times as large.
    """
    sizes = list(dict.fromkeys(ladder))
    worlds = [Ours(*size) for size in sizes]
    ms = dict(
        zip(sizes, tick_ms([ours.tick for ours in worlds], seconds * len(sizes)), strict=True)
    )
    del worlds
    rows = [row(f"{size_name(*size)}: one tick", ms[size], "ms") for size in sizes]
    for axis, name in ((1, "UEs"), (0, "base stations")):
        other = memory[1 - axis]
        steps = sorted((s for s in sizes if s[1 - axis] == other), key=lambda s: s[axis])
        if len(steps) > 1:
            work = f"growth of time a tick with {name}, {steps[0][axis]:,} to {steps[-1][axis]:,}"
            slope = exponent([s[axis] for s in steps], [ms[s] for s in steps])
            rows.append(row(work, slope, "exponent", GROWTH_BAR))
    for size in (memory, (LARGE[0] * memory[0], LARGE[1] * memory[1])):
        peak = alone(*size, seconds)
        work = f"{size_name(*size)}: peak memory of the process, drawing the city included"
        more = {"build_s": round(peak["build_s"], 1), "tick_ms": digits(peak["ms"])}
        rows.append(row(work, peak["peak_gb"], "GB", MEMORY_BAR_GB, **more))
    return rows


def peak_gb() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage begins with the peak of the process that started this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def main() -> None:
    """Measure one size and print it."""
    n_bs = int(sys.argv[1])
    n_ue = int(sys.argv[2])
    seconds = float(sys.argv[3])
    started = perf_counter()
    ours = Ours(n_bs, n_ue)
    build_s = perf_counter() - started
    ms = tick_ms([ours.tick], seconds)[0]
    print(json.dumps({"ms": ms, "build_s": build_s, "peak_gb": peak_gb()}))


if __name__ == "__main__":
    main()
