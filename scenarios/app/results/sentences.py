"""Sentences of results: the macros of sentences.txt, as functions that return text."""

from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

from netsim.errors import to_one_line
from netsim.texts import read_template
from scenarios.app.results.statistics import format_figure


@cache
def read_sentences() -> Any:
    """Read the macros, which are called as methods of what is returned."""
    from scenarios.app.results.table import FEW_UES, is_useful_verdict

    names = {
        "figure": format_figure,
        "plain": to_one_line,
        "few_ues": FEW_UES,
        "inf": inf,
        "is_useful": is_useful_verdict,
        "replace": replace,
    }
    return read_template(__package__, "sentences.txt").make_module(names)
