"""Steps a second of the environments, and the share of a training that the environment takes.

PowerAllocation and the live rounds of OnlinePower step through the class itself, episodes and
resets included. Besides a tick of OnlinePower's world is measured: links, cohort and uplink of 5
base stations and 15 UEs, as `benchmarks.world` drives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.peers import start
from benchmarks.world import Ours, Row, digits, tick_ms
from fl.power.bound import Convergence, PowerLoss, Trajectory
from fl.power.search import Limits
from rl.agents import DdpgTraining
from rl.env import PowerAllocation
from rl.problem import Problem
from rl.settings import DdpgAgent
from scenarios import load
from scenarios.app.training.environments import make_online

BS = 5
UES = 15
CITY = "power/city"


@dataclass(frozen=True)
class Bench:
    """Sizes, and what is required: steps a second of one, steps a second of the world, and the
    environment's share of a training in percent.
    """

    rounds: int
    training_steps: int
    world_s: float
    allocation_hz: float | None = None
    world_hz: float | None = None
    share_percent: float | None = None


FULL = Bench(100, 600, 1440.0, 20_000.0, 2_000.0, 15.0)
SMALL = Bench(10, 40, 120.0)


def problem(rounds: int) -> Problem:
    """One of the study's size: noise that falls, weights of three heavy devices."""
    g = np.random.default_rng(0)
    weight = np.tile(np.where(np.arange(UES) < 3, 0.26, 0.22 / 12), (rounds, 1))
    std = (
        np.linspace(1.0, 0.25, rounds)[:, None] ** 2
        * np.exp(g.normal(0, 0.1, (rounds, UES)))
        * 0.05
    )
    gain = np.tile(np.exp(g.normal(0.5, 0.7, UES)), (rounds, 1))
    return Problem(
        PowerLoss(Trajectory(std, weight, gain, 0.01), Convergence(), "aggregate"),
        Limits(total_min_w=0.15, total_max_w=1.5),
    )


def stepper(env: PowerAllocation) -> Callable[[], Any]:
    """One step, with a reset where an episode ends."""
    actions = np.random.default_rng(1).uniform(-1, 1, (997, UES)).astype(np.float32)
    count = 0
    env.reset(seed=0)

    def step() -> Any:
        nonlocal count
        count += 1
        if env.step(actions[count % len(actions)])[3]:
            env.reset()

    return step


def online_rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Live rounds of `power/city`."""
    one = make_online(load(CITY, {"world.duration_s": bench.world_s}))
    actions = np.random.default_rng(1).uniform(-1, 1, (97, one.n_ue)).astype(np.float32)
    count = 0
    one.reset(seed=0)

    def live() -> None:
        nonlocal count
        count += 1
        if any(one.step(actions[count % len(actions)])[2:4]):
            one.reset()

    (one_ms,) = tick_ms([live], seconds)
    yield row(f"OnlinePower, {CITY}, live: a step", 1e3 / one_ms, "steps/s", None, least=True)


def row(work: str, found: float, unit: str, bar: float | None, least: bool, **more: Any) -> Row:
    """One line; least: the bar is the smallest value that is good enough."""
    met = None if bar is None else (found >= bar if least else found <= bar)
    empty = {"peer": None, "theirs": None, "ratio": None}
    return {
        "subject": "rl",
        "work": work,
        "ours": digits(found),
        "unit": unit,
        **empty,
        "bar": bar,
        "met": met,
        **more,
    }


def share(bench: Bench) -> float:
    """Percent of a training's time that is spent inside the environment."""
    inside = 0.0

    class Timed(PowerAllocation):
        def step(self, action: Any) -> Any:
            nonlocal inside
            began = perf_counter()
            try:
                return super().step(action)
            finally:
                inside += perf_counter() - began

    agent = DdpgAgent(learning_starts=20, batch_size=128)
    env = Timed([problem(bench.rounds)])
    training = DdpgTraining(DummyVecEnv([lambda: env]), env, agent, bench.training_steps, 0)
    began = perf_counter()
    for _ in range(bench.training_steps):
        training.step()
    return 100 * inside / (perf_counter() - began)


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """All rows, each when it is measured."""
    one = problem(bench.rounds)
    (one_ms,) = tick_ms([stepper(PowerAllocation([one]))], seconds)
    yield row(
        f"PowerAllocation, {UES} UEs: a step",
        1e3 / one_ms,
        "steps/s",
        bench.allocation_hz,
        least=True,
    )
    yield from online_rows(bench, seconds)
    name, theirs, reason = start("mobile-env", BS, UES)
    ours = Ours(BS, UES)
    work = f"OnlinePower's world, {BS} base stations x {UES} UEs: a tick"
    if theirs is None:
        ms = tick_ms([ours.tick], seconds)[0]
        yield row(work, 1e3 / ms, "steps/s", bench.world_hz, least=True, reason=reason)
    else:
        ms, theirs_ms = tick_ms([ours.tick, theirs], seconds)
        found = row(work, 1e3 / ms, "steps/s", bench.world_hz, least=True)
        yield found | {
            "peer": name,
            "theirs": digits(1e3 / theirs_ms),
            "ratio": digits(theirs_ms / ms),
        }
    yield row(
        "DDPG on PowerAllocation: time in the environment",
        share(bench),
        "%",
        bench.share_percent,
        least=False,
    )
