"""What a run holds for: its settings, and what its radio models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.report.html import Chapter, card, facts, folded
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.named_text import without_home_text
from scenarios.app.results.run import Run, clock_of, part
from scenarios.app.results.statistics import counted, span_text
from scenarios.app.study.dump import as_yaml

MOST_WARNINGS = 6


def configuration(run: Run, pairs: Mapping[str, str]) -> Chapter:
    """Settings, channel card and the whole scenario; last on a page."""
    rows, left_out = card_rows(run.manifest)
    channel = card("Channel card: what the radio models, and what it does not", rows, left_out)
    study = folded("The whole scenario, with every default", as_yaml(run.study))
    return Chapter("configuration", "Configuration", [facts(pairs), channel, study])


def run_facts(run: Run) -> dict[str, str]:
    """The settings of the run, without those on the channel card."""
    manifest, study = run.manifest, run.study
    world, learning = part(study, "world"), part(study, "learning")
    threat = part(learning, "threat")
    played, empty, held_out, ues = (
        run.summary.get(k.of()) for k in (keys.ROUNDS_PLAYED, keys.ROUNDS_EMPTY, keys.ROUNDS_HELD_OUT, keys.UES_COUNT)
    )
    silent = f" ({held_out} without updates: all their data held out)" if held_out else ""
    return {
        "seed": str(manifest.get("seed")),
        "command": str(manifest.get("command") or "not recorded"),
        "simulated span": period(manifest),
        "rounds": f"{played} played{silent}, {empty} without data; one every {span_text(manifest.get('round_s'))}",
        "UEs": f"{ues}, mobility {part(world, 'ues', 'mobility').get('kind')}",
        **({"UEs without a home": none} if (none := without_home_text(run.summary)) else {}),
        "power": _part_text(study.get("power")),
        **({} if part(manifest, "channel_card") else _radio_facts(run)),
        **_availability_facts(learning),
        **({"withheld on devices": _part_text(learning["withholding"])} if learning.get("withholding") else {}),
        "data": _part_text(learning.get("data")),
        "learner": _part_text(learning.get("learner")),
        "curation": _part_text(learning.get("curation")),
        "defenses": _part_text(learning.get("defenses")),
        "aggregation": f"{_part_text(learning.get('aggregation'))}; server optimiser "
        f"{_part_text(learning.get('server_optimiser'))}; query policy {_part_text(learning.get('query'))}",
        "threat": f"{threat.get('viewpoint')}, sees {threat.get('sees')}",
        **trace_facts(manifest.get("trace")),
        "versions": ", ".join(f"{k} {v}" for k, v in part(manifest, "versions").items()),
    }


def _availability_facts(learning: Mapping[str, Any]) -> dict[str, str]:
    """Which UEs may be asked, where that is not everybody at any time."""
    text = _part_text(learning.get("availability"))
    return {} if text in ("always", "none") else {"availability": text}


def _radio_facts(run: Run) -> dict[str, str]:
    """The radio of the study, for a run without a channel card."""
    parts = part(run.study, "world", "radio")
    shown = {"path loss": "path_loss", "shadowing": "shadowing", "uplink": "uplink"}
    return {"base stations": str(len(run.stations))} | {what: _part_text(parts.get(key)) for what, key in shown.items()}


def card_rows(manifest: Mapping[str, Any]) -> tuple[list[tuple[str, str]], str]:
    """Aspects and how they are modelled; and what is not."""
    aspects = {str(k): str(v) for k, v in part(manifest, "channel_card").items()}
    rest = aspects.pop("not modelled", "")
    left_out = [k for k, v in aspects.items() if v == "not modelled"]
    rows = [(k, v) for k, v in sorted(aspects.items(), key=_card_order) if k not in left_out]
    return rows, ", ".join([*left_out, *([rest] if rest else [])])


_CARD = (
    "carrier", "base stations", "path loss", "line of sight", "shadowing", "small-scale fading", "RSRP measurement",
    "serving cell", "presence", "uplink", "rate", "transmissions", "noise", "uplink interference", "downlink",
    "training", "delay and energy",
)  # fmt: skip


def _card_order(row: tuple[str, str]) -> tuple[int, str]:
    """From the carrier to the uplink; aspects unknown here come last, by name."""
    return (_CARD.index(row[0]) if row[0] in _CARD else len(_CARD)), row[0]


def run_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """The first warnings of the run."""
    said = manifest.get("warnings")
    texts = [str(text) for text in said] if isinstance(said, list) else []
    more = len(texts) - MOST_WARNINGS
    return [*texts[:MOST_WARNINGS], *([f"{counted(more, 'more warning')} in manifest.json"] if more > 0 else [])]


def trace_facts(trace: Any) -> dict[str, str]:
    """What the manifest says of a trace; nothing without one."""
    if not isinstance(trace, dict):
        return {}
    counts = ", ".join(f"{k} {v}" for k, v in part(trace, "counts").items() if v)
    notes = "; ".join(map(str, trace.get("notes") or ()))
    return {"trace": f"{counts}; time zone {trace.get('timezone')}", "notes on the trace": notes or "none"}


def period(manifest: Mapping[str, Any]) -> str:
    """First and last moment of a run."""
    clock = clock_of(manifest)
    return f"{clock.text(0.0)} to {clock.text(manifest['duration_s'])}"


def _part_text(of: Any) -> str:
    """A part, or a list of parts, with its parameters in a line."""
    if isinstance(of, list):
        return "; ".join(map(_part_text, of)) or "none"
    if not isinstance(of, dict):
        return "none" if of is None else str(of)
    rest = ", ".join(f"{k} {v}" for k, v in of.items() if k != "kind" and v is not None)
    return f"{of.get('kind')}" + (f" ({rest})" if rest else "")
