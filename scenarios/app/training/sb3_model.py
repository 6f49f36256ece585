"""A policy for a scenario from a model that stable-baselines3 saved. Nothing that is read here can
run.

Of ``model.zip`` two entries are read: ``policy.pth`` by the loader of torch that takes tensors
only, and from ``data``, which is JSON, the name of the activation. What ``data`` keeps as pickles
stays unread. Of ``vecnormalize.pkl`` arrays of numbers are read, and all other objects stay inert.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput, squeeze_text
from netsim.safe import format_size, read_content
from netsim.units import FloatArray
from rl.policy import (
    MOST_SEEN,
    Layers,
    Policy,
    SharedCard,
    SharedPolicy,
    count_ue_features,
    list_hidden_units,
    list_layer_shapes,
    pair_layers,
)
from scenarios.app.study.study import Study
from scenarios.app.training.environments import build_own_problem
from scenarios.app.training.judge import get_ground
from scenarios.app.training.train import build_allocation_policy, build_shared_card

if TYPE_CHECKING:
    import torch

_MOST_BYTES = 2**28
_MOST_DATA_BYTES = 2**24
_MOST_WEIGHTS_BYTES = 2**26
_MOST_LAYERS = 9
_MOST_UNITS = 4096
_CORE = "numpy.core.multiarray"
_NUMPY = {
    (_CORE, "_reconstruct"),
    (_CORE, "scalar"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.numeric", "_frombuffer"),
}
_REMEDY = "give the ZIP file that model.save() of a DDPG or TD3 with MlpPolicy wrote"
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


def import_allocation_policy(study: Study, path: Path, reference_cache: Path | None) -> Policy:
    """Return the policy of a model for a whole training of a study, its reference run included.

    Raises BadInput with one line for whatever is wrong with the file, and for layers of other
    shapes than those of the scenario.
    """
    layers = read_deterministic_actor(path)
    policy = build_allocation_policy(study, layers, build_own_problem(study, reference_cache))
    card = policy.card
    _check_shapes(path, layers, card.n_seen, card.ues, f"of {card.ues} UEs ({card.observe})")
    return policy


def import_ue_policy(
    study: Study, path: Path, normalisation: Path | None, power_passes: int
) -> tuple[SharedPolicy, SharedCard]:
    """Return the policy of a model that was trained in `netsim/UePower-v0`, for every UE of a
    study.

    normalisation : what VecNormalize.save() wrote. It adds to the best rule, which is tuned as for
    the environment. Raises BadInput as `import_allocation_policy`.
    """
    layers = read_deterministic_actor(path)
    n_seen = count_ue_features()
    _check_shapes(path, layers, n_seen, 1, "of a UE")
    mean = np.zeros(n_seen)
    std = np.ones(n_seen)
    cut = MOST_SEEN
    if normalisation is not None:
        mean, std, cut = read_normalisation(normalisation)
        if mean.shape != (n_seen,):
            raise BadInput(
                f"{normalisation}: is of {mean.shape} observed numbers, of a UE are "
                f"{n_seen}; give its own"
            )
    policy = SharedPolicy(layers, get_ground(study).rule, mean, std, power_passes, cut=cut)
    return policy, build_shared_card(study, policy)


def _check_shapes(path: Path, layers: Layers, n_seen: int, n_actions: int, whose: str) -> None:
    for i, ((weight, bias), expected) in enumerate(
        zip(layers, list_layer_shapes(n_seen, list_hidden_units(layers), n_actions), strict=True)
    ):
        if weight.shape != expected or bias.shape != expected[:1]:
            raise BadInput(
                f"{path}: layer {i} has shape {weight.shape}, the scenario takes {expected}: "
                f"{n_seen} numbers are observed {whose}; train on its environment"
            )


class _Inert:
    """An object of a pickle of which only the state is kept."""

    state: object = None

    def __init__(self, *args: object) -> None: ...

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Arrays(pickle.Unpickler):
    """Reads arrays of numbers; all else becomes inert, whatever it names."""

    def find_class(self, module: str, name: str) -> type:
        if (module.replace("numpy._core", "numpy.core"), name) in _NUMPY:
            return super().find_class(module, name)
        return type(name, (_Inert,), {})


def read_normalisation(path: Path) -> tuple[FloatArray, FloatArray, float]:
    """Return the normalisation of observations of a saved VecNormalize: mean and standard deviation
    (n,), and the size at which they are cut.

    Of the pickle arrays of numbers are read; nothing in it is run. Raises BadInput with one line.
    """
    try:
        saved = _Arrays(io.BytesIO(read_content(path, _MOST_DATA_BYTES))).load().state
        used = bool(saved["norm_obs"])
        kept = saved["obs_rms"].state if used else {"mean": (), "var": ()}
        mean = np.array(kept["mean"], dtype=float)
        var = np.array(kept["var"], dtype=float)
        epsilon = float(saved["epsilon"])
        cut = float(saved["clip_obs"])
    except Exception as error:  # what a damaged pickle raises has no common type
        raise BadInput(
            f"{path}: no VecNormalize ({_shorten_error(error)}); give what its save() wrote"
        ) from None
    if not used:
        raise BadInput(
            f"{path}: it did not normalise observations (norm_obs); leave --normalisation out"
        )
    numbers = np.concatenate([mean.ravel(), var.ravel(), [cut, epsilon]])
    positive = (var >= 0).all() and epsilon > 0 and cut > 0
    if mean.ndim != 1 or mean.shape != var.shape or not np.isfinite(numbers).all() or not positive:
        raise BadInput(
            f"{path}: statistics of shape {mean.shape} with numbers of no use; save it again"
        )
    return mean, np.sqrt(var + epsilon), cut


def read_deterministic_actor(path: Path) -> Layers:
    """Return the layers of a deterministic actor, of rectified units and tanh at the end.

    Raises BadInput with one line for whatever is wrong with the file: no ZIP, missing entries, too
    many bytes, other algorithms, other activations, weights that are not finite.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(read_content(path, _MOST_BYTES)))
    except _BROKEN as error:
        raise BadInput(f"{path}: no ZIP file ({_shorten_error(error)}); {_REMEDY}") from None
    with archive:
        _check_is_relu(path, _read_entry(path, archive, "data", _MOST_DATA_BYTES))
        actor = _read_actor_weights(
            path, _read_entry(path, archive, "policy.pth", _MOST_WEIGHTS_BYTES)
        )
    return _build_layers(path, actor)


def _read_entry(path: Path, archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    """Return the bytes of an entry, whatever size the file states for it."""
    if name not in archive.namelist():
        raise BadInput(f"{path}: has no entry {name!r}; {_REMEDY}")
    try:
        with archive.open(name) as file:
            content = file.read(most_bytes + 1)
    except _BROKEN as error:
        raise BadInput(
            f"{path}: {name}: cannot be read ({_shorten_error(error)}); save the model again"
        ) from None
    if len(content) > most_bytes:
        raise BadInput(
            f"{path}: {name}: is larger than {format_size(most_bytes)}, the most that is "
            f"read; use a smaller net"
        )
    return content


def _check_is_relu(path: Path, settings_json: bytes) -> None:
    """Refuse other activations than rectified units: weights do not tell them apart."""
    try:
        activation = str(
            (json.loads(settings_json).get("policy_kwargs") or {}).get("activation_fn", "ReLU")
        )
    except (ValueError, AttributeError, RecursionError):
        raise BadInput(f"{path}: data: no settings of a model; {_REMEDY}") from None
    if re.fullmatch(r"ReLU|<class 'torch\.nn\.modules\.activation\.ReLU'>", activation) is None:
        raise BadInput(
            f"{path}: data: activation_fn {activation[:80]!r} is not ReLU; train with "
            f"policy_kwargs without it"
        )


def _read_actor_weights(path: Path, weights_file: bytes) -> dict[str, NDArray[np.float32]]:
    import torch

    try:
        with zipfile.ZipFile(io.BytesIO(weights_file)) as inner:
            if sum(entry.file_size for entry in inner.infolist()) > _MOST_WEIGHTS_BYTES:
                raise ValueError(f"larger than {format_size(_MOST_WEIGHTS_BYTES)}")
        with warnings.catch_warnings():
            # of kinds of tensors that torch will drop; we take none of them
            warnings.simplefilter("ignore")
            tensors = torch.load(io.BytesIO(weights_file), map_location="cpu", weights_only=True)
        return {
            name: _to_numbers(tensor)
            for name, tensor in tensors.items()
            if name.startswith("actor.")
        }
    except Exception as error:  # the loader raises what it likes for a damaged file
        raise BadInput(
            f"{path}: policy.pth: not plain weights ({_shorten_error(error)}); save the model again"
        ) from None


def _to_numbers(tensor: torch.Tensor) -> NDArray[np.float32]:
    """Return the numbers of a dense tensor. A small file may hold a view or a sparse tensor that
    stands for very many.
    """
    if tensor.numel() > _MOST_WEIGHTS_BYTES // 4 or not tensor.dtype.is_floating_point:
        raise ValueError(f"{tensor.numel():,} numbers of {tensor.dtype}")
    return np.ascontiguousarray(tensor.detach().resolve_neg().float().numpy())


def _build_layers(path: Path, arrays: Mapping[str, NDArray[np.float32]]) -> Layers:
    n = len(arrays) // 2
    names = [f"actor.mu.{2 * i}.{part}" for i in range(n) for part in ("weight", "bias")]
    is_complete = 2 <= n <= _MOST_LAYERS and set(arrays) == set(names)
    layers = pair_layers({name: arrays[name] for name in names}) if is_complete else ()
    if not layers or any(
        w.ndim != 2 or b.ndim != 1 or not 1 <= len(b) <= _MOST_UNITS for w, b in layers
    ):
        raise BadInput(
            f"{path}: policy.pth: no deterministic actor of 1 to {_MOST_LAYERS - 1} hidden layers "
            f"of at most {_MOST_UNITS:,} units; {_REMEDY}"
        )
    if not all(np.isfinite(x).all() for x in arrays.values()):
        raise BadInput(
            f"{path}: policy.pth: holds numbers that are not finite; train the model again"
        )
    return layers


def _shorten_error(error: BaseException) -> str:
    reason = getattr(error, "strerror", None) or error
    return squeeze_text(reason, 100) or type(error).__name__
