"""The command `netsim list`: slots and their parts, bundled scenarios, what fits together, columns and keys."""

from __future__ import annotations

import argparse
import shutil

from netsim.errors import BadInput
from scenarios.app.cli.options import Commands
from scenarios.app.cli.output import say


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("list", help="list slots, parts and bundled scenarios; or what fits together")
    command.add_argument(
        "slot", nargs="?", metavar="NAME",
        help="a slot, whose parts are shown with their parameters, or a kind of part of any slot (default: all slots)",
    )  # fmt: skip
    command.add_argument("--matrix", action="store_true", help="which combinations are legal, and why not")
    command.add_argument("--records", action="store_true", help="every column and key of a run folder")
    command.add_argument("--csv", action="store_true", help="with --matrix: every combination, one a line")


def main(args: argparse.Namespace) -> None:
    """Print what was asked for."""
    from scenarios.app.study.describe import list_kind, list_slot, list_slots, list_titles
    from scenarios.app.study.error_messages import nearest
    from scenarios.app.study.slots import SLOTS

    for flag, asked in (("--matrix", args.matrix), ("--records", args.records)):
        if asked and args.slot is not None:
            raise BadInput(f"list: {flag} is of all slots together; leave out {args.slot!r}, or {flag}")
    for one_of in SLOTS.values():
        one_of.check()
    if args.matrix:
        from scenarios.app.study.compatibility import matrix_csv, matrix_text

        say(matrix_csv() if args.csv else matrix_text(shutil.get_terminal_size((100, 24)).columns))
    elif args.records:
        from scenarios.app.cli.records_page import records_page

        say(records_page(), end="")
    elif args.slot is None:
        from scenarios.app.study.load import bundled, title_of

        say(list_slots(SLOTS))
        say(f"\nbundled scenarios:\n{list_titles({name: title_of(path) for name, path in bundled().items()})}")
    elif args.slot in SLOTS:
        say(list_slot(args.slot, SLOTS[args.slot]))
    elif any(args.slot in one_of.parts for one_of in SLOTS.values()):
        say(list_kind(args.slot, SLOTS))
    else:
        names = [*SLOTS, *dict.fromkeys(kind for one_of in SLOTS.values() for kind in one_of.parts)]
        raise BadInput(
            f"list: no slot and no kind {args.slot!r}{nearest(args.slot, names)}; slots are: {', '.join(SLOTS)}"
        )
