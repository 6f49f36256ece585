"""Checkpoints of trainings read back: what an interrupted one goes on with, whatever its agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from netsim.checkpoint import load_tree
from netsim.errors import BadInput
from netsim.safe import what_is

SAVE_EVERY_S = 10.0
"""wall time between two checkpoints; when one is written changes no result"""
Course = TypeVar("Course")


def resumed(checkpoint: Path, text: str, restore: Callable[[Any], Course]) -> Course | None:
    """What `restore` makes of the tree of a checkpoint; None where there is none of this training.

    text : what is trained. A checkpoint of another text is not gone on with, and one that is damaged, or holds numbers
    that are not finite, is refused (BadInput).
    """
    if not what_is(checkpoint):
        return None
    try:
        tree: Any = load_tree(checkpoint)
        if not isinstance(tree, dict) or tree.get("text") != text:
            return None
        if not _finite(tree):
            raise ValueError("holds numbers that are not finite")
        return restore(tree)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        said = " ".join(str(error).removeprefix(f"{checkpoint}: ").split())[:120]
        raise BadInput(f"{checkpoint}: cannot be gone on with ({said}); delete it to start again") from None


def _finite(tree: Any) -> bool:
    """Whether all arrays of a tree hold finite numbers."""
    if isinstance(tree, dict | list):
        return all(_finite(x) for x in (tree.values() if isinstance(tree, dict) else tree))
    return not isinstance(tree, np.ndarray) or tree.dtype.kind != "f" or bool(np.isfinite(tree).all())
