"""Values of Python as a document has them: plain ones, and parts that no scenario can say.

A part lives in Python alone where its class is neither bundled nor brought by an installed package,
or where it holds what is no key: a module, arrays. A document has it as it is; of all other parts
it has the keys.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netsim.contract import is_bundled
from netsim.errors import BadInput
from netsim.part import Part, collect_nested_parts, find_entry_points, read_source
from scenarios.app.study import Value

_HELD = " (in Python)"
_NAMED = re.compile(rf'^# reads "(.*){re.escape(_HELD)}"', re.MULTILINE)


def to_data(value: Any, outside: str, path: str = "") -> Value:
    """Return a value as a document has it.

    outside : how complaints call the path at which it stands (see `Document`). Raises BadInput for
    a value that no scenario has.
    """
    if isinstance(value, Part) and not lives_in_python(value):
        keys = {"kind", *value.model_fields_set}
        value = {key: entry for key, entry in value if key in keys}
    if isinstance(value, Mapping):
        return {str(k): to_data(v, outside, f"{path}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(v, outside, f"{path}[{i}]") for i, v in enumerate(value)]
    for convert in ("tolist", "__fspath__"):  # of numpy, of paths
        if hasattr(value, convert):
            return getattr(value, convert)()
    if isinstance(value, int | float | str | Part | None):
        return value
    raise BadInput(
        f"{outside.format(path.lstrip('.'))}: no scenario has {value!r:.60}; give an object of a "
        "part, a mapping, a list, a number or text"
    )


def lives_in_python(part: Part) -> bool:
    """Return whether no scenario can say what a part is."""
    kind = type(part)
    brought = [entry.value for entry in find_entry_points()]
    is_known = is_bundled(kind) or f"{kind.__module__}:{kind.__qualname__}" in brought
    return bool(part.digest) or not is_known


def digest_held_parts(study: Part) -> dict[str, str]:
    """Return SHA-256 of each part of a study that lives in Python alone, by its name: of the
    source of its class, new each time where that cannot be read, and of what it holds.
    """
    return {
        f"{getattr(part, 'label', part.kind_name())}{_HELD}": hashlib.sha256(
            f"{read_source(type(part))}{part.digest}".encode()
        ).hexdigest()
        for part in collect_nested_parts(study)
        if lives_in_python(part)
    }


def refuse_held_parts(text: str, path: str | Path) -> None:
    """Raise BadInput where the text of a resolved study has a part that lives in Python alone."""
    if named := _NAMED.search(text):
        raise BadInput(
            f"{path}: {named[1]} lives in Python alone, and no scenario says it: play it by "
            "`simulate`, or put its class, module or data into files"
        )
