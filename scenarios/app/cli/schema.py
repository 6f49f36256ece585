"""The command `netsim schema`: the JSON schema of scenario files."""

from __future__ import annotations

import argparse

from scenarios.app.cli.options import Commands
from scenarios.app.cli.output import say


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """It has no arguments."""
    commands.add_parser("schema", help="print the JSON schema of scenario files, for editors")


def main(args: argparse.Namespace) -> None:
    """Print the schema."""
    import json

    from scenarios.app.study.describe import json_schema
    from scenarios.app.study.study import Study

    say(json.dumps(json_schema(Study), indent=1))
