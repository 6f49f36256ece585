"""Files of learned policies, which may be untrusted: a card in JSON and weights in safetensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import ValidationError

from netsim.errors import BadInput
from netsim.part import Part
from netsim.record import write_text
from netsim.safe import content, replacing

CARD, WEIGHTS = "policy.json", "policy.safetensors"
_MAX_BYTES, _MAX_CARD_BYTES = 256_000_000, 1_000_000
Card = TypeVar("Card", bound=Part)
Shapes = Mapping[str, tuple[int | None, ...]]
"""name of an array -> its shape; None: as long as the file says"""


def save_files(card: Part, tensors: Mapping[str, np.ndarray], folder: Path) -> None:
    """Write a policy into a folder, weights first, so that a card never stands without them."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / WEIGHTS) as file:
        file.write(save({name: np.ascontiguousarray(x) for name, x in tensors.items()}))
    write_text(folder / CARD, card.model_dump_json(indent=1) + "\n")


def read_files(folder: Path, kind: type[Card], shapes: Callable[[Card], Shapes]) -> tuple[Card, dict[str, np.ndarray]]:
    """The card of a policy and its arrays, which have exactly the shapes of its card and are finite.

    Raises BadInput with one line.
    """
    path = folder / CARD
    try:
        card = kind.model_validate_json(content(path, _MAX_CARD_BYTES), strict=True)
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; give the folder that `netsim train` wrote a policy into") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValidationError as error:
        raise BadInput(f"{path}: {_said(error)}") from None
    return card, _read_tensors(folder / WEIGHTS, shapes(card))


_PLAYED_BY = {"shared": "shared", "online": "ddpg", "allocation": "ddpg"}
"""task of a policy -> the kind of power that plays it"""
_WORDS = {"missing": "is missing", "extra_forbidden": "does not belong to a policy"}


def _said(error: ValidationError) -> str:
    """The error of a card, and a remedy."""
    every = error.errors(include_url=False)
    first = next((e for e in every if e["loc"] == ("task",)), every[0])
    place, value = ".".join(str(x) for x in first["loc"])[:60], first["input"]
    if first["type"] == "json_invalid":
        return "not JSON, or only a part of it; train the policy again"
    if place == "task" and isinstance(value, str) and value in _PLAYED_BY:
        return f"task: a policy of task {value!r} is not for this kind; play it by power: {{kind: {_PLAYED_BY[value]}}}"
    if first["type"] == "value_error":
        said = " ".join(str(first["msg"]).removeprefix("Value error, ").split())[:160]
        return f"{place or 'card'}: {said}" + ("" if "train it again" in said else "; train the policy again")
    return f"{place or 'card'}: {_WORDS.get(first['type'], f'cannot be {repr(value)[:60]}')}; train the policy again"


def _read_tensors(path: Path, shapes: Shapes) -> dict[str, np.ndarray]:
    """Finite real numbers of these names and shapes."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(content(path, _MAX_BYTES))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; a policy is a card and its weights") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(
            f"{path}: not safetensors ({' '.join(str(error).split())[:120]}); train the policy again"
        ) from None
    for name in sorted({*tensors, *shapes}):
        if name not in shapes:
            raise BadInput(f"{path}: {name[:60]!r} has no place in a policy of these layers; train it again")
        if name not in tensors:
            raise BadInput(f"{path}: {name} is missing; train the policy again")
        array, wanted = tensors[name], shapes[name]
        if array.dtype not in (np.float32, np.float64):
            raise BadInput(f"{path}: {name} is not of real numbers; train the policy again")
        if len(array.shape) != len(wanted) or any(n not in (None, m) for m, n in zip(array.shape, wanted, strict=True)):
            raise BadInput(f"{path}: {name} has shape {array.shape}, its card asks for {wanted}; train it again")
        if not np.isfinite(array).all():
            raise BadInput(f"{path}: {name}: holds numbers that are not finite; train the policy again")
    return tensors
