"""What a sweep says of the attackers that were tuned for its rows."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import read_json
from scenarios.app.results.read import SWEEP
from scenarios.app.results.shown import COLUMNS
from scenarios.app.study.yaml_document import one_line

HEAD = ("variant", "attack", "settings", "goal", "adapted", "second", "as written", "refused")
"""of a row: what the attacker reached on the seed of tuning, beside the best of another kind and the best as written"""
_LINE = "{variant}: {attack} {settings}: {goal} {adapted}, second {second}, as written {as written}; refused: {refused}"


def read_adapted(folder: Path) -> tuple[list[dict[str, str]], str]:
    """The row of each variant of a sweep by `HEAD`, and how to read them; nothing where no attacker was tuned."""
    said: Any = read_json(folder / SWEEP).get("adapted") if what_is(folder / SWEEP) else None
    try:
        return ([{key: str(row[key]) for key in HEAD} for row in said["rows"]], str(said["note"])) if said else ([], "")
    except (KeyError, TypeError) as error:
        raise BadInput(one_line(f"{folder / SWEEP}: damaged ({error!r}); start the sweep again")) from None


def adapted_lines(folder: Path) -> list[str]:
    """For the terminal: how attackers were tuned, then each."""
    rows, note = read_adapted(folder)
    lines = [one_line(line) for line in (note, *(_LINE.format(**row) for row in rows))]
    return [
        part
        for line in lines
        for part in textwrap.wrap(line, COLUMNS - 2, subsequent_indent="  ", break_on_hyphens=False)
    ]
