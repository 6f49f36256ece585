"""What methods of parts from other packages return is checked by the file `returns.toml` of the
package whose base class declares them.

A wrong result is refused in one line: the part, its file and line, what the method returned, and
what was expected. Bundled parts are not wrapped, so nothing takes longer there.

`returns.toml` has a table `[Class.method]` for each of these methods: what is expected, a format
whose fields are arguments of the method or `result`, and an expression of Python that is true of
such a result, with names of the module of the class. Expressions are checked in their order.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import isfunction, signature
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.fit import read_toml

BUNDLED = ("netsim", "fl", "rl", "scenarios")
"""packages whose parts are not checked"""


def is_bundled(part: type) -> bool:
    """Whether a class is of this program."""
    return part.__module__.partition(".")[0] in BUNDLED


def guard_returns(part: type) -> None:
    """Wrap, in place, the methods of a part from outside whose results are checked."""
    for base in filter(is_bundled, part.__mro__):
        tables = read_toml(base.__module__.partition(".")[0], "returns.toml")
        for name, expected in tables.get(base.__name__, {}).items():
            written = vars(part).get(name)
            if isfunction(written):
                setattr(part, name, _guard(written, vars(base)[name], expected))


def _guard(written: Any, declared: Any, expected: Mapping[str, str]) -> Callable[..., Any]:
    """A method that raises BadInput in place of returning what is not expected."""
    given = signature(declared)

    def describe(value: object) -> str:
        kind = getattr(value, "dtype", type(value).__name__)
        return f"{kind}{getattr(value, 'shape', '')}"

    @wraps(written)
    def call_checked(*arguments: Any, **words: Any) -> Any:
        result = written(*arguments, **words)
        scope = given.bind(*arguments, **words).arguments | {"result": result}
        names = {"np": np} | declared.__globals__ | scope
        for text, expression in expected.items():
            if not eval(expression, names):  # noqa: S307 - text of this program
                code = written.__code__
                place = f"{code.co_filename}:{code.co_firstlineno}"
                values = result if isinstance(result, tuple) else [result]
                found = ", ".join(map(describe, values))
                wrong = f"{written.__name__} returned {found}, expected {text.format(**scope)}"
                raise BadInput(f"plug-in {arguments[0].kind} ({place}): {wrong}")
        return result

    return call_checked
