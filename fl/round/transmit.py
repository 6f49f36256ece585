"""Uploads to the server: planned at the request, or sent through the air as events."""

from __future__ import annotations

from collections.abc import Callable, Generator
from math import inf
from typing import cast

import numpy as np
import simpy

from fl.round.setup import Setup
from fl.server.synchronous import Synchronous
from fl.types import Received, Updates
from netsim.columns import Columns, frozen, row_id
from netsim.radio.air import AirMemory, Ended, EventUplink, look_at
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel, Cohort, Payload
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.world import World

BITS_PER_NUMBER = 32


def payload_of(n_numbers: int, norm_bound: float | None) -> Payload:
    """Payload of an update of n_numbers; norm_bound: bound of its L2 norm by the defenses."""
    return Payload(n_numbers * BITS_PER_NUMBER, n_numbers, norm_bound)


def received(updates: Updates, channel: Channel, rng: Rng) -> Received:
    """Add the decoder's noise (std channel.noise_std (n,) per number, real) and say who was heard."""
    if channel.noise_std.any():
        owner = row_id(updates.ue, updates.model)
        noise = rng.normal("decoder", owner, (updates.n_parameters,))
        updates = updates.plus(channel.noise_std[:, None] * noise)
    return Received(updates, channel.decoded)


@frozen
class UploadRequest:
    """UEs that send updates of a payload after a request now, and how long that may take at most.

    energy_j (n,): what each of them may spend; enough: number of UEs after whose arrival the others stop, None for all.
    """

    cohort: Cohort
    payload: Payload
    round: int
    limit_s: float
    energy_j: FloatArray | None
    enough: int | None = None


@frozen
class Uploads(Columns):
    """Uploads of UEs (n,) that took their time: whose, when requested, how many bits, what became of them; from which
    version of the model they began, and how many versions later they were merged, -1 for those that were not.
    """

    ue: IntArray
    requested_s: FloatArray
    bits: FloatArray
    sent: SentUploads
    version: IntArray
    staleness: IntArray


class Transmitter:
    """The air of one run, in the environment of its world."""

    def __init__(
        self, world: World, setup: Setup, memory: AirMemory | None, each: Callable[[Ended], None] | None = None
    ) -> None:
        self.env: simpy.Environment = world.env
        self.air: EventUplink | None = None
        self._awaited: tuple[int, int, simpy.Event] | None = None
        if setup.air is None:
            return
        look = None if setup.air.block_s is None else look_at(world, setup.power)
        server = setup.learning.server
        counts = isinstance(server, Synchronous) and server.merge_after_updates is not None
        listener = each if each is not None else self._count if counts else None
        self.air = EventUplink(world.env, setup.uplink, len(world.ues), setup.streams, setup.air, look, listener)
        if memory is not None:
            self.air.resume(memory)

    def memory(self) -> AirMemory | None:
        """State that another `Transmitter` continues with; None without events."""
        return None if self.air is None else self.air.memory()

    def ask(self, request: UploadRequest) -> simpy.Event:
        """Request updates through the air; the event occurs when all have ended."""
        if self.air is None:
            raise TypeError("there is no air: transmissions are planned")
        return self.air.submit(
            request.cohort, request.payload, request.limit_s, request.round, request.energy_j
        )  # fmt: skip

    def send(self, request: UploadRequest) -> Generator[simpy.Event, None, SentUploads]:
        """Request updates through the air, and wait until all have ended."""
        done = self.ask(request)
        if self.air is not None and request.enough is not None and not done.triggered:
            number, enough = self.air.last_submission, self.env.event()
            self._awaited = number, request.enough, enough
            yield done | enough
            self._awaited = None
            if not done.triggered:
                self.air.stop(number)
        yield done
        return cast(SentUploads, done.value)

    def _count(self, ended: Ended) -> None:
        """Count arrivals of the submission that is awaited."""
        if self._awaited is None:
            return
        number, missing, enough = self._awaited
        missing -= int(np.sum((ended.submission == number) & ended.sent.decoded))
        self._awaited = number, missing, enough
        if missing <= 0 and not enough.triggered:
            enough.succeed()


def planned_within(planned: Channel, enough: int | None) -> Channel:
    """A planned channel in which all are late that come after the first `enough` UEs; None: no UE is late."""
    if enough is None or planned.decoded.sum() < enough:
        return planned
    last_s = np.sort(planned.delay_s[planned.decoded])[enough - 1]
    return planned.within(float(last_s) if np.isfinite(last_s) else inf)
