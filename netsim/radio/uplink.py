"""The uplink slot: SINR, rate, latency, energy and noise of transmissions to the base station.

An uplink computes the channel; it does not change the payload. The effects of the channel on an
update (loss, noise) are applied in `fl.round.send`.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import ClassVar, NamedTuple, Self

import numpy as np

from netsim.columns import Columns, divide_or, frozen
from netsim.compiled import compiled
from netsim.errors import BadInput
from netsim.part import Part
from netsim.radio.reception import sort_for_decoding
from netsim.units import BoolArray, ComplexArray, FloatArray, IntArray

_MIN_SINR = 1e-30  # so that the noise of an update that is not received stays finite


@dataclass(frozen=True)
class Payload:
    """One row of the round: size in bits, number of reals, and the bound of their L2 norm if there
    is one.
    """

    n_bits: float
    n_numbers: int
    norm_bound: float | None

    def count_bits(self, rows: IntArray) -> FloatArray:
        """Size (n,) of uploads, by their numbers of rows (n,)."""
        return np.asarray(self.n_bits * rows, float)


@frozen
class Cohort(Columns):
    """The UEs that transmit in a round, one entry each (n counts UEs here, whatever rows of updates
    they send).

    ue (n,): indices; serving (n,): base station, -1 for none; gain (n, n_bs): power gain of path
    loss, shadowing and antennas, linear; fading (n, n_bs, antennas): small-scale amplitude of unit
    mean power per antenna, None for one antenna without fading; power_w (n,); rows (n,): number of
    rows of the round that a UE sends; downlink_sinr (n,) of its cell, linear; compute_s, compute_j
    (n,): time and energy of local training before the transmission; limit_s: time until the next
    round begins, after which no group waits.

    Raises BadInput for a power that is no finite number of watts, or below 0, and for another
    number of powers than of UEs: a receiver that subtracts signals would lose the others too.
    """

    ue: IntArray
    serving: IntArray
    gain: FloatArray
    fading: ComplexArray | None
    power_w: FloatArray
    rows: IntArray
    downlink_sinr: FloatArray
    compute_s: FloatArray
    compute_j: FloatArray
    limit_s: float = inf

    def __post_init__(self) -> None:
        if self.power_w.shape != self.ue.shape:
            raise BadInput(
                f"power: shape {self.power_w.shape} for {len(self.ue)} UEs; a power part "
                f"gives one for each UE"
            )
        good = (self.power_w >= 0) & (self.power_w < inf)
        if np.count_nonzero(good) < len(good):
            k = good.argmin()
            raise BadInput(
                f"power: UE {self.ue[k]} would send with {self.power_w[k]:g} W; a power part "
                "gives finite powers, not negative, 0 for a UE that is to be silent"
            )

    def with_power_w(self, power_w: FloatArray) -> "Cohort":
        """The same UEs with other powers (n,)."""
        return Cohort(  # `replace` takes longer than all that a small cohort needs
            self.ue,
            self.serving,
            self.gain,
            self.fading,
            power_w,
            self.rows,
            self.downlink_sinr,
            self.compute_s,
            self.compute_j,
            self.limit_s,
        )

    @cached_property
    def outer(self) -> FloatArray:
        """`compute_outer_products` (n, n_bs, antennas^2) of all links."""
        if self.fading is None:
            return self.gain[..., None]
        return compute_outer_products(self.gain, self.fading)

    @cached_property
    def decoding_order(self) -> IntArray:
        """The UEs with a cell, as `sort_for_decoding` has them."""
        return sort_for_decoding(self.signal_w, self.serving)

    @cached_property
    def strength(self) -> FloatArray:
        """gain times |fading|^2 summed over antennas: (n, n_bs)."""
        if self.fading is None:
            return self.gain
        return self.gain * sum_strength(self.fading)

    @cached_property
    def signal_w(self) -> FloatArray:
        """Power (n,) of each UE at its own base station after combining its antennas; 0 without
        one.
        """
        if not self.gain.shape[1]:
            return np.zeros(len(self.serving))
        n = np.arange(len(self.serving))
        cell = np.maximum(self.serving, 0)
        strength = self.gain[n, cell]
        if self.fading is not None:
            strength = strength * sum_strength(self.fading[n, cell])
        signal_w = self.power_w * strength
        return np.where((self.serving >= 0) & np.isfinite(signal_w), signal_w, 0.0)


@compiled
def compute_outer_products(gain: FloatArray, fading: ComplexArray) -> FloatArray:
    """h h^H (n, n_bs, antennas^2) of h = sqrt(gain) fading, of gain (n, n_bs) and fading (n, n_bs,
    antennas).

    As real numbers: |h_i|^2, and 2^1/2 Re and Im of h_i h_j* above. The inner product of two of
    them is |h^H g|^2.
    """
    n, n_bs, antennas = fading.shape
    pairs = antennas * (antennas - 1) // 2
    products = np.empty((n, n_bs, antennas**2))
    for u in range(n):
        for b in range(n_bs):
            h = fading[u, b]
            columns = products[u, b]
            column = antennas
            for i in range(antennas):
                columns[i] = (h[i] * np.conj(h[i])).real
                for j in range(i + 1, antennas):
                    cross = np.sqrt(2.0) * h[i] * np.conj(h[j])
                    columns[column] = cross.real
                    columns[column + pairs] = cross.imag
                    column += 1
            columns *= gain[u, b]
    return products


def sum_strength(h: ComplexArray) -> FloatArray:
    """||h||^2, over the antennas, which are the last axis."""
    return (h.real**2 + h.imag**2).sum(axis=-1)


@frozen
class Channel(Columns):
    """The uplink of one round, one entry for each transmitting UE, or for each row of updates (see
    `select`).

    power_w; sinr (linear); rate_bps; noise_std: standard deviation added to each number of the
    update after decoding, in the unit of the update; thermal_std: its part due to the receiver's
    thermal noise; airtime_s; delay_s: from the server's request to the last bit; energy_j: of
    transmission and training; decoded: received with sufficient SINR and in time; late: with
    sufficient SINR, but not complete at the deadline, at which it stopped: airtime, delay and
    energy are those up to there.

    noise_std is the noise that training is subject to. Only thermal_std may count as privacy: a
    receiver that decodes the signals of other UEs can subtract them, so interference does not
    protect. thermal_std is 0 for a UE without a base station, because there is no receiver whose
    noise could be counted.
    """

    power_w: FloatArray
    sinr: FloatArray
    rate_bps: FloatArray
    noise_std: FloatArray
    thermal_std: FloatArray
    airtime_s: FloatArray
    delay_s: FloatArray
    energy_j: FloatArray
    decoded: BoolArray
    late: BoolArray

    def stop_late(self, limit_s: float, share_of_time: float = 1.0) -> Self:
        """A copy in which transmissions with a latency above limit_s are late: they stop there.

        Training counts as a whole. share_of_time: that of `Uplink.share_of_time`.
        """
        late = self.late | (self.decoded & (self.delay_s > limit_s))
        over = np.isfinite(self.airtime_s) & (self.delay_s > limit_s)
        if not over.any():
            return self
        missed_s = np.where(over, np.minimum(self.delay_s - limit_s, self.airtime_s), 0.0)
        return replace(
            self,
            decoded=self.decoded & ~late,
            late=late,
            airtime_s=self.airtime_s - missed_s,
            delay_s=np.where(over, limit_s, self.delay_s),
            energy_j=self.energy_j - self.power_w * (share_of_time * missed_s),
        )


def compute_noise_std(rho: float | FloatArray, sinr: FloatArray) -> FloatArray:
    """Standard deviation of the noise on each number of an update that was decoded with a SINR;
    finite at 0.
    """
    return rho / np.sqrt(np.maximum(sinr, _MIN_SINR))


class Decoded(NamedTuple):
    """UEs that send at the same time, one entry each (n,): sinr, snr (without interference),
    rate_bps.
    """

    sinr: FloatArray
    snr: FloatArray
    rate_bps: FloatArray


class Uplink(Part):
    """Multiple access of the UEs that transmit in a round."""

    kind: str = ""

    needs_bound: ClassVar = False
    """whether a payload must have a bound of its norm"""
    shares_band: ClassVar = False
    """whether the transmission of one UE can make updates of others late, lost or noisier"""
    adds_noise: ClassVar = False
    """whether decoded updates carry channel noise"""
    isolates_ues: ClassVar = False
    """whether the noise on an update depends on the power of its own UE only"""
    divides_band: ClassVar = True
    """whether the SNR of a UE depends on who else sends, as where the band is shared out"""
    groups_ues: ClassVar = False
    """whether `plan` lets UEs of a cell wait for others"""

    def share_of_time(self) -> float:
        """Share of its airtime in which a UE sends; in the rest the band is the downlink's."""
        return 1.0

    def compute_noise_rise(self) -> float:
        """Ratio of the noise floor at base stations, with interference from outside, to thermal
        noise.
        """
        return 1.0

    def group_ues(self, cohort: "Cohort") -> IntArray:
        """The group (n,) of each UE of a planned cohort, within which UEs send together; 0 where
        all do.
        """
        return np.zeros(len(cohort.ue), int)

    @abstractmethod
    def plan(self, cohort: "Cohort", payload: Payload) -> Channel:
        """The channel of every UE of the cohort."""

    def receive(self, cohort: "Cohort", on: BoolArray) -> Decoded:
        """Reception at the base stations while the UEs on (n,), all of which have a cell, send at
        once, whatever `plan` groups; of the others it means nothing.

        Raises TypeError where an uplink has no such law.
        """
        raise TypeError(f"{self.kind_name()}: has no law of simultaneous reception")

    def downlink_bps(self, cohort: "Cohort") -> FloatArray:
        """Rate (n,) at which each UE receives the model; infinite for an ideal link."""
        return np.full(len(cohort.ue), inf)

    def alone_bps(self, received_w: FloatArray) -> FloatArray:
        """Rate (n,) in the whole band without interference, from received powers (n,); infinite for
        an ideal link.
        """
        return np.full(len(received_w), inf)

    def receive_granted(
        self,
        cohort: "Cohort",
        on: BoolArray,
        hear: Callable[["Cohort", BoolArray], Decoded],
        deaf: BoolArray | bool = False,
        sends: BoolArray | None = None,
        held: bool = False,
    ) -> Decoded:
        """Reception (n,) once those of the UEs on (n,) are silent that have no rate while all of
        these send.

        Base stations grant nothing where there is no rate, and UEs deaf (n,) to the model have
        nothing to send. Both do not interfere, and keep the SINR at which they were refused. UEs
        that send (n,) already are refused last. hear: see `receive`; held: if no other gets a
        rate the SINR of those that send already is of no interest.
        """
        silent = on if sends is None else on & ~sends
        heard = hear(cohort, on)
        if held and not heard.rate_bps[silent].any():
            return heard
        while np.count_nonzero(refused := on & ((heard.rate_bps == 0) | deaf)):
            new = refused & silent
            on = on & ~(new if new.any() else refused)
            again = hear(cohort, on)
            heard = Decoded(
                *(np.where(on, new, old) for new, old in zip(again, heard, strict=True))
            )
        return heard

    def floor_sinr(self) -> float:
        """SINR below which there is no rate; 0 without such a limit."""
        return 0.0

    def rate_bps(
        self, sinr: FloatArray, bandwidth_hz: float | FloatArray | None = None
    ) -> FloatArray:
        """Rate (n,) of a SINR (n,) in a bandwidth, None: the whole band; infinite for an ideal
        link.
        """
        return np.full(len(sinr), inf)

    def limit_s(self) -> float:
        """Latency beyond which an update is late; infinite for none of the uplink's own."""
        return inf

    def min_sinr(self) -> float:
        """SINR below which a UE is not decoded; 0 without such a limit."""
        return 0.0

    def describe(self, training: str) -> dict[str, str]:
        """Aspect -> its model in words, for the channel card; training: cost of training per
        sample, in words.
        """
        return {
            "noise": "not modelled",
            "uplink interference": "not modelled",
            "delay and energy": "training only",
        }

    def snr_per_w(self, cohort: "Cohort") -> FloatArray:
        """SNR at 1 W (n,) of each UE at its own base station without interference; 0 for an ideal
        uplink.
        """
        return np.zeros(len(cohort.ue))

    def noise_scale(self, payload: Payload) -> float:
        """Scale of decoder noise, whose std on each number of an update is noise_scale /
        sqrt(SINR); 0 without it.
        """
        return 0.0

    def band_noise_w(self) -> float:
        """Thermal noise power in the whole band, W; 0 for an ideal uplink."""
        return 0.0

    def eavesdrop(
        self, cohort: "Cohort", payload: Payload, sent: Channel, group_of: IntArray | None = None
    ) -> Channel:
        """The channel (n,) of the same transmissions at an eavesdropper's antenna, without a
        deadline.

        cohort: the same UEs with their own cells, and gain (n, 1) and fading of their links to that
        antenna; sent: their channel at the base stations; group_of (n,): their `group_ues` there,
        None: all send together. Raises TypeError for an ideal uplink.
        """
        raise TypeError(f"{self.kind_name()}: nothing can be overheard")


class Ideal(Uplink, kind="ideal"):
    """Ideal uplink: all updates arrive at once, without noise, airtime or transmit energy."""

    reference = "netsim: the usual assumption of federated learning papers"

    def plan(self, cohort: "Cohort", payload: Payload) -> Channel:
        zero = np.zeros(len(cohort.ue))
        endless = zero + inf
        late = cohort.compute_s > cohort.limit_s
        delay_s = np.minimum(cohort.compute_s, cohort.limit_s)
        trained = divide_or(delay_s, cohort.compute_s, 1.0)
        return Channel(
            cohort.power_w,
            endless,
            endless,
            zero,
            zero,
            zero,
            delay_s,
            cohort.compute_j * trained,
            ~late,
            late,
        )

    def receive(self, cohort: "Cohort", on: BoolArray) -> Decoded:
        endless = np.full(len(cohort.ue), inf)
        return Decoded(endless, endless, endless)
