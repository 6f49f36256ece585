"""The command `netsim show`: what a finished folder says, as the command that made it said it."""

from __future__ import annotations

import argparse
from pathlib import Path


def main(args: argparse.Namespace) -> None:
    """Print it; where it is not finished, how to go on."""
    from scenarios.app.cli.outcome import tell_outcome
    from scenarios.app.cli.report import open_page

    tell_outcome(Path(args.folder), args)
    open_page(Path(args.folder), args)
