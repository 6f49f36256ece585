"""The command `netsim`: its commands are rows of commands.toml. The function of a command is
imported when it runs.
"""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name

from netsim import __version__, compiled
from netsim.errors import BadInput, RunsFailed, squeeze_text
from netsim.safe import keep_lock
from scenarios.app.cli.options import (
    BAD_INPUT,
    DONE,
    FAILED,
    INTERRUPTED,
    Command,
    Parser,
    Unwritable,
    add_option,
    complain,
    emit,
    say,
    write_stream,
)
from scenarios.app.run import events
from scenarios.app.study import Fields

_TABLE = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
START: str = _TABLE["start"]
"""what to type first"""
COMMANDS = {one["name"]: Command(**one) for one in _TABLE["command"]}


def build_parser() -> Parser:
    """Return the parser of all commands and their options."""
    top = Parser(
        prog="netsim",
        description=(
            "Measure how much location data federated learning leaks over a mobile network, and "
            "what defenses cost."
        ),
        epilog=(
            "Exit codes: 0 done, 2 bad input, 1 unexpected failure, failed runs or a rerun that "
            "differs, 130 interrupted (repeat the command to resume)."
        ),
    )
    top.add_argument("--version", action="version", version=f"netsim {__version__}")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser
    )
    for command in COMMANDS.values():
        subparser = commands.add_parser(command.name, help=command.help)
        for option in _expand_options(command.options):
            add_option(subparser, **option)
    return top


def _expand_options(entries: Sequence[str | Fields]) -> Iterator[Fields]:
    for entry in entries:
        if isinstance(entry, str):
            shared = _TABLE["shared"][entry]
            yield from _expand_options(shared if isinstance(shared, list) else [shared])
        else:
            yield entry


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code and never lets a traceback through."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        events.listen()
        if not {"--json", "--quiet"}.isdisjoint(words):
            compiled.tell = lambda _: None
        _check_words(words)
        try:
            if not words:
                say(START)
                return DONE
            args = build_parser().parse_args(words)
            _check_folder()
            with keep_lock():
                code = resolve_name(f"scenarios.app.cli.{COMMANDS[args.command].main}")(args)
        finally:  # also where the parser leaves, which has printed its help
            write_stream("", sys.stdout, flush=True)
        return int(code or DONE)
    except Unwritable as error:
        complain(error.lines)
        return BAD_INPUT
    except BadInput as error:
        return _report_end(error.lines, BAD_INPUT, words)
    except KeyboardInterrupt:
        return _report_interrupt(words)
    except (
        UnicodeEncodeError
    ) as error:  # of a name of a file: `write_stream` escapes what a stream cannot show
        return _report_end(
            [
                f"{error.object!r}: the encoding of this locale, {error.encoding}, has no such "
                "characters; set LC_ALL=C.UTF-8"
            ],
            BAD_INPUT,
            words,
        )
    except RunsFailed as error:
        return _report_end([str(error)], FAILED, words)
    except Exception as error:
        if (
            events.was_interrupted()
        ):  # foreign code that was interrupted, and gave the interruption another name
            return _report_interrupt(words)
        text = squeeze_text(error, 200)
        return _report_end(
            [f"unexpected failure ({type(error).__name__}: {text}){_write_log(error)}"],
            FAILED,
            words,
        )


def _check_words(words: Sequence[str]) -> None:
    """Refuse words that are no text: results carry the command and its names, which could not be
    written down.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadInput(
                f"{word}: is not valid UTF-8; "
                "give the file or folder another name, or set LC_ALL=C.UTF-8 where it has one"
            ) from None


def _check_folder() -> None:
    """Refuse to work in a folder that is gone: no relative path leads anywhere."""
    try:
        Path.cwd()
    except OSError as error:
        raise BadInput(
            f"the working folder is gone ({error.strerror}); go to another one by cd"
        ) from None


def _write_log(failure: Exception) -> str:
    """Return where the log of a failure lies, after the last line in a plug-in that it passed."""
    try:
        # a failure needs these two, no command does; no file may be left to open for them either
        import tempfile
        import traceback

        text = "".join(traceback.format_exception(failure))
        with tempfile.NamedTemporaryFile(prefix="netsim-", suffix=".log", delete=False) as log:
            log.write(text.encode("utf-8", "backslashreplace"))
        from netsim.part import describe_plugin_line
    except OSError as error:
        return f"; its details cannot be written ({error.strerror})"
    return f"{describe_plugin_line(text)}; details in {log.name}"


def _report_interrupt(words: Sequence[str]) -> int:
    events.ignore_signals()
    return _report_end(
        ["interrupted; the same command goes on where it stopped"], INTERRUPTED, words
    )


def _report_end(lines: Sequence[str], code: int, words: Sequence[str]) -> int:
    """Say why a command ended before it was done: with `--json` as its last event on stdout, else
    on stderr.
    """
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
