"""How updates were received, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_values import number_text, text_of, value_of


def uplink_text(summary: Mapping[str, Any]) -> str:
    """Medians and totals of the uplink; empty for an ideal one."""
    if value_of(summary, keys.UPLINK_SINR) is None:
        return ""
    moves = value_of(summary, keys.UPLINK_HANDOVERS)
    unheard, vain, bits = (
        value_of(summary, key) for key in (keys.UPDATES_NO_RATE, keys.UPLINK_VAIN_ENERGY, keys.UPLINK_VAIN_BITS)
    )
    return (
        f"SINR {text_of(summary, keys.UPLINK_SINR)} dB, latency {text_of(summary, keys.UPLINK_LATENCY)} "
        f"s (medians), {text_of(summary, keys.UPDATES_LATE)} % of updates late, "
        + (f"{number_text(unheard)} % without a rate, " if unheard else "")
        + f"energy {text_of(summary, keys.UPLINK_ENERGY)} J in total"
        + (f", {number_text(vain)} % of it in vain" if vain else "")
        + (f" with {number_text(bits)} % of the bits" if bits else "")
        + (", handover not modelled" if moves is None else f", {counted(moves, 'handover')}")
    )


def eavesdropper_lines(summary: Mapping[str, Any]) -> list[str]:
    """What the eavesdropper decoded; nothing without one."""
    decoded = value_of(summary, keys.EAVESDROPPER_DECODED)
    sinr = text_of(summary, keys.EAVESDROPPER_SINR)
    return (
        [] if decoded is None else [f"eavesdropper: decoded {number_text(decoded)} % of updates, median SINR {sinr} dB"]
    )
