"""Uploads over the air one by one: the rules of `docs/uploads.md` in plain loops, with nothing of
the package in them.

One object per upload, complex amplitudes, and a list of everything that was ever sent.
"""

from dataclasses import dataclass, field
from math import ceil, exp, inf, isnan, log2
from statistics import NormalDist


@dataclass
class Band:
    """NOMA (shared=False) or OMA (shared=True), with all numbers linear."""

    noise_w: float
    bandwidth_hz: float
    is_oma: bool = False
    interference: str = "all"
    residual: float = 0.0
    attenuation: float = 1.0
    cap: float = 8.0
    floor: float = 0.0
    max_ser: float | None = None

    def least(self):
        """SINR below which nothing is decoded: QPSK has 1 - (1 - Q(sqrt SINR))^2 symbol errors."""
        if self.max_ser is None:
            q = 0.0
        else:
            q = 1 - (1 - self.max_ser) ** 0.5
        return max(self.floor, NormalDist().inv_cdf(1 - q) ** 2 if 0 < q < 0.5 else 0.0)

    def rate(self, sinr, bandwidth_hz=None):
        band = self.bandwidth_hz if bandwidth_hz is None else bandwidth_hz
        if sinr < self.floor:
            return 0.0
        return band * min(self.attenuation * log2(1 + sinr), self.cap)


def dot(h, g):
    return abs(sum(a.conjugate() * b for a, b in zip(h, g, strict=True))) ** 2


def square(h):
    return sum(abs(a) ** 2 for a in h)


def hear(band, ups):
    """(SINR, SNR, rate) of uploads that send at once."""
    result = {}
    for u in ups:
        selected = [v for v in ups if v.cell == u.cell]
        if band.interference == "all":
            strangers = [v for v in ups if v.cell != u.cell]
        else:
            strangers = []
        h = u.h[u.cell]
        power = u.power_w * square(h)
        if band.is_oma:
            rest = sum(v.power_w * square(v.h[u.cell]) / len(h) for v in strangers)
            noise = (band.noise_w + rest) / len(selected)
            sinr = power / noise
            snr = power * len(selected) / band.noise_w
            result[u] = sinr, snr, band.rate(sinr, band.bandwidth_hz / len(selected))
        elif band.interference == "none":
            snr = power / band.noise_w
            result[u] = snr, snr, band.rate(snr)
    if band.is_oma or band.interference == "none":
        return result
    for cell in {u.cell for u in ups}:
        order = sorted(
            (u for u in ups if u.cell == cell), key=lambda u: (-u.power_w * square(u.h[cell]), u.ue)
        )
        remains = {}
        for k, u in enumerate(order):
            h = u.h[cell]
            size = square(h)
            cross = {v: v.power_w * dot(h, v.h[cell]) for v in ups}
            bad = size * band.noise_w
            bad += sum(cross[v] for v in order[k + 1 :])
            bad += sum(remains[v] * cross[v] for v in order[:k])
            if band.interference == "all":
                bad += sum(cross[v] for v in ups if v.cell != cell)
            if bad > 0:
                sinr = u.power_w * size**2 / bad
            else:
                sinr = 0.0
            remains[u] = band.residual if sinr >= band.least() else 1.0
            result[u] = sinr, u.power_w * size / band.noise_w, band.rate(sinr)
    return result


def hear_granted(band, ups):
    """`hear`, once those below the floor are silent: who begins first, all of them at a time, then
    the others."""
    heard = {}
    while ups:
        heard.update(hear(band, ups))
        low = [u for u in ups if heard[u][0] < band.floor]
        if not low:
            break
        new = [u for u in low if u.rate == 0] or low
        ups = [u for u in ups if u not in new]
    return heard


@dataclass(eq=False)
class Upload:
    """Of one UE: `links` is a list, by block, of (cell, amplitudes at each base station
    [n_bs][antennas])."""

    ue: int
    links: list
    power_w: float
    bits: float
    asked_s: float
    ready_s: float
    compute_s: float
    compute_j: float
    late_s: float
    drops_s: float = inf
    battery_j: float = inf
    stage: str = "prepares"
    fate: str = ""
    cell: int = -1
    h: list = field(default_factory=list)
    rate: float = 0.0
    sinr: float = 0.0
    snr: float = 0.0
    decoded: bool = False
    since_s: float = 0.0
    waited_s: float = 0.0
    airtime_s: float = 0.0
    sent_j: float = 0.0
    lost: float = 0.0
    granted_s: float = float("nan")
    ended_s: float = float("nan")
    tries: int = 0
    kept: list = field(default_factory=list)
    block: list = field(default_factory=list)

    def __post_init__(self):
        self.compute_remainder = self.block_left = self.bits
        self.stops = min(
            (self.late_s, 0, "late"), (self.drops_s, 1, "dropped"), key=lambda stop: stop[0]
        )
        if self.battery_j < self.compute_j:
            empty_s = self.ready_s - self.compute_s * (1 - self.battery_j / self.compute_j)
            self.stops = min(self.stops, (empty_s, 2, "exhausted"), key=lambda stop: stop[0])

    def ends_s(self):
        """When it comes to an end by itself."""
        if self.stage == "prepares":
            return min(self.ready_s if self.ready_s < inf else self.asked_s, self.stops[0])
        if self.stage == "on air" and self.rate > 0:
            return min(self.since_s + min(self.needs_s(), self.lasts_s()), self.stops[0])
        return self.stops[0]

    def needs_s(self):
        return self.compute_remainder / self.rate

    def lasts_s(self):
        if self.power_w:
            return (self.battery_j - self.compute_j - self.sent_j) / self.power_w
        return inf

    def count(self, to_s, bits=None):
        """What happens from since_s to to_s: it waits, or sends bits (by default rate times
        time)."""
        span_s = to_s - self.since_s
        if self.stage == "waits" or (self.stage == "on air" and self.rate == 0):
            self.waited_s += span_s
        elif self.stage == "on air" and span_s > 0:
            if bits is None:
                bits = min(self.rate * span_s, self.compute_remainder)
            else:
                bits = bits
            self.airtime_s += span_s
            self.sent_j += self.power_w * span_s
            self.compute_remainder -= bits
            self.block.append((bits, self.sinr, self.snr, self.decoded))
        self.since_s = to_s

    def failed(self):
        return any(not decoded for bits, _, _, decoded in self.block if bits > 0)

    def end(self, at_s, fate):
        self.stage = "ended"
        self.fate = fate
        self.ended_s = at_s
        self.rate = 0.0

    def close_block(self, max_tries, moved=False, stuck=False):
        """Whether it has failed once too often."""
        begun = self.block_left > self.compute_remainder
        failed = begun and self.failed()
        if not moved and (failed or (stuck and not begun)):
            self.tries += 1
            if self.tries > max_tries:
                return True
        if failed or moved:
            self.lost += self.block_left - self.compute_remainder
            self.compute_remainder = self.block_left
        elif begun:
            self.kept += self.block
            self.tries = 0
        self.block = []
        self.block_left = self.compute_remainder
        return False

    def result(self):
        """Column -> value, as of an outcome."""
        until = self.ended_s
        trained = 1.0
        if self.ready_s == inf:
            trained = 0.0
        elif self.compute_s > 0:
            trained = 1 - min(max(self.ready_s - until, 0.0) / self.compute_s, 1.0)
        sent = self.bits - self.compute_remainder + self.lost
        never = self.fate in ("undecoded", "no-cell") and sent == 0
        return {
            "fate": self.fate,
            "ended_s": until,
            "granted_s": self.granted_s,
            "ready_s": self.ready_s if until >= self.ready_s else float("nan"),
            "delay_s": inf if never else until - self.asked_s,
            "airtime_s": inf if never else self.airtime_s,
            "energy_j": self.compute_j * trained + self.sent_j,
            "sent_bits": sent,
            "lost_bits": self.lost,
            "decoded": self.fate == "arrived",
            "late": self.fate == "late" and not self.failed(),
            "sinr": self.bits / sum(b / s for b, s, _, _ in self.kept)
            if self.fate == "arrived"
            else None,
        }


@dataclass
class SlowAir:
    """kind, size, slot_s, constant_s: the scheduler and its settings."""

    band: Band
    ups: list
    kind: str
    size: int = 2
    slot_s: float = 0.0
    constant_s: float = 1.0
    held: bool = False
    block_s: float | None = None
    step_s: float | None = None
    tries: int = 0

    def play(self):
        self.now_s = 0.0
        self.sent = {}
        self.served = {}
        self.news = []
        self.slot_end_s = -inf
        self.someone_waited = False
        while any(u.stage != "ended" for u in self.ups):
            self.step()
        return [u.result() for u in self.ups]

    def select_stages(self, *stages):
        return [u for u in self.ups if u.stage in stages]

    def slotted(self):
        return self.kind in ("round-robin", "proportional-fair")

    # -- time

    def step(self):
        then_s = min(u.ends_s() for u in self.ups if u.stage != "ended")
        if self.slotted() and self.select_stages("waits"):
            then_s = min(then_s, self.slot_end_s)
        if self.step_s is not None:
            then_s = ceil(then_s / self.step_s) * self.step_s
        if self.block_s is not None:
            then_s = min(then_s, (self.now_s // self.block_s + 1) * self.block_s)
        self.now_s = then_s
        arrived = False
        left = False
        for u in self.ups:
            while u.stage != "ended" and u.ends_s() <= then_s:
                left |= u.stage == "on air"
                self.come_or_go(u)
                arrived |= u.stage == "waits"
        looked = (
            self.block_s is not None
            and then_s % self.block_s == 0
            and bool(self.select_stages("waits", "on air"))
        )
        if looked:
            self.look()
        for u in self.select_stages("waits"):
            if u.cell < 0:
                u.end(u.ready_s, "no-cell")
        slot_over = (
            self.slotted() and then_s >= self.slot_end_s and bool(self.select_stages("waits"))
        )
        if arrived or left or looked or slot_over:
            self.ask(looked or (left and not self.held))

    def come_or_go(self, u):
        """What u does by itself next."""
        stop_s, _, stop = u.stops
        if u.stage == "prepares":
            if u.ready_s == inf:
                u.end(u.asked_s, "undecoded")
            elif u.ready_s > stop_s:
                u.end(stop_s, stop)
            else:
                u.stage = "waits"
                u.since_s = u.ready_s
                self.links(u, 0 if self.block_s is None else int(u.ready_s // self.block_s))
            return
        on_air = u.stage == "on air" and u.rate > 0
        if not on_air or u.since_s + min(u.needs_s(), u.lasts_s()) > stop_s:
            self.log(u, stop_s)
            u.count(stop_s)
            u.end(stop_s, stop)
        elif u.lasts_s() < u.needs_s():
            empty_s = u.since_s + u.lasts_s()
            self.log(u, empty_s)
            u.count(empty_s)
            u.end(empty_s, "exhausted")
        else:
            last_s = u.since_s + u.needs_s()
            self.log(u, last_s)
            u.count(last_s, u.compute_remainder)
            if u.close_block(self.tries):
                u.end(last_s, "undecoded")
            elif u.compute_remainder == 0:
                u.end(last_s, "arrived")

    def log(self, u, to_s):
        """Remember that u sent from since_s on."""
        if u.stage == "on air" and u.rate > 0 and to_s > u.since_s:
            self.sent.setdefault(u.ue, []).append((u.since_s, to_s, u.rate))
            self.news.append((u.ue, to_s))

    def links(self, u, k):
        u.cell, u.h = u.links[k]

    def settle(self):
        for u in self.select_stages("waits", "on air"):
            self.log(u, self.now_s)
            u.count(self.now_s)

    def look(self):
        k = int(self.now_s / self.block_s)
        self.settle()
        stuck = self.stuck()
        for u in self.select_stages("waits", "on air"):
            moved = u.links[k][0] != u.cell
            if u.close_block(self.tries, moved, u in stuck):
                u.end(self.now_s, "undecoded")
                continue
            self.links(u, k)
            if u.cell < 0:
                u.end(self.now_s, "no-cell")
            elif moved:
                u.stage = "waits"
                u.rate = 0.0

    def stuck(self):
        """Who has a place and will get no rate if another ends."""
        on_air = self.select_stages("on air")
        nobody = all(u.rate == 0 for u in on_air)
        return [u for u in on_air if u.rate == 0 and (nobody or self.band.rate(u.snr) == 0)]

    # -- the scheduler

    def alone(self, u):
        return self.band.rate(u.power_w * square(u.h[u.cell]) / self.band.noise_w)

    def mean(self, ue):
        t = self.constant_s
        parts = self.sent.get(ue, ())
        return sum(r * (exp((b - self.now_s) / t) - exp((a - self.now_s) / t)) for a, b, r in parts)

    def ask(self, follow):
        self.settle()
        self.new_slot = self.slotted() and self.slot_is_over()
        if self.slotted():
            before_s = (ceil(self.now_s / self.slot_s) - 1) * self.slot_s
        else:
            before_s = 0.0
        for ue, to_s in self.news:
            self.served[ue] = max(self.served.get(ue, -inf), min(to_s, before_s))
        self.news = []
        upper = -1
        while self.select_stages("waits", "on air"):
            self.share(follow)
            self.new_slot = False
            lost = self.stuck() if self.block_s is None else []
            if self.block_s is None and self.kind in (
                "round-robin",
                "proportional-fair",
                "energy-aware",
            ):
                lost += [u for u in self.select_stages("waits") if self.alone(u) == 0]
            for u in lost:
                u.end(self.now_s, "undecoded")
            sending = [u for u in self.select_stages("on air") if u.rate > 0]
            neighbour = bool(self.select_stages("waits")) and any(not u.decoded for u in sending)
            grew = len(sending) > upper
            upper = len(sending)
            if not lost and not (neighbour and grew):
                break
            follow = False

    def slot_is_over(self):
        if self.someone_waited:
            return self.now_s >= self.slot_end_s
        return self.now_s % self.slot_s == 0

    def share(self, follow):
        """Places on the air, and what is heard from now on."""
        everybody = self.select_stages("waits", "on air")
        chosen, fresh, refused = self.places(everybody, follow)
        if self.slotted():
            self.slot_end_s = (self.now_s // self.slot_s + 1) * self.slot_s
            self.someone_waited = len(chosen) < len(everybody)
        for u in chosen:  # a turn begins
            if not self.holds(u, refused) and u not in refused and self.alone(u) > 0:
                self.served[u.ue] = self.now_s
        for u in everybody:
            if u not in chosen or u.stage == "waits":
                u.rate = 0.0
            u.stage = "on air" if u in chosen else "waits"
            if u in fresh:
                u.sinr, u.snr, u.rate = fresh[u]
                u.decoded = u.sinr > 0 and u.sinr >= self.band.least()
                if u.rate > 0 and isnan(u.granted_s):
                    u.granted_s = self.now_s

    def places(self, everybody, follow):
        """Those of each cell whose turn it is and who get a rate, others if there is none; with
        what they hear."""
        refused = set()
        chosen = None
        while True:
            again = {u for cell in {u.cell for u in everybody} for u in self.choose(cell, refused)}
            if again == chosen:
                break
            chosen = again
            fresh = {}
            changed = any((u in chosen) != (u.stage == "on air") for u in everybody)
            silent = [u for u in everybody if u in chosen and u.rate == 0]
            if follow or silent or (changed and not self.held):
                fresh = hear_granted(self.band, [u for u in everybody if u in chosen])
            if not (follow or (changed and not self.held) or any(fresh[u][2] > 0 for u in silent)):
                fresh = {u: fresh[u] for u in silent}  # rates are held
            mute = {u for u in fresh if fresh[u][2] == 0}
            if mute <= refused:
                break
            refused |= mute
        return chosen, fresh, refused

    def holds(self, u, refused):
        """Whether it goes on with its turn."""
        return u.stage == "on air" and u.rate > 0 and u not in refused and not self.new_slot

    def choose(self, cell, refused):
        selected = [u for u in self.select_stages("waits", "on air") if u.cell == cell]
        if self.kind == "simultaneous":
            return selected
        unable = lambda u: u in refused or self.alone(u) == 0  # noqa: E731
        if self.kind == "groups":
            sending = [u for u in selected if u.rate > 0 and u not in refused]
            if any(u.decoded for u in sending):
                return [u for u in selected if u.stage == "on air"]
            rest = sorted(
                (u for u in selected if u not in sending),
                key=lambda u: (unable(u), -u.power_w * square(u.h[cell]), u.ue),
            )
            return sending + rest[: self.size]
        holder = [u for u in selected if self.holds(u, refused)]
        return holder or [min(selected, key=lambda u: (unable(u), *self.key(u, unable(u)), u.ue))]

    def key(self, u, unable):
        if self.kind == "round-robin":
            return self.served.get(u.ue, -inf), u.ready_s
        if unable:
            return (0.0,)
        if self.kind == "energy-aware":
            return (u.power_w / self.alone(u),)
        mean = self.mean(u.ue)
        return (-self.alone(u) / mean if mean > 0 else -inf,)
