"""The command `netsim`. A command imports what it needs only when it runs."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback

from netsim import __version__
from netsim.errors import BadInput, Interrupted
from scenarios.app.cli import (
    claims,
    epsilon,
    export,
    inspect,
    listing,
    replay,
    report,
    run,
    schema,
    sweep,
    train,
    validate,
)
from scenarios.app.cli.options import BAD_INPUT, DONE, FAILED, INTERRUPTED, Parser
from scenarios.app.cli.output import complain, say
from scenarios.app.run import signals

COMMANDS = {
    "run": run, "replay": replay, "sweep": sweep, "train": train, "validate": validate, "list": listing,
    "inspect": inspect, "report": report, "export": export, "claims": claims, "epsilon": epsilon,
    "schema": schema,
}  # fmt: skip


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(
        prog="netsim",
        description="What does federated training over a mobile network give away about where its users are, "
        "what does hiding it cost, and how does the radio change the answer?",
        epilog="Exit codes: 0 done, 2 bad input, 1 unexpected failure, 130 interrupted (start again to go on).",
    )
    top.add_argument("--version", action="version", version=f"netsim {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS.values():
        command.add(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code and never lets a traceback through."""
    args = parser().parse_args(arguments)
    try:
        signals.listen()
        COMMANDS[args.command].main(args)
        sys.stdout.flush()
    except BadInput as error:
        complain(error.lines)
        return BAD_INPUT
    except KeyboardInterrupt:
        signals.ignore()
        say("netsim: interrupted; the same command goes on where it stopped", errors=True)
        return INTERRUPTED
    except Interrupted as error:
        say(f"netsim: {error}", errors=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        with tempfile.NamedTemporaryFile("w", prefix="netsim-", suffix=".log", delete=False) as log:
            log.write(traceback.format_exc())
        text = " ".join(str(error).split())[:200]
        say(f"netsim: unexpected failure ({type(error).__name__}: {text}); details in {log.name}", errors=True)
        return FAILED
    return DONE


if __name__ == "__main__":
    sys.exit(main())
