"""Where the program `netsim` begins: an interrupt ends it in the same way while commands are still being imported."""

from __future__ import annotations

import sys


def main() -> int:
    """Run a command; returns its exit code."""
    try:
        from scenarios.app.cli.commands import main as command
    except KeyboardInterrupt:
        sys.stderr.write("netsim: interrupted; the same command goes on where it stopped\n")
        return 130
    return command()
