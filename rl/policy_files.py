"""Files of learnt policies: a card in JSON and weights in safetensors, from a stranger perhaps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import ValidationError

from netsim.errors import BadInput
from netsim.part import Part
from netsim.safe import content

CARD, WEIGHTS = "policy.json", "policy.safetensors"
_MOST_BYTES, _MOST_CARD_BYTES = 256_000_000, 1_000_000
Card = TypeVar("Card", bound=Part)


def read_card(path: Path, card: type[Card]) -> Card:
    """A card. Raises BadInput with one line for whatever is wrong with it."""
    try:
        text = content(path, _MOST_CARD_BYTES)
        return card.model_validate_json(text, strict=True)
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; give the folder that `netsim train` wrote a policy into") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValidationError as error:
        raise BadInput(f"{path}: {_said(error)}") from None


_PLAYED_BY = {"shared": "shared", "online": "ddpg", "allocation": "ddpg"}
"""task of a policy -> the kind of power that plays it"""
_WORDS = {"missing": "is missing", "extra_forbidden": "does not belong to a policy"}


def _said(error: ValidationError) -> str:
    """What is wrong with a card, and what to do."""
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


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Arrays of real numbers, whatever their names and shapes."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(content(path, _MOST_BYTES))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; a policy is a card and its weights") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(
            f"{path}: not safetensors ({' '.join(str(error).split())[:120]}); train the policy again"
        ) from None
    wrong = sorted(k for k, v in tensors.items() if v.dtype not in (np.float32, np.float64))
    if wrong:
        raise BadInput(f"{path}: {wrong[0][:60]} is not of real numbers; train the policy again")
    return tensors


def checked(
    path: Path, tensors: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], others: set[str]
) -> None:
    """BadInput unless there are exactly these arrays, finite and of these shapes, beside others."""
    unknown = sorted(set(tensors) - set(shapes) - others)
    if unknown:
        raise BadInput(f"{path}: {unknown[0][:60]!r} has no place in a policy of these layers; train it again")
    for name, wanted in shapes.items():
        if name not in tensors:
            raise BadInput(f"{path}: {name} is missing; train the policy again")
        if tensors[name].shape != wanted:
            raise BadInput(
                f"{path}: {name} has shape {tensors[name].shape}, its card asks for {wanted}; train it again"
            )
    if not all(np.isfinite(tensors[name]).all() for name in shapes):
        raise BadInput(f"{path}: holds numbers that are not finite; train the policy again")
