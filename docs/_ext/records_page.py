"""Every column of records and every key of summaries in Markdown, from their declarations."""

from __future__ import annotations

import re

from scenarios.app.results import summary_keys
from scenarios.app.results.folder import EVERY
from scenarios.app.results.summary_keys import KEYS
from scenarios.app.study import SCHEMA_VERSION


def tables_page() -> str:
    """Return Markdown of the columns of every table."""
    lines = [
        "# Tables of a run",
        "",
        f"Schema {SCHEMA_VERSION}. A table without rows has no file.",
        "",
    ]
    for table, columns in EVERY.items():
        lines += [f"## {table}.csv", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{name}` | {c.type} | {c.unit} | {_cell(c.meaning)} |"
            for name, c in columns.items()
        ] + [""]
    return "\n".join(lines)


def keys_page() -> str:
    """Return Markdown of every key of `summary.json`."""
    lines = [
        "# Keys of summary.json",
        "",
        *_grammar(),
        "",
        "| key | unit | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{key.key}` | {key.unit} | {_cell(key.says)} |" for key in KEYS]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return text.replace("|", "\\|")


def _grammar() -> list[str]:
    """How keys are built, from the docstring of their module."""
    rule, parts, rest = str(summary_keys.__doc__).strip().split("\n\n")[1:4]
    entries = re.findall(r"^([A-Z]+)\s+(.*(?:\n\s+.*)*)", parts, flags=re.M)
    pattern = rule.removeprefix("A key is ").rstrip(":")
    terms = [f"- `{name}`: {' '.join(text.split())}" for name, text in entries]
    return [f"A key is `{pattern}`:", "", *terms, "", " ".join(rest.split())]
