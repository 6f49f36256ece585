"""Contract of a part, for tests of packages that bring one: what is checked of every bundled part.

In a test of pytest, where `scenario.yaml` has the part::

    def test_it_keeps_the_contract(tmp_path):
        check_part(MyPart, tmp_path, load("scenario.yaml"))
"""

import json
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from netsim.checkpoint import to_tree
from netsim.part import Part, read_descriptions
from scenarios.app.result import run
from scenarios.app.run.events import Event
from scenarios.app.study.study import Study


def check_part(part: type[Part], folder: Path, study: Study | None = None) -> None:
    """Check what a part declares and, where a study has it, that methods of it whose returns are
    checked (`netsim.contract`) change no array of their arguments, and that runs in a folder are
    repeated and resumed to the same bytes. Raises AssertionError.
    """
    check_declaration(part)
    if study is not None:
        checked = {k: value for k, value in vars(part).items() if hasattr(value, "__wrapped__")}
        with patch.multiple(  # of one attribute at least
            part, __doc__=part.__doc__, **{name: _watch(checked[name]) for name in checked}
        ):
            check_resumption(study, folder)


def check_declaration(part: type[Part]) -> None:
    """Check that a part is built from its example and written back, is frozen, refuses unknown
    keys, and says what it is, what from, and what each key means.
    """
    built = part.model_validate_json(json.dumps(part.example))
    config = part.model_config
    undescribed = {*part.model_fields} - {"kind", *read_descriptions(part)}
    assert part.example["kind"] == part.kind_name(), "its example is of another kind"
    assert part.model_validate_json(built.model_dump_json()) == built, "does not write itself back"
    assert config.get("frozen"), "is not frozen"
    assert config.get("extra") == "forbid", "takes unknown keys"
    assert part.reference, "no reference"
    assert (part.__doc__ or "").strip(), "no docstring"
    assert not undescribed, f"no text below {sorted(undescribed)}"


def check_resumption(study: Study, folder: Path, done: int = 1) -> None:
    """Check that a run which was interrupted once so many rounds were done goes on, by the same
    call, to the bytes of one that was not.
    """

    def interrupt(event: Event) -> None:
        if event.done >= done:
            raise KeyboardInterrupt

    whole = folder / "whole"
    halved = folder / "halved"
    run(study, whole)
    with suppress(KeyboardInterrupt):
        run(study, halved, interrupt)
        raise AssertionError(f"the run ends before {done} rounds are done")
    run(study, halved)
    for file in (*whole.glob("*.csv"), whole / "summary.json"):
        assert (halved / file.name).read_bytes() == file.read_bytes(), f"{file.name} differs"


def _watch(method: Any) -> Any:
    """The method, which raises AssertionError where it changes an array of its arguments."""

    @wraps(method)
    def call_watched(*arguments: Any, **words: Any) -> Any:
        before = _read_bytes([arguments, words])
        result = method(*arguments, **words)
        assert _read_bytes([arguments, words]) == before, f"{method.__name__} changes inputs"
        return result

    return call_watched


def _read_bytes(value: object) -> bytes:
    """The bytes of all arrays in a value, one after the other."""
    tree = to_tree(value)
    if isinstance(tree, dict | list):
        members = tree.values() if isinstance(tree, dict) else tree
        return b"".join(map(_read_bytes, members))
    return tree.tobytes() if isinstance(tree, np.ndarray) else b""
