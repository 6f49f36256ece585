"""The commands `netsim new`, `validate`, `list` and `schema`: scenario files, and what may stand in them."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from pathlib import Path

from netsim.errors import BadInput, one_line
from scenarios.app.cli.options import overrides_of
from scenarios.app.cli.output import WIDTH, say, table
from scenarios.app.study.load import Scenario, bundled, file_fields, find, title_of
from scenarios.app.study.yaml_document import file_text, read

BEGINNING = Path(__file__).with_name("beginning.yaml")
NEXT = """\
{0}: written; edit it, then
  netsim validate {0}  one line per mistake, with its place in the file
  netsim run {0}       play it, and draw its page
  netsim list learner  every key of a part with its unit and bounds"""


def new(args: argparse.Namespace) -> None:
    """Write a scenario file to begin with, and print what comes next."""
    path = Path(args.name if args.name.endswith((".yaml", ".yml")) else f"{args.name}.yaml")
    if path.name in (".yaml", ".yml") or not path.name.isprintable():
        raise BadInput(f"new {args.name!r}: give the name of a file, such as mine")
    text = _copy(args.source) if args.source else BEGINNING.read_text().replace("NAME -", f"{path.stem} -", 1)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path}: exists; give another name, or move it away") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror}); give another name") from None
    say(NEXT.format(path))


def _copy(source: str) -> str:
    """The text of a scenario; names of files in it lead to the same files from anywhere."""
    path = find(source)
    document, lines = read(path), file_text(path).splitlines()
    for place in file_fields(document.data):
        value = document.value(place)
        if not value.startswith(("$", "/")):
            at = document.line(place) - 1
            lines[at] = lines[at].replace(value, str((path.parent / value).resolve()))
    return "\n".join(lines) + "\n"


def validate(args: argparse.Namespace) -> None:
    """Check the scenario, and every point of its sweep."""
    from scenarios.app.run.setup import check
    from scenarios.app.run.sweep import check_prepared, checked_points

    overrides, scenario = overrides_of(args), Scenario(args.scenario)
    study = scenario.study(overrides)
    points = [] if study.vary is None else checked_points(args.scenario, study, overrides)
    with scenario.placed(overrides):
        warnings = check(study, args.all)
    warnings = (*warnings, *check_prepared(args.scenario, points, args.all))
    more = f"; a sweep of it has {len(points):,} runs" if len(points) > 1 else ""
    say(f"{args.scenario}: valid ({one_line(study.title)}){more}")
    for text in dict.fromkeys(warnings):
        say(f"warning: {text}")


def schema(args: argparse.Namespace) -> None:
    """Print the JSON schema of scenario files."""
    from scenarios.app.study.describe import json_schema
    from scenarios.app.study.study import Study

    say(json.dumps(json_schema(Study), indent=1))


def list_parts(args: argparse.Namespace) -> None:
    """Print slots and bundled scenarios, the parts of a slot or of a kind, or the matrix."""
    from scenarios.app.study.describe import keys_of, title_of_part
    from scenarios.app.study.error_messages import nearest
    from scenarios.app.study.slots import SLOTS, matrix_text

    for one_of in SLOTS.values():
        one_of.check()
    if args.matrix:
        say(matrix_text(shutil.get_terminal_size((100, 24)).columns))
        return
    if args.slot is None:
        say(table(("", ""), [(name, ", ".join(slot.parts)) for name, slot in SLOTS.items()], left=2))
        say("\nbundled scenarios:")
        say(table(("", ""), [(f"  {name}", title_of(path)) for name, path in bundled().items()], left=2))
        return
    names = [(slot, kind) for slot, one_of in SLOTS.items() for kind in one_of.parts]
    found = [(slot, kind) for slot, kind in names if args.slot in (slot, kind)]
    if not found:
        near = nearest(args.slot, [*SLOTS, *dict.fromkeys(kind for _, kind in names)])
        raise BadInput(f"list: no slot and no kind {args.slot!r}{near}; slots are: {', '.join(SLOTS)}")
    for slot, kind in found:
        part = SLOTS[slot].parts[kind]
        say("\n".join(textwrap.wrap(f"{slot} {kind}: {title_of_part(part)}", WIDTH)))
        say(table(("", ""), [(f"  {key}", text) for key, text in keys_of(part)], left=2) + "\n")
