"""The channel card: what a run's radio models, how, and what it leaves out. Printed and recorded
with every run.
"""

from netsim.part import Part
from netsim.radio.schedulers import Simultaneous
from netsim.texts import render_facts, render_lines
from netsim.units import Texts
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
    left_out = list_not_modelled(setting.radio)
    return _write_card(setting, stations, replayed, presence, left_out, sends=True)


def describe_downlink(
    setting: WorldSetting, stations: Stations, presence: str | None = None
) -> Card:
    """The card of a study of the downlink alone, in which no update is sent. presence: as in
    `describe_channel`.
    """
    left_out = ("small-scale fading", "load of cells", "uplink", *list_not_modelled(Radio()))
    return _write_card(setting, stations, False, presence, left_out, sends=False)


def _write_card(
    setting: WorldSetting,
    stations: Stations,
    replayed: bool,
    presence: str | None,
    not_modelled: Texts,
    sends: bool,
) -> Card:
    facts = render_facts(
        __package__,
        "channel_card.txt",
        setting=setting,
        radio=setting.radio,
        air=setting.radio.dynamic_uplink,
        stations=stations,
        replayed=replayed,
        presence=presence,
        not_modelled=not_modelled,
        sends=sends,
        describe=_describe_part,
        list_fields=_list_fields,
    )
    return dict(facts)


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


def format_card(card: Card) -> list[str]:
    """The card as a few lines for a terminal."""
    return render_lines(__package__, "card_lines.txt", card=card)


def _describe_part(part: Part) -> str:
    """`kind (field value, ...)` with only what differs from the defaults."""
    fields = ", ".join(_list_fields(part))
    return part.kind_name() + (f" ({fields})" if fields else "")


def _list_fields(part: Part, *without: str) -> list[str]:
    """`field value` of those that differ from the defaults."""
    values = part.model_dump(mode="json", exclude_defaults=True, exclude={"kind", *without})
    parts = {name: getattr(part, name) for name in values}
    return [
        f"{name} {_describe_part(parts[name]) if isinstance(parts[name], Part) else value}"
        for name, value in values.items()
    ]
