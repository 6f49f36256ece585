"""Every notice that the code gives is declared, each once, with the values that its sentence
needs."""

import ast
import string
import tomllib
from pathlib import Path

import pytest

from fl.notice import notice as of_learning
from netsim.notice import SEVERITIES
from netsim.notice import notice as of_worlds
from scenarios.app.study.notice import notice as of_studies

ROOT = Path(__file__).parents[2]
CATALOGUES = {"netsim": of_worlds, "fl": of_learning, "scenarios": of_studies}
KEPT = Path(__file__).with_name("notices.txt")


def calls(package):
    """File, words among which its key is, and values (None: not to be seen) of each call of the
    catalogue."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            words = {node.value for node in ast.walk(function) if isinstance(node, ast.Constant)}
            for call in ast.walk(function):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Name)
                    and call.func.id == "notice"
                ):
                    values = {
                        node.value
                        for node in ast.walk(call.args[0])
                        if isinstance(node, ast.Constant)
                    }
                    names = {keyword.arg for keyword in call.keywords}
                    yield path, values or words, None if None in names else names | {"place"}


@pytest.mark.parametrize("package", CATALOGUES)
def test_calls_and_declarations_are_the_same(package):
    entries = CATALOGUES[package].entries
    defaults = set()
    for path, words, names in calls(package):
        keys = words & set(entries)
        assert keys, path
        defaults |= keys
        for key in keys if names is not None and len(keys) < 3 else ():
            texts = entries[key].values()
            needed = {
                name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name
            }
            assert needed <= names, path
    assert defaults == set(entries)


def test_keys_are_unique_and_severities_known():
    everything = [key for group in CATALOGUES.values() for key in group.entries]
    assert len(everything) == len(set(everything))
    assert {
        entry["severity"] for group in CATALOGUES.values() for entry in group.entries.values()
    } <= set(SEVERITIES)


def test_no_key_is_renamed():
    """The list grows; a key that goes stands in the changelog."""
    kept = KEPT.read_text(encoding="utf-8").split()
    declared = {key for group in CATALOGUES.values() for key in group.entries}
    assert declared - set(kept) == set(), "add new keys to tests/house/notices.txt"
    assert set(kept) - declared == set()
    assert kept == sorted(kept)


def test_catalogues_are_packaged():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    data = tool["setuptools"]["package-data"]
    assert "notices.toml" in data["netsim"]
    assert "notices.toml" in data["fl"]
    assert "app/study/notices.toml" in data["scenarios"]
