"""A summary in words: the short result that a run prints, and the full text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks, audits
from scenarios.app.results.columns import COLUMNS
from scenarios.app.results.linking_text import (
    best_linking_text,
    identifiers,
    identity_text,
    linkers,
    linking_text,
)
from scenarios.app.results.lists import list_text
from scenarios.app.results.location_text import (
    attack_text,
    baseline_lines,
    location_text,
    positions_text,
    user_distance_lines,
)
from scenarios.app.results.membership_text import audit_text, membership_text
from scenarios.app.results.model_text import classifies, model_text
from scenarios.app.results.named_text import best_densest_text, best_named_text, without_home_text
from scenarios.app.results.privacy_text import Account, privacy_text, spent_text
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_values import by_name, number_text, text_of, value_of
from scenarios.app.results.summary_warnings import warnings
from scenarios.app.results.tracking_text import best_tracking_text, trackers, tracking_text
from scenarios.app.results.uplink_text import eavesdropper_lines, uplink_text
from scenarios.app.results.uploads_text import merges_text, uploads_text
from scenarios.app.results.withheld_text import refusal_lines, withheld_lines, withheld_text

_NAMES = 11  # columns for the name of a row


def short_text(summary: Mapping[str, Any], account: Account, page: str) -> list[str]:
    """The result in a table of a few rows: is the model useful, what was found, and what noise was spent.

    Warnings stand above it. `page` is where all details are.
    """
    rows = [
        ("rounds", _rounds(summary)),
        ("model", model_text(summary)),
        ("location", location_text(summary)),
        ("positions", positions_text(summary)),
        ("named", best_named_text(summary)),
        ("densest", best_densest_text(summary)),
        ("list", list_text(summary)),
        ("tracking", best_tracking_text(summary)),
        ("linking", best_linking_text(summary)),
        ("withheld", withheld_text(summary)),
        ("uplink", uplink_text(summary)),
        ("uploads", uploads_text(summary)),
        ("merges", merges_text(summary)),
        ("membership", membership_text(summary)),
        ("privacy", privacy_text(summary, account)),
        ("page", page),
    ]
    lines = list(warnings(summary))
    for name, text in rows:
        if text:
            first, *rest = textwrap.wrap(text, COLUMNS - 2 - _NAMES, break_long_words=False, break_on_hyphens=False)
            lines += [f"{name:<{_NAMES}}{first}", *(f"{'':<{_NAMES}}{line}" for line in rest)]
    return lines


def full_text(summary: Mapping[str, Any], account: Account | None = None) -> list[str]:
    """Everything that a summary says, a line each: utility, uplink, attacks, baselines, privacy; `-` for no value.

    account : None where it is not known.
    """
    lines = [_rounds(summary), f"model: {model_text(summary)}", *warnings(summary)]
    lines += [*refusal_lines(summary), *withheld_lines(summary), *filter(None, [without_home_text(summary)])]
    sent = {"uplink": uplink_text(summary), "uploads": uploads_text(summary), "merges": merges_text(summary)}
    lines += [
        *(f"{what}: {text}" for what, text in sent.items() if text),
        *(attack_text(summary, name) for name in attacks(summary)),
        *filter(None, [list_text(summary)]),
        *(f"tracking: {tracking_text(summary, name)}" for name in trackers(summary)),
        *(f"linking: {linking_text(summary, name)}" for name in linkers(summary)),
        *(f"linking: {identity_text(summary, name)}" for name in identifiers(summary)),
        *baseline_lines(summary),
    ]
    lines += [*user_distance_lines(summary), *eavesdropper_lines(summary)]
    lines += [audit_text(summary, name) for name in audits(summary)]
    lines += [
        f"privacy: {name} spent epsilon {number_text(value)} per metre (all locations of a UE summed)"
        for name, value in by_name(summary, keys.EPSILON_PER_M_MAX)
    ]
    return lines + ([] if account is None else spent_text(account, classifies(summary)))


def _rounds(summary: Mapping[str, Any]) -> str:
    """How much was played."""
    samples = "sample" if classifies(summary) else "measurement"
    ues = counted(value_of(summary, keys.UES_COUNT), "UE")
    aside = (("without data", keys.ROUNDS_EMPTY), ("without updates: all their data held out", keys.ROUNDS_HELD_OUT))
    stopped = ["the next would have exceeded learning.privacy_budget"] if value_of(summary, keys.ROUNDS_STOPPED) else []
    told = ", ".join([*stopped, *(f"{n} {what}" for what, key in aside if (n := value_of(summary, key)))])
    return (
        f"{counted(value_of(summary, keys.ROUNDS_PLAYED), 'round')}{f' ({told})' if told else ''}, "
        f"{counted(value_of(summary, keys.SAMPLES_COUNT), samples)} of {ues}, "
        f"{text_of(summary, keys.UPDATES_DECODED)} % of updates decoded"
    )
