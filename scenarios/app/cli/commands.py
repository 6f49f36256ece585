"""The command `netsim`. A command imports what it needs only when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from netsim import __version__
from netsim.errors import BadInput, Interrupted, RunsFailed
from scenarios.app.cli import (
    claims,
    compare,
    epsilon,
    export,
    import_policy,
    inspect,
    listing,
    new,
    replay,
    report,
    rerun,
    run,
    schema,
    show,
    sweep,
    train,
    tune,
    validate,
)
from scenarios.app.cli.options import BAD_INPUT, DONE, FAILED, INTERRUPTED, Parser
from scenarios.app.cli.output import Unwritable, complain, emit, write
from scenarios.app.run import signals

COMMANDS = {
    "run": run, "replay": replay, "sweep": sweep, "train": train, "tune": tune, "show": show, "report": report,
    "compare": compare, "rerun": rerun, "export": export, "new": new, "validate": validate, "list": listing,
    "inspect": inspect, "claims": claims, "import-policy": import_policy,
    "epsilon": epsilon, "schema": schema,
}  # fmt: skip


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(
        prog="netsim",
        description="What does federated training over a mobile network give away about where its users are, "
        "what does hiding it cost, and how does the radio change the answer?",
        epilog="Exit codes: 0 done, 2 bad input, 1 unexpected failure, failed runs or a rerun that differs, 130 "
        "interrupted (start again to go on).",
    )
    top.add_argument("--version", action="version", version=f"netsim {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS.values():
        command.add(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code and never lets a traceback through."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        signals.listen()
        _check_words(words)
        try:
            args = parser().parse_args(words)
            code = COMMANDS[args.command].main(args)
        finally:  # also where the parser leaves, which has printed its help
            write("", sys.stdout, flush=True)
        return DONE if code is None else int(code)
    except Unwritable as error:
        complain(error.lines)
        return BAD_INPUT
    except BadInput as error:
        return _ended(error.lines, BAD_INPUT, words)
    except KeyboardInterrupt:
        return _interrupted(words)
    except Interrupted as error:
        return _ended([str(error)], INTERRUPTED, words)
    except RunsFailed as error:
        return _ended([str(error)], FAILED, words)
    except Exception as error:
        if signals.told():  # foreign code that was interrupted, and gave the interruption another name
            return _interrupted(words)
        text, details = " ".join(str(error).split())[:200], _details(error)
        return _ended([f"unexpected failure ({type(error).__name__}: {text}); {details}"], FAILED, words)


def _check_words(words: Sequence[str]) -> None:
    """Refuse words that are no text: results carry the command and its names, which could not be written down."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadInput(f"{word}: is not valid UTF-8; give the file or folder another name") from None


def _details(failure: Exception) -> str:
    """Where the details of a failure lie now."""
    try:
        import tempfile  # a failure needs these two, no command does; no file may be left to open for them either
        import traceback

        with tempfile.NamedTemporaryFile("w", prefix="netsim-", suffix=".log", delete=False) as log:
            log.writelines(traceback.format_exception(failure))
    except OSError as error:
        return f"its details cannot be written ({error.strerror})"
    return f"details in {log.name}"


def _interrupted(words: Sequence[str]) -> int:
    """Leave as one is asked to by a signal."""
    signals.ignore()
    return _ended(["interrupted; the same command goes on where it stopped"], INTERRUPTED, words)


def _ended(lines: Sequence[str], code: int, words: Sequence[str]) -> int:
    """Say why a command ended before it was done: with `--json` as its last event on stdout, else on stderr."""
    try:
        if "--json" in words:
            emit({"event": "error", "lines": list(lines), "exit_code": code})
        else:
            complain(lines)
    except Unwritable:
        complain(lines)
    return code


if __name__ == "__main__":
    sys.exit(main())
