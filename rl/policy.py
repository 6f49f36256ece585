"""Trained policies as data: a card in JSON, weights in safetensors. Reading one runs no code.

``policy.json`` is the description of the policy (`Card`), ``policy.safetensors`` holds the layers,
and for the problem of the study the reference trajectory that it was trained on. A folder from a
stranger is checked number by number.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, ValidationError, model_validator

from fl.power.bound import Convergence, Criterion, PowerLoss, Trajectory
from fl.power.search import Limits
from netsim.columns import divide_or, frozen
from netsim.errors import BadInput, squeeze_text
from netsim.part import Part
from netsim.radio.power import PowerContext
from netsim.record import write_text
from netsim.safe import open_replacement, read_content
from netsim.units import Arrays, BoolArray, FloatArray, IntPair, Ints, db_from_ratio
from rl.look import FEATURES, OUTLOOK, Look
from rl.problem import Observe, Problem, Seen, count_observed_values
from rl.reward import Reward, Weighted
from rl.rules import LAWS, TunedRule, build_rule, clip_dbw, limit_to_w, probe_moves
from rl.settings import CARD, WEIGHTS, Finite, Weights

_MAX_BYTES = 256_000_000
_MAX_CARD_BYTES = 1_000_000
_FULL_DB = 40.0  # the ratio in decibels that becomes 1 in an observation
_ROUNDING = 1e-6  # of actions
_REFERENCE = ("std", "weight", "gain", "scale")
Layers = tuple[tuple[Seen, Seen], ...]
Shapes = Mapping[str, tuple[int | None, ...]]
"""name of an array -> its shape; None: as long as the file says"""


def count_online_values(n_ue: int) -> int:
    """Number of values of an observation for n_ue UEs."""
    return 5 * n_ue + 2


def observe_online(context: PowerContext, last_w: FloatArray, limits: Limits) -> Seen:
    """The observation of a round, float32 in [-1, 1], (5 K + 2,). last_w (K,): the last powers.

    Of each UE, five rows of K numbers: 1 if it is there; its SNR at the most power; the SNR at
    which channel noise would meet the requirement of its last round; the SNR that the last power
    has on today's channel; 1 if artificial noise was drawn for it. Ratios are in decibels over 40,
    cut at 1; absent and unknown is 0. Then the share of the budget that is left and of the rounds
    that are over, both from -1 to 1.
    """
    is_served = context.snr_per_w > 0
    is_required = is_served & (context.required_std > 0) & (context.scale > 0)
    required = divide_or(context.scale, context.required_std, 1.0) ** 2

    def scale_level(ratio: FloatArray, is_known: BoolArray) -> FloatArray:
        return np.where(is_known, db_from_ratio(np.where(is_known, ratio, 1.0)) / _FULL_DB, 0.0)

    rows = (
        is_served,
        scale_level(context.snr_per_w * limits.each_max_w, is_served),
        scale_level(required, is_required),
        scale_level(context.snr_per_w * last_w, is_served),
        is_served & (context.drawn_std > 0),
        [2.0 * context.budget_left - 1.0, 2.0 * context.progress - 1.0],
    )
    return np.clip(np.concatenate(rows), -1.0, 1.0).astype(np.float32)


Hidden = Annotated[
    tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1, max_length=8)
]


class PolicyCard(Part):
    """Description of a policy: limits and origin."""

    program: str = Field(max_length=40)
    """version of the program that trained it"""
    limits: Limits
    """limits of its powers"""
    scenario: str = Field("", max_length=300)
    """title of the scenario that it was trained in"""
    seed: int = Field(0, ge=0)
    """of its training"""
    steps: int = Field(0, ge=0)
    """of its training, when it was kept"""


class Card(PolicyCard):
    """Description of a policy of DDPG."""

    format: Literal[1] = 1
    """version of these files"""
    task: Literal["allocation"]
    """one vector for a whole training"""
    observe: Observe
    """its observation"""
    ues: int = Field(ge=1, le=4096)
    """number of UEs"""
    hidden: Hidden
    """units of its hidden layers"""
    criterion: Criterion = "aggregate"
    """when the channel's noise is enough"""
    bound: Convergence = Convergence()
    """the bound that it was trained on"""

    @property
    def n_seen(self) -> int:
        return count_observed_values(self.observe, self.ues)

    @property
    def shapes(self) -> list[IntPair]:
        """Outputs and inputs of each layer."""
        return list_layer_shapes(self.n_seen, self.hidden, self.ues)


def list_layer_shapes(n_seen: int, hidden: Ints, n_actions: int) -> list[IntPair]:
    """Outputs and inputs of each layer of a network."""
    return [(b, a) for a, b in pairwise([n_seen, *hidden, n_actions])]


@dataclass(frozen=True)
class Policy:
    """A deterministic policy: layers of rectified units, and tanh at the end. reference: for its
    training.
    """

    card: Card
    layers: Layers
    reference: Trajectory

    def act(self, seen: Seen) -> FloatArray:
        """The action (K,) in [-1, 1] for an observation. BadInput where its weights overflow."""
        return compute_action(self.layers, seen)

    def problem(self) -> Problem:
        """The problem of the study that it was trained on."""
        card = self.card
        return Problem(
            PowerLoss(self.reference, card.bound, card.criterion), card.limits, card.observe
        )


Described = TypeVar("Described", bound=PolicyCard)


def list_hidden_units(layers: Layers) -> Ints:
    """Units of the hidden layers."""
    return tuple(len(bias) for _, bias in layers[:-1])


def pair_layers(weights: Weights) -> Layers:
    """The layers of a network whose weights and biases stand in turn."""
    arrays = list(weights.values())
    return tuple(zip(arrays[::2], arrays[1::2], strict=True))


def compute_action(layers: Layers, seen: Seen) -> FloatArray:
    """The action of a network for an observation (n,), or the actions for several (n, B).

    BadInput where its weights overflow.
    """
    x = hidden = seen
    columns = (-1, *(1,) * (seen.ndim - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        for weight, bias in layers:
            x = weight @ hidden + bias.reshape(columns)
            hidden = np.maximum(x, np.float32(0.0))
        action = np.tanh(x.astype(float))
    if not np.isfinite(action).all():
        raise BadInput("power.policy: an action is no number; its weights overflow, train it again")
    return action


def save_policy(policy: Policy, folder: Path) -> None:
    """Write a policy into a folder."""
    reference = {
        f"reference.{name}": np.atleast_1d(getattr(policy.reference, name)) for name in _REFERENCE
    }
    save_files(policy.card, _name_tensors(policy.layers) | reference, folder)


def load_policy(folder: Path) -> Policy:
    """The policy of a folder. Raises BadInput with one line for whatever is wrong with it."""
    card, tensors = read_files(folder, Card, _list_tensor_shapes)
    std, weight, gain, scale = (tensors[f"reference.{n}"].astype(float) for n in _REFERENCE)
    try:
        trajectory = Trajectory(std, weight, gain, float(scale[0]))
        card.bound.compute_contraction(weight)
        card.limits.check(card.ues)
    except ValueError as error:
        raise BadInput(f"{folder / WEIGHTS}: {error}; train the policy again") from None
    return Policy(card, _collect_layers(tensors), trajectory)


def _name_tensors(layers: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """What is of the weights and biases of layers, by their names in files, in turn."""
    return {
        f"layers.{i}.{part}": values
        for i, layer in enumerate(layers)
        for part, values in zip(("weight", "bias"), layer, strict=True)
    }


def _collect_layers(tensors: Arrays) -> Layers:
    return pair_layers(
        {name: x.astype(np.float32) for name, x in tensors.items() if name.startswith("layers.")}
    )


def _list_tensor_shapes(card: Card) -> Shapes:
    reference = {f"reference.{name}": (None, card.ues) for name in ("std", "weight", "gain")}
    return (
        _name_tensors((shape, shape[:1]) for shape in card.shapes)
        | reference
        | {"reference.scale": (1,)}
    )


def save_files(card: Part, tensors: Arrays, folder: Path) -> None:
    """Write a policy, weights first, so that a card never stands without them."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    with open_replacement(folder / WEIGHTS) as file:
        file.write(save({name: np.ascontiguousarray(x) for name, x in tensors.items()}))
    write_text(folder / CARD, card.model_dump_json(indent=1) + "\n")


def read_files(
    folder: Path, kind: type[Described], shapes: Callable[[Described], Shapes]
) -> tuple[Described, dict[str, np.ndarray]]:
    """The card of a policy and its finite arrays, of the shapes of its card. Raises BadInput with
    one line.
    """
    path = folder / CARD
    try:
        card = kind.model_validate_json(_read_policy_file(path, _MAX_CARD_BYTES), strict=True)
    except ValidationError as error:
        raise BadInput(f"{path}: {_format_error(error)}") from None
    return card, _read_tensors(folder / WEIGHTS, shapes(card))


def _read_policy_file(path: Path, most_bytes: int) -> bytes:
    try:
        return read_content(path, most_bytes)
    except OSError as error:
        reason = error.strerror or error
        raise BadInput(
            f"{path}: cannot be read ({reason}); give the folder that `netsim train` wrote"
        ) from None


def _format_error(error: ValidationError) -> str:
    errors = error.errors(include_url=False)
    first = next((e for e in errors if e["loc"] == ("task",)), errors[0])
    place = ".".join(str(x) for x in first["loc"])[:60] or "card"
    if place == "task":
        return (
            f"task: {first['input']!r:.40} is not for this kind of power; shared plays "
            f"'shared', ddpg 'allocation'"
        )
    text = squeeze_text(str(first["msg"]).removeprefix("Value error, "), 160)
    return f"{place}: {text}; train the policy again"


def _read_tensors(path: Path, shapes: Shapes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = _read_policy_file(path, _MAX_BYTES)
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(
            f"{path}: not safetensors ({squeeze_text(error, 120)}); train the policy again"
        ) from None
    if odd := sorted(tensors.keys() ^ shapes.keys()):
        raise BadInput(
            f"{path}: {odd[0][:60]!r} is {'missing' if odd[0] in shapes else 'unknown'}; "
            f"train it again"
        )
    for name, shape in shapes.items():
        array = tensors[name]
        fits = array.ndim == len(shape) and all(
            n in (m, None) for n, m in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
            raise BadInput(
                f"{path}: {name} is {array.dtype} {array.shape}, its card asks for finite numbers "
                f"{shape}; train the policy again"
            )
    return {name: tensors[name] for name in shapes}


# -- one network for all UEs

UNIT_DB = 10.0
"""what an action of 1 adds to the power of a UE, dB"""
MOST_SEEN = 5.0
"""size at which features are cut"""
MOVES_DB = (-6.0, -2.0, 2.0, 6.0)
"""moves whose cost a UE sees, with probes"""
SEEN = len(FEATURES) + len(OUTLOOK) + 1
"""number of features of a UE, without probes"""


@frozen
class SharedPolicy:
    """A network that all UEs share, for any number of them: it moves powers that begin at those of
    a rule.

    With features f_k of a UE at the present powers (see `compute_ue_features`), their mean and std
    (F,) where it was trained, and an actor a of rectified layers with tanh at the end, all powers
    move at once in each of some passes,

        x_k <- x_k + 10 dB * a((f_k - mean) / std),  within the limits of a UE.

    Exchanging UEs exchanges their powers. An actor whose last layer is 0 is the rule. cut : size at
    which scaled features are cut; probes : the reward by which moves of a UE are judged before it
    acts, None: it sees no such features.
    """

    layers: Layers
    rule: TunedRule
    mean: FloatArray
    std: FloatArray
    passes: int = 1
    probes: Reward | None = None
    cut: float = MOST_SEEN

    def power_w(self, look: Look) -> FloatArray:
        """Powers (S, K) in W within the limits."""
        dbw = plan_dbw(look, self.rule, self.act, self.passes, self.probes)
        return limit_to_w(dbw, look.limits)

    def act(self, seen: Seen) -> FloatArray:
        """Actions (n,) of UEs with features (n, F)."""
        features = standardise_features(seen, self.mean, self.std, self.cut)
        return compute_action(self.layers, features.T)[0]


Act = Callable[[Seen], ArrayLike]
"""Actions (n, 1) or (n,) in [-1, 1] of UEs, from their observations (n, F)"""


def plan_dbw(
    look: Look,
    rule: TunedRule,
    act: Act,
    passes: int,
    probes: Reward | None = None,
) -> FloatArray:
    """Powers (S, K) in dBW, after some passes from those of a rule. act : actions (n,) or (n, 1) of
    features (n, F).
    """
    rule_dbw = clip_dbw(rule.dbw(look), look.limits)
    dbw = rule_dbw
    for _ in range(passes):
        seen = compute_ue_features(look, dbw, rule_dbw, probes)
        dbw = move_dbw(dbw, look.is_served * compute_actions(act, seen), look.limits)
    return dbw


def compute_actions(act: Act, seen: Seen) -> FloatArray:
    """Actions (S, K) of a policy for features (S, K, F); ValueError where it does not give one of
    each UE.
    """
    action = np.asarray(act(seen.reshape(-1, seen.shape[2])), float)
    if action.size != seen[..., 0].size or not (np.abs(action) <= 1.0 + _ROUNDING).all():
        raise ValueError(
            f"policy: gives {action.shape}, {action.ravel()!s:.60}; give one number from "
            f"-1 to 1 for each UE"
        )
    return action.reshape(seen.shape[:2])


def standardise_features(
    seen: Seen, mean: FloatArray, std: FloatArray, cut: float = MOST_SEEN
) -> Seen:
    """Features (n, F) in standard deviations, cut at a size."""
    return np.clip((seen - mean) / std, -cut, cut).astype(np.float32)


def move_dbw(dbw: FloatArray, action: FloatArray, limits: Limits) -> FloatArray:
    """Powers in dBW after actions in [-1, 1]."""
    return clip_dbw(dbw + UNIT_DB * action, limits)


def count_ue_features(probes: bool = False) -> int:
    """Number of features of a UE."""
    return SEEN + len(MOVES_DB) * probes


def compute_ue_features(
    look: Look, dbw: FloatArray, rule_dbw: FloatArray, probes: Reward | None = None
) -> Seen:
    """Features of each UE (S, K, F) at powers (S, K), about 1 in size, cut at 5.

    Of its links, of what the powers lead to (see `rl.look`), and by how many decibels they are
    above the rule, over 10; with probes, what the expected round costs more after each move of this
    UE alone, times 10.
    """
    columns = [
        look.features,
        look.predict_outcome(limit_to_w(dbw, look.limits)),
        (dbw - rule_dbw)[..., None] / UNIT_DB,
    ]
    if probes is not None:
        columns.append(probe_moves(look, dbw, probes, MOVES_DB))
    return np.clip(np.concatenate(columns, axis=2), -MOST_SEEN, MOST_SEEN).astype(np.float32)


class SharedCard(PolicyCard):
    """Description of a shared policy: of which rule."""

    format: Literal[3] = 3
    """version of these files"""
    task: Literal["shared"] = "shared"
    """one network for every UE"""
    hidden: Hidden
    """units of its hidden layers"""
    rule: str = Field(max_length=40)
    """the rule that it adds to"""
    parameters: tuple[Finite, ...] = Field(max_length=16)
    """of the rule"""
    passes: int = Field(ge=1, le=100)
    """moves of all UEs in a round"""
    probes: Weighted | None = None
    """cost by which moves are probed"""
    cut: float = Field(MOST_SEEN, gt=0, allow_inf_nan=False)
    """size at which scaled features are cut"""

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if (self.rule, len(self.parameters)) not in {(law.name, len(law.start)) for law in LAWS}:
            raise ValueError(
                f"rule {self.rule!r} with {len(self.parameters)} parameters is none of "
                f"this program's"
            )
        return self


def save_shared(policy: SharedPolicy, card: SharedCard, folder: Path) -> None:
    """Write a policy into a folder."""
    save_files(
        card, _name_tensors(policy.layers) | {"mean": policy.mean, "std": policy.std}, folder
    )


def load_shared(folder: Path) -> tuple[SharedPolicy, SharedCard]:
    """The policy of a folder. Raises BadInput with one line."""
    card, tensors = read_files(folder, SharedCard, _list_shared_shapes)
    tuned = build_rule(card.rule, card.parameters)
    if not (tensors["std"] > 0).all():
        raise BadInput(
            f"{folder / WEIGHTS}: std has {tensors['std'].min():g}, not above 0; train "
            f"the policy again"
        )
    scale = tensors["mean"], tensors["std"]
    return SharedPolicy(
        _collect_layers(tensors), tuned, *scale, card.passes, card.probes, card.cut
    ), card


def _list_shared_shapes(card: SharedCard) -> Shapes:
    n_seen = count_ue_features(card.probes is not None)
    shapes = list_layer_shapes(n_seen, card.hidden, 1)
    return _name_tensors((shape, shape[:1]) for shape in shapes) | {
        "mean": (n_seen,),
        "std": (n_seen,),
    }
