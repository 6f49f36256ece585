"""Inputs of a run of rounds."""

from __future__ import annotations

from dataclasses import field

from fl.learning import Learning
from fl.types import Public
from netsim.columns import frozen, no_ints
from netsim.radio.power import Power
from netsim.radio.schedulers import AirInterface
from netsim.radio.uplink import Uplink
from netsim.record import Recorder
from netsim.rng import Streams
from netsim.units import IntArray


@frozen
class Setup:
    """Inputs of a run of rounds; none of them changes.

    days (n,) : on which UEs may measure (see `Data.with_days`). self_tests : whether attacks are tested on made
    updates.
    """

    learning: Learning
    power: Power
    uplink: Uplink
    air: AirInterface | None
    public: Public
    models: tuple[str, ...]
    model_of_cell: IntArray
    streams: Streams
    recorder: Recorder
    days: IntArray = field(default_factory=no_ints)
    self_tests: bool = True
