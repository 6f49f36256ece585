"""What a run of rounds is made of."""

from __future__ import annotations

from dataclasses import dataclass

from fl.learning import Learning
from fl.types import Public
from netsim.radio.air_interface import AirInterface
from netsim.radio.power import Power
from netsim.radio.uplink import Uplink
from netsim.record import Recorder
from netsim.rng import Streams
from netsim.units import IntArray


@dataclass(frozen=True)
class Setup:
    """What a run of rounds is made of; none of it changes. self_tests: whether attacks are tested on made updates."""

    learning: Learning
    power: Power
    uplink: Uplink
    air: AirInterface | None
    public: Public
    models: tuple[str, ...]
    model_of_cell: IntArray
    streams: Streams
    recorder: Recorder
    self_tests: bool = True
