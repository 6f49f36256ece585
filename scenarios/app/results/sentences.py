"""Sentences of results: the macros of sentences.txt, as functions that return text."""

from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

from netsim.errors import format_count, to_one_line
from scenarios.app.results.statistics import format_figure


@cache
def read_sentences() -> Any:
    """Read the macros, which are called as methods of what is returned."""
    from jinja2 import Environment, PackageLoader  # here, since it loads for long

    from scenarios.app.results.table import FEW_UES, is_useful_verdict

    templates = Environment(loader=PackageLoader(__package__, ""))  # noqa: S701, it is no HTML
    templates.globals |= {
        "count": format_count,
        "figure": format_figure,
        "plain": to_one_line,
        "few_ues": FEW_UES,
        "inf": inf,
        "is_useful": is_useful_verdict,
        "replace": replace,
    }
    return templates.get_template("sentences.txt").module
