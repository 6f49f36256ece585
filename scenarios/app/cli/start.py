"""Where the program `netsim` begins: an interrupt ends it in the same way while commands are still being imported."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run a command; returns its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what batch systems send; else it ends without a word
    try:
        from scenarios.app.cli.commands import main as command
        from scenarios.app.run import signals
    except KeyboardInterrupt:
        sys.stderr.write("netsim: interrupted; the same command goes on where it stopped\n")
        return 130
    code = command()
    signals.ignore()  # there is nothing left to interrupt
    return code
