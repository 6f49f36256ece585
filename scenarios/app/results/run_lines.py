"""The result of one finished run for a terminal: its main lines, or all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netsim.channel_card import card_lines
from netsim.errors import BadInput
from scenarios.app.results.columns import COLUMNS, fitted
from scenarios.app.results.folder import MANIFEST, read_json, read_summary
from scenarios.app.results.radio_text import radio_lines
from scenarios.app.results.read import checked_table
from scenarios.app.results.summary_text import full_text, short_text
from scenarios.app.results.tables import RADIO_STUDY
from scenarios.app.study.yaml_document import one_line

_NEEDED: dict[str, type] = {"title": str, "seed": int, "warnings": list, "channel_card": dict, "timing": dict}


def run_lines(folder: Path, page: str, verbose: bool = False) -> list[str]:
    """Seed and title, which go on a heading; then warnings and the result. `page`: where all details are."""
    manifest, summary = checked_manifest(folder), read_summary(folder)
    card = card_lines(manifest["channel_card"]) if verbose else []
    if manifest.get("kind") == RADIO_STUDY:
        lines = [*card, *radio_lines(summary, page)]
    elif verbose:
        account = checked_table(folder, "privacy")
        lines = [*card, *full_text(summary, account), f"records in {folder}, page in {page}"]
    else:
        lines = short_text(summary, checked_table(folder, "privacy"), page)
    if peak := manifest["timing"].get("peak_memory_gb"):
        lines.insert(-1, f"memory     peak {peak} GB")
    warnings = [f"warning: {text}" for text in manifest["warnings"]]
    heading = f" (seed {manifest['seed']}): {one_line(manifest['title'])}"
    return [heading, *fitted([*warnings, *lines], COLUMNS - 2)]


def checked_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run, with what its lines are made of."""
    manifest = read_json(folder / MANIFEST)
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(manifest.get(name), kind)]
    if wrong:
        raise BadInput(one_line(f"{folder / MANIFEST}: {wrong[0]} is missing or damaged; run the study again"))
    return manifest
