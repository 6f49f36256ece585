"""What a training has found out about worlds and rules, kept so that an interrupted one need not find it out again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from rl.resumed import SAVE_EVERY_S, resumed

Found = TypeVar("Found")
_SHARE = 20.0  # of the time that writing took, at least, passes until it is written again


class KeptWorlds:
    """Findings by name, in one file; when it is written changes no result.

    text : what is trained. Findings of another text are forgotten. Without a file they last as long as this.
    """

    def __init__(self, file: Path | None, text: str) -> None:
        self.file, self.text = file, text
        self.found: dict[str, Any] = {}
        if file is not None:
            self.found |= resumed(file, text, lambda tree: dict(tree["found"])) or {}
        self.saved_s, self.every_s = time.perf_counter(), SAVE_EVERY_S

    def once(self, name: str, find: Callable[[], Any], read: Callable[[Any], Found]) -> Found:
        """What `read` makes of a finding, a tree of plain values and arrays: the kept one, or what `find` returns."""
        if name not in self.found:
            self.found[name] = find()
            if self.file is not None and time.perf_counter() - self.saved_s >= self.every_s:
                self._save(self.file)
        try:
            return read(self.found[name])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            said = " ".join(str(error).split())[:120]
            raise BadInput(f"{self.file}: {name}: cannot be read ({said}); delete it to start again") from None

    def _save(self, file: Path) -> None:
        began_s = time.perf_counter()
        save_tree(file, {"text": self.text, "found": self.found})
        self.saved_s = time.perf_counter()
        self.every_s = max(SAVE_EVERY_S, _SHARE * (self.saved_s - began_s))
