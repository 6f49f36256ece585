"""The channel card: what a run's radio models, how, and what it leaves out. Printed and recorded
with every run.
"""

from __future__ import annotations

from netsim.part import Part
from netsim.radio.schedulers import Simultaneous
from netsim.world.base_stations import BaseStation
from netsim.world.setting import Radio, WorldSetting


def channel_card(
    setting: WorldSetting,
    stations: tuple[BaseStation, ...],
    replayed: bool,
    presence: str | None = None,
) -> dict[str, str]:
    """Aspect -> how it is modelled, or `not modelled`.

    replayed: RSRP comes from a trace; presence: when a replayed UE is absent.
    """
    radio = setting.radio
    measured = "read from the trace, not modelled"
    law = f"{'of uplinks only: ' if replayed else ''}{{}}" if stations else "not modelled"
    placed = "listed" if setting.layout is None else _words(setting.layout)
    if setting.base_stations == ():
        placed = "hexagonal, placed over the trace's area"
    sight = _words(radio.line_of_sight)
    if not radio.knows_sight:
        sight = "not known: obstacles are in the gains"
    if radio.line_of_sight.needs_of_law:  # of the path loss law that its probability is from
        sight += f" of {radio.path_loss.kind_name()}"
    card = {
        "carrier": f"{radio.carrier_hz / 1e9:g} GHz",
        "base stations": f"{len(stations)}" + (f", {placed}" if stations else ""),
        "RSRP measurement": measured
        if replayed
        else f"noise {radio.measurement_noise_db:g} dB, {radio.rsrp_report}",
        "path loss": law.format(_words(radio.path_loss)),
        "line of sight": law.format(sight),
        "shadowing": law.format(_shadowing_words(radio)),
        "penetration": law.format(_words(radio.penetration)),
        "serving cell": _serving_words(radio),
        "small-scale fading": _words(radio.fading),
        "uplink": _words(radio.uplink),
        "transmissions": _transmission_words(radio),
    }
    card |= radio.uplink.described(
        f"{setting.ues.training_s_per_sample:g} s and "
        f"{setting.ues.compute_j_per_sample:g} J a sample"
    )
    if (indoor := setting.ues.indoor) is not None:
        (low, high) = indoor.floors
        deepest_m = indoor.deepest_m(radio.path_loss)
        where = f"buildings of {low} to {high} floors, up to {deepest_m:g} m from the facade"
        card["UEs indoors"] = f"{100 * indoor.share:g} %, drawn, {where}"
    if setting.ues.compute_heterogeneity is not None:
        formula = setting.ues.compute_heterogeneity.formula
        card["speed of UEs"] = (
            f"training takes {formula} times the stated time, N standard normal, drawn once per UE"
        )
    if presence is not None:
        card["presence"] = presence
    return card | {"not modelled": ", ".join(not_modelled(radio))}


def not_modelled(radio: Radio) -> tuple[str, ...]:
    """Aspects that this radio does not model. Retransmissions are modelled where `dynamic_uplink`
    allows some, scheduling where UEs of a cell take turns.
    """
    air = radio.dynamic_uplink
    repeats = air is not None and air.retransmissions > 0
    uplink = radio.uplink
    schedules = uplink.groups_ues if air is None else not isinstance(air.scheduler, Simultaneous)
    return (
        "Doppler and fading within a block",
        "frequency selectivity",
        "channel estimation errors",
        "coding" if repeats else "retransmissions and coding",
        "control channels" if schedules else "scheduling and control channels",
        "antenna correlation",
        *["interference from outside"] * (uplink.over_thermal() == 1),
        *["time shared with the downlink"] * (uplink.share_of_time() == 1),
    )


def _transmission_words(radio: Radio) -> str:
    """Whether transmissions are planned or take their time, and by which scheduler."""
    air = radio.dynamic_uplink
    if air is None:
        return "planned at the request, with the links and powers of that time"
    rest = _fields(air, {"scheduler"})
    return f"events, scheduler {_words(air.scheduler)}{f', {rest}' if rest else ''}"


def downlink_card(
    setting: WorldSetting, stations: tuple[BaseStation, ...], presence: str | None = None
) -> dict[str, str]:
    """The card of a study of the downlink alone, in which no update is sent. presence: as in
    `channel_card`.
    """
    downlink = setting.radio.downlink
    idle = {"RSRP measurement", "small-scale fading", "uplink", "transmissions", "not modelled"}
    idle |= set(setting.radio.uplink.described(""))
    card = channel_card(setting, stations, False, presence)
    rows = {aspect: words for aspect, words in card.items() if aspect not in idle}
    rows["noise"] = (
        f"{downlink.noise_dbm:g} dBm in 15 kHz (noise figure {downlink.noise_figure_db:g} dB)"
    )
    rows["interference"] = "all other cells at full power (full load)"
    rows["rate"] = f"{downlink.bandwidth_hz / 1e6:g} MHz x {downlink.law.words}"
    left_out = ("small-scale fading", "load of cells", "uplink", *not_modelled(Radio()))
    return rows | {"not modelled": ", ".join(left_out)}


def card_lines(card: dict[str, str]) -> list[str]:
    """The card as a few lines for a terminal."""
    if "uplink" not in card:
        return [f"{k}: {v}" for k, v in card.items()]
    short = ("RSRP measurement", "path loss", "line of sight", "shadowing", "small-scale fading")
    return [
        f"radio: {card['carrier']}, base stations {card['base stations']}; uplink {card['uplink']}",
        "       " + "; ".join(f"{k} {card[k]}" for k in short),
        *(
            f"       {aspect}: {card[aspect]}"
            for aspect in ("transmissions", "presence")
            if aspect in card
        ),
        f"       not modelled: {card['not modelled']}",
    ]


def _serving_words(radio: Radio) -> str:
    if radio.handover is None:
        return "the strongest"
    fields = _fields(radio.handover)
    return f"handover ({fields})" if fields else "handover"


def _shadowing_words(radio: Radio) -> str:
    """The law and its deviations in dB, whether stated or published with the path loss law."""
    part = radio.shadowing
    said = part.deviations(radio.path_loss)
    if not said:
        return _words(part)
    rest = _fields(part, {"kind", "std_db", "nlos_std_db"})
    return f"{part.kind_name()} ({', '.join([*said, *([rest] if rest else [])])})"


def _words(part: Part) -> str:
    """`kind (field value, ...)` with only what differs from the defaults."""
    fields = _fields(part)
    return part.kind_name() + (f" ({fields})" if fields else "")


def _fields(part: Part, without: set[str] | None = None) -> str:
    values = part.model_dump(mode="json", exclude_defaults=True, exclude=without or {"kind"})
    own = {name: getattr(part, name) for name in values}
    texts = {
        name: _words(own[name]) if isinstance(own[name], Part) else value
        for name, value in values.items()
    }
    return ", ".join(f"{name} {text}" for name, text in texts.items())
