"""The links of UEs now, as transmissions over a world look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from netsim.radio.power import Power
from netsim.radio.uplink import ComplexArray
from netsim.units import FloatArray, IntArray
from netsim.world import World


class SeenLinks(NamedTuple):
    """Links of UEs (n,) now: serving (n,), gain (n, n_bs) and fading (n, n_bs, antennas) as in `Cohort`; power_w (n,):
    what UEs send with on these links, None where they keep the power that they have.
    """

    serving: IntArray
    gain: FloatArray
    fading: ComplexArray | None
    power_w: FloatArray | None = None


Look = Callable[[IntArray, IntArray], SeenLinks]
"""From ue (n,) and the round (n,) that each sends in to their links now."""


def look_at(world: World, power: Power | None = None) -> Look:
    """Looks at the UEs of a world where they are at the time of the call; power: the policy by which they send.

    Looks at multiples of the world's tick change nothing of the world. Looks between ticks move UEs there as well, and
    evaluate the conditions of handovers there.
    """

    def look(ue: IntArray, round_: IntArray) -> SeenLinks:
        links = world.links()
        n_bs = links.gain.shape[1]
        streams = world.ground.streams.at("radio.fading")
        fading: ComplexArray | None = None
        for each in np.unique(round_).tolist():
            rows = np.flatnonzero(round_ == each)
            drawn = world.fading.draw(ue[rows], n_bs, world.fading.block_index(each, links.time_s), streams)
            if drawn is None:
                break
            if fading is None:
                fading = np.empty((len(ue), *drawn.shape[1:]), dtype=np.complex128)
            fading[rows] = drawn
        serving, gain, power_w = world.serving(links).take(ue), links.gain.take(ue, axis=0), None
        if power is not None and power.follows_links:
            own = power.of(ue)
            power_w, _ = own.power_w(gain, serving, world.max_power_w, None, world.ground.streams.at("power"))
        return SeenLinks(serving, gain, fading, power_w)

    return look
