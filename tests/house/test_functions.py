"""A function holds one idea: none is longer than 60 lines, its docstring included."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("netsim", "fl", "rl", "scenarios/app")
MAX_LINES = 60


def functions(path):
    """Name and number of lines of every function of a file, decorators left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_is_longer_than_a_page(room):
    files = sorted((ROOT / room).rglob("*.py"))
    sizes = [(f"{path.relative_to(ROOT)}:{name}", lines) for path in files for name, lines in functions(path)]
    assert len(sizes) > 50
    assert [(where, lines) for where, lines in sizes if lines > MAX_LINES] == []


def test_the_measure_counts_from_def_to_the_last_line(tmp_path):
    body = "\n".join(f"    x = {i}" for i in range(59))
    (tmp_path / "long.py").write_text(f"@cache\ndef fits():\n{body}\n\n\ndef long():\n{body}\n    return x\n")
    assert list(functions(tmp_path / "long.py")) == [("fits", 60), ("long", 61)]
