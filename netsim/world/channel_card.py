"""The channel card: what a run's radio models, how, and what it leaves out. Printed and recorded
with every run.
"""

from netsim.part import Part
from netsim.radio.schedulers import Simultaneous
from netsim.traces.values import Texts
from netsim.world.base_stations import Stations
from netsim.world.setting import Radio, WorldSetting

Card = dict[str, str]
"""aspect -> how it is modelled"""


def describe_channel(
    setting: WorldSetting,
    stations: Stations,
    replayed: bool,
    presence: str | None = None,
) -> Card:
    """Aspect -> how it is modelled, or `not modelled`.

    replayed: RSRP comes from a trace; presence: when a replayed UE is absent.
    """
    radio = setting.radio
    measured = "read from the trace, not modelled"
    law = f"{'of uplinks only: ' if replayed else ''}{{}}" if stations else "not modelled"
    placed = "listed" if setting.layout is None else _describe_part(setting.layout)
    if setting.base_stations == ():
        placed = "hexagonal, placed over the trace's area"
    sight = _describe_part(radio.line_of_sight)
    if not radio.sight_is_modelled:
        sight = "not known: obstacles are in the gains"
    if radio.line_of_sight.needs_of_law:  # of the path loss law that its probability is from
        sight += f" of {radio.path_loss.kind_name()}"
    card = {
        "carrier": f"{radio.carrier_hz / 1e9:g} GHz",
        "base stations": f"{len(stations)}" + (f", {placed}" if stations else ""),
        "RSRP measurement": measured
        if replayed
        else f"noise {radio.measurement_noise_db:g} dB, {radio.rsrp_report}",
        "path loss": law.format(_describe_part(radio.path_loss)),
        "line of sight": law.format(sight),
        "shadowing": law.format(_describe_shadowing(radio)),
        "penetration": law.format(_describe_part(radio.penetration)),
        "serving cell": _describe_serving(radio),
        "small-scale fading": _describe_part(radio.fading),
        "uplink": _describe_part(radio.uplink),
        "transmissions": _describe_transmissions(radio),
    }
    ues = setting.ues
    training = f"{ues.training_s_per_sample:g} s and {ues.compute_j_per_sample:g} J a sample"
    card |= radio.uplink.describe(training)
    if (indoor := ues.indoor) is not None:
        (low, high) = indoor.floors
        deepest_m = indoor.find_deepest_m(radio.path_loss)
        place = f"buildings of {low} to {high} floors, up to {deepest_m:g} m from the facade"
        card["UEs indoors"] = f"{100 * indoor.share:g} %, drawn, {place}"
    if ues.compute_heterogeneity is not None:
        card["speed of UEs"] = (
            f"training takes {ues.compute_heterogeneity.formula} times the stated time, N standard "
            f"normal, drawn once per UE"
        )
    if presence is not None:
        card["presence"] = presence
    return card | {"not modelled": ", ".join(list_not_modelled(radio))}


def list_not_modelled(radio: Radio) -> Texts:
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
        *["interference from outside"] * (uplink.compute_noise_rise() == 1),
        *["time shared with the downlink"] * (uplink.share_of_time() == 1),
    )


def _describe_transmissions(radio: Radio) -> str:
    """Whether transmissions are planned or take their time, and by which scheduler."""
    air = radio.dynamic_uplink
    if air is None:
        return "planned at the request, with the links and powers of that time"
    rest = _format_fields(air, {"scheduler"})
    return f"events, scheduler {_describe_part(air.scheduler)}{f', {rest}' if rest else ''}"


def describe_downlink(
    setting: WorldSetting, stations: Stations, presence: str | None = None
) -> Card:
    """The card of a study of the downlink alone, in which no update is sent. presence: as in
    `describe_channel`.
    """
    downlink = setting.radio.downlink
    idle = {"RSRP measurement", "small-scale fading", "uplink", "transmissions", "not modelled"}
    idle |= set(setting.radio.uplink.describe(""))
    card = describe_channel(setting, stations, False, presence)
    rows = {aspect: words for aspect, words in card.items() if aspect not in idle}
    rows["noise"] = (
        f"{downlink.noise_dbm:g} dBm in 15 kHz (noise figure {downlink.noise_figure_db:g} dB)"
    )
    rows["interference"] = "all other cells at full power (full load)"
    rows["rate"] = f"{downlink.bandwidth_hz / 1e6:g} MHz x {downlink.law.words}"
    left_out = ("small-scale fading", "load of cells", "uplink", *list_not_modelled(Radio()))
    return rows | {"not modelled": ", ".join(left_out)}


def format_card(card: Card) -> list[str]:
    """The card as a few lines for a terminal."""
    if "uplink" not in card:
        return [f"{k}: {v}" for k, v in card.items()]
    short = ("RSRP measurement", "path loss", "line of sight", "shadowing", "small-scale fading")
    details = "; ".join(f"{k} {card[k]}" for k in short)
    return [
        f"radio: {card['carrier']}, base stations {card['base stations']}; uplink {card['uplink']}",
        "       " + details,
        *(
            f"       {aspect}: {card[aspect]}"
            for aspect in ("transmissions", "presence")
            if aspect in card
        ),
        f"       not modelled: {card['not modelled']}",
    ]


def _describe_serving(radio: Radio) -> str:
    if radio.handover is None:
        return "the strongest"
    fields = _format_fields(radio.handover)
    if fields:
        return f"handover ({fields})"
    return "handover"


def _describe_shadowing(radio: Radio) -> str:
    """The law and its deviations in dB, whether stated or published with the path loss law."""
    part = radio.shadowing
    deviations = part.describe_stds(radio.path_loss)
    if not deviations:
        return _describe_part(part)
    rest = _format_fields(part, {"kind", "std_db", "nlos_std_db"})
    return f"{part.kind_name()} ({', '.join([*deviations, *([rest] if rest else [])])})"


def _describe_part(part: Part) -> str:
    """`kind (field value, ...)` with only what differs from the defaults."""
    fields = _format_fields(part)
    return part.kind_name() + (f" ({fields})" if fields else "")


def _format_fields(part: Part, without: set[str] | None = None) -> str:
    values = part.model_dump(mode="json", exclude_defaults=True, exclude=without or {"kind"})
    parts = {name: getattr(part, name) for name in values}
    texts = {
        name: _describe_part(parts[name]) if isinstance(parts[name], Part) else value
        for name, value in values.items()
    }
    return ", ".join(f"{name} {text}" for name, text in texts.items())
