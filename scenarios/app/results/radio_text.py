"""The summary of a radio study in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import counted, figure_text

Summary = Mapping[str, Any]
SHOWN = {
    "rsrp_dbm": ("RSRP", "dBm", 1.0),
    "gain_db": ("gain", "dB", 1.0),
    "geometry_db": ("geometry", "dB", 1.0),
    "sinr_db": ("SINR", "dB", 1.0),
    "rate_bps": ("rate", "Mbit/s", 1e-6),
}
"""quantity -> what people call it, the unit in which it is shown, and the factor to that unit"""
STATISTICS = ("q05", "median", "q95")
_NAMES = 11  # columns for the name of a row


def radio_lines(summary: Summary, page: str) -> list[str]:
    """The result of a radio study, a line each: samples, quantiles, handovers; `page` is where all details are."""
    rows = [("samples", samples_text(summary))]
    rows += [(SHOWN[name][0], quantile_text(summary, name)) for name in SHOWN]
    rows += [("handovers", handover_text(summary)), ("page", page)]
    return [*radio_warnings(summary), *(f"{name:<{_NAMES}}{text}" for name, text in rows if text)]


def samples_text(summary: Summary) -> str:
    """How much was sampled, and where."""
    n, indoor, los = (summary.get(key.of()) for key in (keys.RADIO_SAMPLES, keys.RADIO_INDOOR, keys.RADIO_LOS))
    text = f"{counted(n or 0, 'sample')} of {counted(summary.get(keys.UES_COUNT.of()) or 0, 'UE')}"
    if indoor is not None:
        text += f", {indoor:.3g} % indoors"
    return text + ("" if los is None else f", {los:.3g} % in line of sight")


def values_of(summary: Summary, name: str, selection: str = "all") -> list[float] | None:
    """5 %, 50 % and 95 % quantiles of a quantity in the unit in which it is shown; None where there are none."""
    of = "" if selection == "all" else f"{selection}."
    values = [summary.get(f"radio.{name}.{of}{statistic}") for statistic in STATISTICS]
    return None if any(v is None for v in values) else [SHOWN[name][2] * v for v in values if v is not None]


def quantile_text(summary: Summary, name: str) -> str:
    """Median and spread of a quantity, and its medians indoors and outdoors; empty where there is none."""
    values, unit = values_of(summary, name), SHOWN[name][1]
    if values is None:
        return ""
    low, median, high = map(figure_text, values)
    text = f"median {median} {unit}, {low} to {high} {unit} from 5 % to 95 %"
    inner = [(s, values_of(summary, name, s)) for s in ("indoor", "outdoor")]
    medians = [f"{s} {figure_text(of[1])}" for s, of in inner if of is not None]
    return text + (f" (median {', '.join(medians)})" if medians else "")


def handover_text(summary: Summary) -> str:
    """How many handovers there were; that they are not modelled where they are not."""
    number, rate = summary.get(keys.HANDOVER_COUNT.of()), summary.get(keys.HANDOVER_RATE.of())
    if number is None:
        return "not modelled: every UE is served by its strongest cell"
    return f"{number:,}" + ("" if rate is None else f", {figure_text(rate)} a UE and hour")


def radio_warnings(summary: Summary) -> list[str]:
    """Warnings of results that mean little."""
    if summary.get(keys.RADIO_SAMPLES.of()):
        return []
    return ["WARNING: no UE was ever present, so nothing was received; let the world last longer"]
