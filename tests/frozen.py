"""List all that the program can do: `python -m tests.frozen` prints it; `--against FILE` what came
and what went.

Kinds of parts and their keys, keys of scenarios, commands and options, tables and columns of
records, keys of summaries: a line each, sorted. `tests/frozen.txt` is the list of version 0.7.0,
before the house was made smaller; what is missing since stands in docs/changelog.md with its
reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_ext"))

KEPT = Path(__file__).with_name("frozen.txt")


def offered() -> list[str]:
    """All lines, sorted."""
    return sorted({*_parts(), *_sections(), *_commands(), *_columns(), *_keys()})


def missing(old: list[str], new: list[str]) -> list[str]:
    """Lines of `old` that `new` lacks; below a line that is missing itself, none."""
    removed = set(old) - set(new)
    return sorted(
        line for line in removed if not any(line.startswith(f"{above} ") for above in removed)
    )


def _parts() -> Iterator[str]:
    from scenarios.app.study.describe import find_nested_models
    from scenarios.app.study.slots import SLOTS

    for slot, slot_parts in SLOTS.items():
        for kind, part in slot_parts.parts.items():
            yield f"kind {slot} {kind}"
            for key, field in part.model_fields.items():
                yield f"kind {slot} {kind} {key}"
                for inner, _ in find_nested_models(field):
                    yield from (f"kind {slot} {kind} {key} {name}" for name in inner.model_fields)


def _sections() -> Iterator[str]:
    from scenarios.app.study.describe import walk_sections
    from scenarios.app.study.study import Study

    for path, model in walk_sections(Study, ""):
        yield from (f"key {f'{path}.{name}'.lstrip('.')}" for name in model.model_fields)


def _commands() -> Iterator[str]:
    from scenarios.app.cli.commands import build_parser

    (commands,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        yield f"command {name}"
        for action in command._actions:
            yield (
                f"command {name} {max(action.option_strings, key=len, default=action.dest.upper())}"
            )


def _columns() -> Iterator[str]:
    from scenarios.app.results.folder import EVERY

    for table, columns in EVERY.items():
        yield f"table {table}"
        yield from (f"table {table} {column}" for column in columns)


def _keys() -> Iterator[str]:
    from scenarios.app.results.summary_keys import KEYS

    yield from (f"summary {measure.key}" for measure in KEYS)


def main() -> None:
    """Print the list, or the differences from another one."""
    options = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    options.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        nargs="?",
        const=KEPT,
        help="default: tests/frozen.txt",
    )
    against = options.parse_args().against
    current = offered()
    if against is None:
        print("\n".join(current))
        return
    old = against.read_text().splitlines()
    print(
        "\n".join(
            [
                *(f"- {line}" for line in missing(old, current)),
                *(f"+ {line}" for line in missing(current, old)),
            ]
        )
    )


if __name__ == "__main__":
    main()
