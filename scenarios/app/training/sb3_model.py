"""The actor of a model that stable-baselines3 saved, as layers of numbers. Nothing that is read here can run.

Of ``model.zip`` two entries are read: ``policy.pth`` by the loader of torch that takes tensors only, and from ``data``,
which is JSON, the name of the activation. What ``data`` keeps as pickles stays unread. The file of a ``VecNormalize``
is one pickle: it is read with every class and function that it names replaced by `_Inert`, which does nothing.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.safe import content, size_text
from netsim.units import FloatArray
from rl.policy import Layers

_MOST_BYTES, _MOST_DATA_BYTES, _MOST_WEIGHTS_BYTES = 2**28, 2**24, 2**26
_MOST_LAYERS = 9
_MOST_UNITS = 4096
_MOST_STEPS = 10_000  # of a pickle; numbers of arrays are one step
_REMEDY = "give the ZIP file that model.save() of a DDPG or TD3 with MlpPolicy wrote"
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError, ValueError, OSError)


def read_actor(path: Path) -> Layers:
    """The layers of a deterministic actor, of rectified units and tanh at the end.

    Raises BadInput with one line for whatever is wrong with the file: no ZIP, missing entries, too many bytes,
    other algorithms, other activations, weights that are not finite.
    """
    try:
        whole = zipfile.ZipFile(io.BytesIO(content(path, _MOST_BYTES)))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; {_REMEDY}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except _BROKEN as error:
        raise BadInput(f"{path}: no ZIP file ({_short(error)}); {_REMEDY}") from None
    with whole:
        _check_activation(path, _entry(path, whole, "data", _MOST_DATA_BYTES))
        tensors = _tensors(path, _entry(path, whole, "policy.pth", _MOST_WEIGHTS_BYTES))
    return _layers(path, tensors)


def normalised(layers: Layers, path: Path) -> Layers:
    """The layers with two more before them, which do what the `VecNormalize` of stable-baselines3 at this path does:
    clip((x - mean) / std, -c, c) = c - 2 c relu(1 - relu(((x - mean) / std + c) / 2 c)), std^2 = variance + epsilon.

    Raises BadInput with one line for whatever is wrong with the file: no pickle of numbers, statistics of another
    number of observations, none of them.
    """
    mean, std, clip = _statistics(path)
    weight, bias = layers[0]
    n = weight.shape[1]
    if mean.shape != (n,):
        raise BadInput(
            f"{path}: has statistics of {len(mean):,} numbers, the model takes {n:,}; give those of its training"
        )
    if len(layers) + 2 > _MOST_LAYERS or n > _MOST_UNITS:
        raise BadInput(
            f"{path}: normalising takes two more layers of {n:,} units; there may be {_MOST_LAYERS - 1} of "
            f"{_MOST_UNITS:,}; train a smaller net, or without VecNormalize"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        wide = [
            (np.diag(0.5 / clip / std), 0.5 - 0.5 * mean / clip / std),
            (-np.eye(n), np.ones(n)),
            (-2.0 * clip * weight, bias + clip * weight.sum(axis=1, dtype=np.float64)),
        ]
        first = tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in wide)
    if not all(np.isfinite(x).all() for layer in first for x in layer):
        raise BadInput(f"{path}: its statistics exceed what weights can hold; train without VecNormalize")
    return *first, *layers[1:]


def _statistics(path: Path) -> tuple[FloatArray, FloatArray, float]:
    """Mean (n,), standard deviation (n,) and largest absolute value of normalised observations."""
    remedy = "give the file that VecNormalize.save() wrote"
    try:
        state = _inert(content(path, _MOST_DATA_BYTES)).state
        if state["norm_obs"] is False:
            raise BadInput(f"{path}: normalises no observations, rewards alone; leave --normalize out")
        rms, epsilon, clip = state["obs_rms"].state, state["epsilon"], state["clip_obs"]
        mean, variance = _array(rms["mean"]), _array(rms["var"])
        good = mean.shape == variance.shape and np.isfinite(mean).all() and np.isfinite(variance + epsilon).all()
        if not (good and (variance >= 0).all() and epsilon > 0 and 0 < clip < np.inf):
            raise ValueError("mean, variance, epsilon or clip_obs is no statistic of observations")
        return mean, np.sqrt(variance + epsilon), float(clip)
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; {remedy}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except BadInput:
        raise
    except Exception as error:  # a damaged pickle raises what it likes
        raise BadInput(f"{path}: no statistics of a VecNormalize over a Box ({_short(error)}); {remedy}") from None


class _Inert:
    """Stands for whatever a pickle names: keeps what it is called with, and the state that it is given."""

    args: tuple[Any, ...]
    state: Any = None

    def __new__(cls, *args: Any, **named: Any) -> _Inert:
        self = super().__new__(cls)
        self.args = args
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Still(pickle.Unpickler):
    """Imports nothing and calls nothing but `_Inert`."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        return _Inert


def _inert(data: bytes) -> Any:
    """What a pickle holds, its objects inert. Its steps are counted first, and the places in which it keeps things:
    a place of a high number would take the memory of all before it.
    """
    for steps, (code, arg, _) in enumerate(pickletools.genops(data)):
        if steps >= _MOST_STEPS or (code.name in ("PUT", "LONG_BINPUT") and int(arg or 0) >= _MOST_STEPS):
            raise ValueError(f"more than {_MOST_STEPS:,} steps")
    return _Still(io.BytesIO(data)).load()


def _array(kept: _Inert) -> FloatArray:
    """The numbers of a one-dimensional array of numpy. ValueError or TypeError for anything else."""
    if kept.state is None:  # protocol 5 of pickles
        data, dtype, (n,), _ = kept.args
    else:
        _, (n,), dtype, _, data = kept.state
    if dtype.args[0] not in ("f4", "f8") or dtype.state[1] not in ("<", ">"):
        raise ValueError(f"an array of {dtype.args[0]!r:.40}")
    numbers = np.frombuffer(data, dtype.state[1] + dtype.args[0]).astype(np.float64)
    if len(numbers) != n:
        raise ValueError(f"an array of {n!r:.40} that holds {len(numbers):,} numbers")
    return numbers


def _entry(path: Path, whole: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    """The bytes of an entry, which says truly or not how many there are."""
    if name not in whole.namelist():
        raise BadInput(f"{path}: has no entry {name!r}; {_REMEDY}")
    try:
        with whole.open(name) as file:
            data = file.read(most_bytes + 1)
    except _BROKEN as error:
        raise BadInput(f"{path}: {name}: cannot be read ({_short(error)}); save the model again") from None
    if len(data) > most_bytes:
        raise BadInput(
            f"{path}: {name}: is larger than {size_text(most_bytes)}, the most that is read; use a smaller net"
        )
    return data


def _check_activation(path: Path, data: bytes) -> None:
    """Refuse other activations than rectified units, which weights do not tell."""
    try:
        settings = json.loads(data).get("policy_kwargs") or {}
        activation = str(settings.get("activation_fn", "ReLU"))
    except (ValueError, AttributeError, RecursionError):
        raise BadInput(f"{path}: data: no settings of a model; {_REMEDY}") from None
    if re.fullmatch(r"ReLU|<class 'torch\.nn\.modules\.activation\.ReLU'>", activation) is None:
        raise BadInput(
            f"{path}: data: activation_fn {activation[:80]!r} is not ReLU; train with policy_kwargs without it"
        )


def _tensors(path: Path, data: bytes) -> dict[str, Any]:
    """Name -> tensor."""
    import torch

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            if sum(entry.file_size for entry in inner.infolist()) > _MOST_WEIGHTS_BYTES:
                raise ValueError(f"larger than {size_text(_MOST_WEIGHTS_BYTES)}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of kinds of tensors that torch will drop; we take none of them
            tensors = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # the loader raises what it likes for a damaged file
        raise BadInput(f"{path}: policy.pth: not plain weights ({_short(error)}); save the model again") from None
    if not isinstance(tensors, dict) or not all(
        isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in tensors.items()
    ):
        raise BadInput(f"{path}: policy.pth: no table of weights; {_REMEDY}")
    return tensors


def _layers(path: Path, tensors: dict[str, Any]) -> Layers:
    """The layers of the actor, checked before a number is copied."""
    actor = {k: v for k, v in tensors.items() if k.startswith("actor.")}
    n = len(actor) // 2
    names = [(f"actor.mu.{2 * i}.weight", f"actor.mu.{2 * i}.bias") for i in range(n)]
    if not 2 <= n <= _MOST_LAYERS or {name for pair in names for name in pair} != set(actor):
        raise BadInput(
            f"{path}: policy.pth: no deterministic actor of 1 to {_MOST_LAYERS - 1} hidden layers; {_REMEDY}"
        )
    _check_plain(path, actor)
    layers = []
    for weight, bias in ((actor[w], actor[b]) for w, b in names):
        if (
            weight.ndim != 2
            or weight.shape[0] > _MOST_UNITS
            or weight.shape[1] > 2**15
            or tuple(bias.shape) != tuple(weight.shape[:1])
        ):
            raise BadInput(
                f"{path}: policy.pth: layer of shapes {tuple(weight.shape)} and {tuple(bias.shape)}; {_REMEDY}"
            )
        arrays = tuple(np.ascontiguousarray(x.detach().resolve_neg().float().numpy()) for x in (weight, bias))
        if not all(np.isfinite(x).all() for x in arrays):
            raise BadInput(f"{path}: policy.pth: holds numbers that are not finite; train the model again")
        layers.append((arrays[0], arrays[1]))
    return tuple(layers)


def _check_plain(path: Path, tensors: dict[str, Any]) -> None:
    """Refuse tensors that are no dense numbers held in the file, before any array is made: sparse, quantised or
    complex ones, those without values, and views that stand for more numbers than there are.
    """
    import torch

    for name, tensor in tensors.items():
        strided = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
        if not (strided and tensor.dtype.is_floating_point):
            kind = f"{tensor.dtype} {tensor.layout} on {tensor.device}".replace("torch.", "")
            raise BadInput(f"{path}: policy.pth: {name[:60]} is no dense array of floats ({kind}); {_REMEDY}")
        held = tensor.untyped_storage().nbytes() // tensor.element_size()
        if tensor.numel() > held:
            raise BadInput(
                f"{path}: policy.pth: {name[:60]} has {tensor.numel():,} numbers, and the file holds {held:,} of them; "
                "save the model again"
            )


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
