"""Other simulators, driven the fastest way that they document, on the same base stations and as
many UEs.

All UEs move every tick in all of them. What a tick of each computes, and what it leaves out:

CRRM (https://pypi.org/project/CRRM, Briggs and Nur)
    ``move_ue_locations("all", deltas)`` with deltas drawn beforehand (so moving is one addition),
    then ``get_spectral_efficiency()``: distances and angles of all pairs, UMa path loss of TR
    38.901 with every link in line of sight (its default, and its fastest: without, it computes both
    laws), received power, attachment, downlink SINR and Shannon rate *of each UE's own cell*. Not:
    waypoints, line of sight by probability, shadowing, SINR towards other cells, any uplink. Its
    `smart_update` is off: it cannot save anything when everybody moves, costs time then, and
    version 2.0.2 fails when "all" move while it is on.

AIMM-simulator (https://pypi.org/project/AIMM-simulator, Briggs)
    SimPy processes: a ``Scenario`` that adds deltas drawn beforehand, and the UEs' own loops once a
    tick, which report RSRP to every cell and CQI and throughput to the serving one: UMa path loss
    of TR 36.873, always in line of sight. Not: waypoints, line of sight by probability, shadowing,
    reattachment (its MME is left out), SINR towards other cells, any uplink.

mobile-env (https://pypi.org/project/mobile-env, Schneider et al.)
    ``step`` of its Gymnasium environment with the central handler, whose action keeps every UE at
    the station that it joined at the start: random waypoints, Okumura-Hata loss, SNR of all pairs,
    rates, utilities, and the observation (which asks for the SNR of a pair more than once). Not:
    line of sight, shadowing, interference, any uplink. Positions are rounded to metres.

A peer is imported when it is asked for. One that is missing leaves a reason instead of a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from io import StringIO
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.world import BS_HEIGHT_M, CARRIER_HZ, TICK_S, UE_HEIGHT_M, area_m, sites_m

Tick = Callable[[], Any]
STEP_M = 1.2  # how far a UE walks in a tick
_FOREVER = 10**9


def _places(n_bs: int, n_ue: int) -> tuple[np.ndarray, np.ndarray]:
    """Base stations (n_bs, 3) and UEs (n_ue, 3), uniform in the area."""
    xy = np.random.default_rng(0).uniform(size=(n_ue, 2)) * area_m(n_bs)
    sites = sites_m(n_bs)
    return np.column_stack([sites, np.full(n_bs, BS_HEIGHT_M)]), np.column_stack(
        [xy, np.full(n_ue, UE_HEIGHT_M)]
    )


def _there_and_back(n_ue: int) -> Any:
    """Moves (n_ue, 2) in random directions, endlessly; every second one returns, so nobody leaves
    the area.
    """
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, n_ue)
    step = STEP_M * np.column_stack([np.cos(angle), np.sin(angle)])
    return cycle((step, -step))


def crrm(n_bs: int, n_ue: int) -> Tick:
    """CRRM's chain."""
    from CRRM import Parameters, Simulator

    cells, ues = _places(n_bs, n_ue)
    simulator = Simulator(
        Parameters(
            cell_locations=cells,
            ue_initial_locations=ues,
            h_BS_default=BS_HEIGHT_M,
            h_UT_default=UE_HEIGHT_M,
            fc_GHz=CARRIER_HZ / 1e9,
            pathloss_model_name="UMa",
            LOS=True,
            smart_update=False,
        )
    )
    moves = _there_and_back(n_ue)

    def tick() -> Any:
        simulator.move_ue_locations("all", next(moves))
        return simulator.get_spectral_efficiency()

    return tick


def aimm(n_bs: int, n_ue: int) -> Tick:
    """AIMM-simulator's chain."""
    from AIMM_simulator import Scenario, Sim

    cells, ues = _places(n_bs, n_ue)
    sim = Sim(
        {"fc_GHz": CARRIER_HZ / 1e9, "h_UT": UE_HEIGHT_M, "h_BS": BS_HEIGHT_M}, show_params=False
    )
    for cell in cells:
        sim.make_cell(interval=_FOREVER, xyz=cell)
    for ue in ues:
        sim.make_UE(xyz=ue, reporting_interval=TICK_S).attach_to_nearest_cell()
    moves = _there_and_back(n_ue)

    def move(sim: Any) -> None:
        for ue, step in zip(sim.UEs, next(moves), strict=True):
            ue.xyz[:2] += step

    sim.add_scenario(Scenario(sim, func=move, interval=TICK_S))
    sim.run(until=TICK_S / 2)  # starts the loops

    def tick() -> Any:
        sim.env.run(until=sim.env.now + TICK_S)
        return sim.UEs[0].get_SINR_dB()

    return tick


def mobile_env(n_bs: int, n_ue: int) -> Tick:
    """mobile-env's step."""
    from mobile_env.core.base import MComCore
    from mobile_env.core.entities import BaseStation, UserEquipment

    width, height = area_m(n_bs)
    moving = {"width": width, "height": height, "reset_rng_episode": False}
    config = MComCore.default_config()
    config |= {"width": width, "height": height, "EP_MAX_TIME": _FOREVER, "movement_params": moving}
    config["arrival_params"] = {"ep_time": _FOREVER, "reset_rng_episode": False}
    sites = sites_m(n_bs)
    stations = [BaseStation(k, tuple(at), **config["bs"]) for k, at in enumerate(sites.tolist())]
    users = [UserEquipment(k, **config["ue"]) for k in range(n_ue)]
    env = MComCore(stations, users, config)
    env.reset(seed=0)
    at = np.array([[ue.x, ue.y] for ue in users])
    nearest = np.linalg.norm(at[:, None] - sites, axis=2).argmin(axis=1)
    env.step(nearest + 1)  # action 0 keeps, k joins or leaves station k - 1
    stay = np.zeros(n_ue, dtype=np.int64)
    return lambda: env.step(stay)


PEERS: dict[str, tuple[str, Callable[[int, int], Tick]]] = {
    "crrm": ("CRRM", crrm),
    "aimm": ("AIMM-simulator", aimm),
    "mobile-env": ("mobile-env", mobile_env),
}
"""Name -> name of the distribution, maker of its tick."""


def start(peer: str, n_bs: int, n_ue: int) -> tuple[str, Tick | None, str | None]:
    """Name with version, a tick, and None; or name, None, and the reason why there is none.

    Peers print when imported and built: that is kept from the rows.
    """
    package, make = PEERS[peer]
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("MPLBACKEND", "Agg")
    said = StringIO()
    options = np.get_printoptions()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            tick = make(n_bs, n_ue)
        return f"{package} {version(package)}", tick, None
    except ImportError as error:
        return package, None, f"not installed ({error}); pip install 'netsim-fl[bench]'"
    except Exception as error:  # whatever a peer dies of must not cost the other rows
        print(f"{package}: {said.getvalue()[-500:]}", file=sys.stderr)
        return package, None, f"{type(error).__name__}: {error}"
    finally:
        np.set_printoptions(**options)
