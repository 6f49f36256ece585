"""Any torch module as a law on flat parameter rows, many networks at once.

Parameters of k networks are rows (k, d): the arrays of `module.named_parameters()` that require a
gradient, in this order, each flattened in C order. UEs are stacked by `torch.func`: short batches
are padded, and padding enters no loss. A module runs for one UE after the other, each on its exact
batches, where stacking would be wrong or slow (`StackedModule.one_by_one`).
"""

import json
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import signature
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fl.networks.user_code import UserCode
from fl.optimisers import LocalTraining, Sgd
from fl.types import Local, SampleFormat
from netsim.columns import split_blocks
from netsim.errors import BadInput, to_one_line
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_NUMBERS = 2**22  # of weights and samples that are stacked, chosen for speed
_ACTIVATIONS = 64  # numbers of a sample beside its own
_SAMPLES = 2000  # scored together: batch normalisation takes its statistics from them
_PROBED = 4  # samples
_LARGEST = 1e3  # weight of a network that has not diverged
_POSITIONS = SampleFormat((2,), 0, 1.0)
Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "mse": partial(functional.mse_loss, reduction="none"),
    "cross-entropy": partial(functional.cross_entropy, reduction="none"),
}
"""laws of the losses (B,) of outputs (B,) or logits (B, classes), and labels (B,)"""


@dataclass(frozen=True)
class Blueprint:
    """What a stacked module is made of.

    source : code that makes one, a module itself, or its class. arguments : JSON. samples : None
    for positions. loss : a word, or code of a law as in LOSSES.
    """

    source: UserCode | nn.Module | type[nn.Module]
    arguments: str
    samples: SampleFormat | None
    loss: str | UserCode
    precision: int
    device: str

    @property
    def code(self) -> UserCode:
        """The code that is blamed for what the module does."""
        if isinstance(self.source, UserCode):
            return self.source
        return UserCode("learning.learner.module", type(self.source).__name__)


@lru_cache(maxsize=16)
def build_stacked(blueprint: Blueprint) -> "StackedModule":
    """The module, built and tried once; BadInput with one line where it cannot be trained."""
    return StackedModule(blueprint)


def choose_device(word: str) -> torch.device:
    """Where to compute: `auto` is the graphics card if torch sees one."""
    has_gpu = torch.cuda.is_available()
    if word == "cuda" and not has_gpu:
        raise BadInput(
            "learning.learner.device: torch sees no graphics card here; take auto or cpu"
        )
    if word == "auto":
        word = "cuda" if has_gpu else "cpu"
    return torch.device(word)


class StackedModule:
    """A module of which many copies with parameters of their own are computed at once.

    one_by_one : why UEs are trained one after the other; empty where they are stacked.
    mixes : whether the output for a sample depends on the other samples of its batch.
    layers : names of fully connected layers with biases that read one vector of each sample, in
    the order in which they run. reads_positions : whether the first of them reads the sample.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        source = blueprint.source
        word = getattr(source, "__name__", type(source).__name__)
        self.code = UserCode("learning.learner.module", word)
        if isinstance(source, UserCode):
            self.code = source
        self.loss_name = blueprint.loss
        self.is_position = blueprint.samples is None
        self.samples = blueprint.samples or _POSITIONS
        self.dtype = torch.float32 if blueprint.precision == 32 else torch.float64
        self.device = choose_device(blueprint.device)
        loss = blueprint.loss
        self.loss: Loss = loss.load() if isinstance(loss, UserCode) else LOSSES[loss]
        self._make: Callable[[], Any] = partial(deepcopy, source)
        if not isinstance(source, nn.Module):
            make = source.load() if isinstance(source, UserCode) else source
            self._make = self._add_facts(make, json.loads(blueprint.arguments))
        self.module = self._build(0)
        parameters = dict(self.module.named_parameters())
        self.names = [name for name, p in parameters.items() if p.requires_grad]
        self._refuse_parameters(parameters)
        self.shapes = [parameters[name].shape for name in self.names]
        self.sizes = [prod(shape) for shape in self.shapes]
        self.d = sum(self.sizes)
        constants = dict(self.module.named_buffers()) | parameters
        self._fixed = {
            name: tensor.detach().to(self.device, self._choose_dtype(tensor))
            for name, tensor in constants.items()
            if name not in self.names
        }
        self._try_out()

    def _add_facts(self, make: Callable[..., Any], arguments: dict[str, Any]) -> Callable[[], Any]:
        """What makes a module, with the facts of the samples that it asks for."""
        facts = {"shape": self.samples.shape, "classes": self.samples.classes}
        with self.code.try_out("its signature"):
            names = signature(make).parameters
        known = {name: fact for name, fact in facts.items() if name in names}
        return partial(make, **known | arguments)

    def _build(self, seed: int) -> nn.Module:
        """A module whose first weights follow from a seed."""
        with torch.random.fork_rng(), self.code.try_out("its construction"):
            torch.manual_seed(seed)
            module = self._make()
        if not isinstance(module, nn.Module):
            raise self._refuse(f"makes a {type(module).__name__}; let it make a torch.nn.Module")
        torch.func.replace_all_batch_norm_modules_(module)  # statistics of the batch alone
        return module

    def _flatten(self, module: nn.Module) -> FloatArray:
        parameters = dict(module.named_parameters())
        pieces = [parameters[name].detach().reshape(-1).double() for name in self.names]
        return torch.cat(pieces).cpu().numpy()

    def draw_parameters(self, n: int, rng: Rng) -> FloatArray:
        """First parameters (n, d) of n networks, each its own; those of a module that is given as
        an object, of all.
        """
        units = rng.uniform("module", np.arange(n)).tolist()
        return np.array([self._flatten(self._build(int(unit * 2**53))) for unit in units])

    def _choose_dtype(self, tensor: Tensor) -> torch.dtype:
        return self.dtype if tensor.is_floating_point() else tensor.dtype

    def _refuse(self, problem: str) -> BadInput:
        return BadInput(f"{self.code.key}: {self.code.text} {problem}")

    def _refuse_parameters(self, parameters: dict[str, nn.Parameter]) -> None:
        if not self.names:
            raise self._refuse("has no parameters to train; give it one that requires a gradient")
        for name in self.names:
            if nn.parameter.is_lazy(parameters[name]):
                raise self._refuse(f"has a lazy parameter {name}; state its layer's inputs")
            if not parameters[name].is_floating_point():
                raise self._refuse(f"has a complex parameter {name}; make it of real numbers")

    # -- trying it out

    def _try_out(self) -> None:
        """Refuse what cannot be trained, and find out what the module is."""
        unit = np.random.default_rng(0).random((_PROBED, prod(self.samples.shape)))
        x = self.to_inputs(torch.from_numpy(unit * self.samples.largest))
        y = self.to_labels(np.zeros((2, _PROBED)))
        w = torch.from_numpy(self._flatten(self.module)[None]).to(self.device, self.dtype)
        with self.code.try_out("its forward"), torch.no_grad():
            read = self.read_layers(w, x)
            out = self._call_one(w, x)
            self._refuse_output(out)
            half = self._call_one(w, x[:2])
            self._refuse_memory(w, x)
        self.mixes = not torch.allclose(half, out[:2], rtol=1e-3, atol=1e-5)
        self.layers = list(read)
        self.reads_positions = self.is_position and any(
            torch.equal(h[:, :2], x) for h in list(read.values())[:1]
        )
        self.one_by_one = "one alone"
        with self.code.try_out("training"):
            gradient = self.compute_gradients(w, x[None], y[:1])
            self.one_by_one = self._explain_loop(w.repeat(2, 1), torch.stack([x, x]), y)
        if not torch.isfinite(gradient).all():
            raise self._refuse(f"has gradients that are not finite{self._place}; mend it")

    @property
    def _place(self) -> str:
        """Where the forward pass is written."""
        code = getattr(type(self.module).forward, "__code__", None)
        return f", see {code.co_filename}:{code.co_firstlineno}" if code else ""

    def _refuse_output(self, out: Any) -> None:
        wanted = [_PROBED, self.samples.classes][: 2 if self.samples.classes else 1]
        shape = list(getattr(out, "shape", ()))
        if shape != wanted:
            hint = ", as out.squeeze(-1) has" if shape == [*wanted, 1] else ""
            raise self._refuse(
                f"returns the shape {shape} for {_PROBED} samples{self._place}; return "
                f"{wanted}{hint}"
            )
        if out.dtype != self.dtype:
            raise self._refuse(
                f"returns {out.dtype} for {self.dtype}{self._place}; make tensors with x.dtype"
            )
        if not torch.isfinite(out).all():
            raise self._refuse(f"returns numbers that are not finite{self._place}; mend it")

    def _refuse_memory(self, w: Tensor, x: Tensor) -> None:
        """Refuse a module that carries numbers from one UE to the next."""
        before = deepcopy(dict(self.module.named_buffers()))
        twice = []
        for _ in range(2):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                twice.append(self._call_one(w, x, training=True))
        for name, tensor in self.module.named_buffers():
            if not torch.equal(tensor, before[name]):
                raise self._refuse(f"changes its buffer {name}; make it a local variable")
        if not torch.equal(*twice):
            raise self._refuse(
                f"returns other numbers when called again{self._place}; let it remember nothing, "
                "and draw random numbers from torch alone"
            )

    def _explain_loop(self, w: Tensor, x: Tensor, y: Tensor) -> str:
        """Why UEs are trained one after the other; empty where they are stacked."""
        if self.mixes:
            return "the output for a sample depends on the others of its batch"
        if any(isinstance(m, nn.modules.conv._ConvNd) for m in self.module.modules()):
            return "convolutions are faster so"
        self.one_by_one = ""
        try:
            with warnings.catch_warnings(), torch.random.fork_rng():
                warnings.simplefilter("error")  # of operations that vmap takes one by one
                self.compute_gradients(w, x, y)
        except Exception as error:
            return f"torch.func.vmap cannot stack it ({to_one_line(str(error))[:100]})"
        return ""

    def read_layers(self, w: Tensor, x: Tensor) -> dict[str, Tensor]:
        """What fully connected layers with biases read (B, inputs) of samples (B, *shape), by
        their names, in the order in which they run: those that read one vector of each sample.
        """
        read: dict[str, list[Tensor]] = {}
        hooks = [
            module.register_forward_hook(
                lambda _, given, __, name=name: read.setdefault(name, []).append(given[0])
            )
            for name, module in self.module.named_modules()
            if isinstance(module, nn.Linear) and f"{name}.bias" in self.names
        ]
        try:
            self._call_one(w, x)
        finally:
            for hook in hooks:
                hook.remove()
        return {name: h[0] for name, h in read.items() if len(h) == 1 and h[0].dim() == 2}

    # -- computing

    def _call(self, pieces: list[Tensor], x: Tensor) -> Any:
        """Output of one network, pieces (*shape), for samples (B, *shape)."""
        named = dict(zip(self.names, pieces, strict=True))
        return torch.func.functional_call(self.module, named | self._fixed, (x,))

    def _call_one(self, w: Tensor, x: Tensor, training: bool = False) -> Any:
        """Output of the network w (1, d) for samples (B, *shape)."""
        self.module.train(training)
        return self._call([piece[0] for piece in self.unpack(w)], x)

    def unpack(self, w: Tensor) -> list[Tensor]:
        """Views of rows (k, d), one an array (k, *shape)."""
        pieces = torch.split(w, self.sizes, dim=1)
        return [p.view(-1, *shape) for p, shape in zip(pieces, self.shapes, strict=True)]

    def select_layer(self, rows: FloatArray, layer: str) -> FloatArray:
        """[W; b] (n, inputs + 1, units) of a fully connected layer in rows (n, d)."""
        arrays = dict(zip(self.names, self.unpack(torch.from_numpy(rows)), strict=True))
        weight = arrays[f"{layer}.weight"].transpose(1, 2)
        return torch.cat([weight, arrays[f"{layer}.bias"][:, None]], dim=1).numpy()

    @torch.no_grad()
    def compute_layer_input(self, parameters: FloatArray, x: FloatArray, layer: str) -> FloatArray:
        """What a layer of the network parameters (d,) reads of samples x (N, p): (N, inputs)."""
        w = torch.from_numpy(parameters[None]).to(self.device, self.dtype)
        return (
            self.read_layers(w, self.to_inputs(torch.from_numpy(x)))[layer].double().cpu().numpy()
        )

    def compute_losses(self, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Losses (k, B) in training of networks w (k, d) on samples x (k, B, *shape), y (k, B)."""
        if self.one_by_one or len(w) == 1:
            rows = [self._call_one(row[None], x[i], training=True) for i, row in enumerate(w)]
            out = torch.stack(rows)
        else:
            self.module.train()
            out = torch.func.vmap(self._call, randomness="different")(self.unpack(w), x)
        is_nan = torch.isnan(out).flatten(1).any(dim=1)
        if is_nan.any() and (w[is_nan].abs().amax(dim=1) < _LARGEST).any():  # it has not diverged
            raise self._refuse(f"returns NaN{self._place}; mend it")
        return self.apply_loss(out.flatten(0, 1), y.flatten()).view(y.shape)

    def apply_loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Losses (B,) of outputs and labels."""
        loss = self.loss(out, y)
        shape = getattr(loss, "shape", ())
        if shape != y.shape:
            raise BadInput(
                f"learning.learner.loss: it returns the shape {list(shape)} for {len(y)} samples; "
                "return one loss of each, as with reduction='none'"
            )
        return loss

    def compute_gradients(
        self, w: Tensor, x: Tensor, y: Tensor, live: Tensor | None = None
    ) -> Tensor:
        """Gradients (k, d) of each network's mean loss over its samples, those that are `live`
        (k, B).
        """
        leaf = w.detach().to(self.dtype).requires_grad_()
        losses = self.compute_losses(leaf, x, y)
        if live is None:
            mean = losses.mean(dim=1)
        else:
            mean = torch.where(live, losses, 0.0).sum(dim=1) / live.sum(dim=1)
        if not mean.requires_grad:
            raise self._refuse(f"returns what depends on no parameter{self._place}; mend it")
        return torch.autograd.grad(mean.sum(), leaf)[0]

    def to_inputs(self, x: Tensor) -> Tensor:
        """Samples (..., p) as the module reads them (..., *shape)."""
        inputs = x.to(self.device, self.dtype, copy=True)
        if self.samples.largest != 1:
            inputs /= self.samples.largest
        return inputs.view(*x.shape[:-1], *self.samples.shape)

    def to_labels(self, y: FloatArray) -> Tensor:
        """Labels as the loss reads them."""
        labels = torch.from_numpy(y).to(self.device)
        return labels.long() if self.samples.classes else labels.to(self.dtype)

    # -- training

    def train(
        self,
        start: FloatArray,
        data: Local,
        settings: LocalTraining,
        rng: Rng,
        offset: FloatArray | None = None,
    ) -> FloatArray:
        """Updates w_after - w_before, rows (n, d), of local training from start[data.model]
        (n_model, d).

        offset (n, d) is added to every gradient of a row. A row that overflows stays non-finite;
        one without samples is zero.
        """
        values = np.zeros((len(data.ue), self.d))
        clips = settings.sample_clip is not None
        n_samples = settings.compute_batch_sizes(data.count).max(initial=1)
        per_sample = data.x.shape[1] + _ACTIVATIONS + self.d * clips
        together = 1 if self.one_by_one else _NUMBERS // (self.d + n_samples * per_sample)
        # clipped gradients are added up in double precision
        number = torch.float64 if clips else self.dtype
        first = torch.from_numpy(start).to(self.device, number)
        ordered = settings.order_rows(data.count)
        for block in split_blocks(len(ordered), max(1, int(together))):
            rows = ordered[block]
            before = first[torch.from_numpy(data.model[rows])]
            pull = np.zeros((len(rows), 1)) if offset is None else offset[rows]
            with torch.random.fork_rng(), self.code.blame("training"):
                torch.manual_seed(int(rng.uniform("module", data.row[rows[:1]])[0] * 2**53))
                after = self._train(before, data.select(rows), settings, rng, pull)
            values[rows] = (after - before).double().cpu().numpy()
        return values

    def _train(
        self, before: Tensor, data: Local, settings: LocalTraining, rng: Rng, offset: FloatArray
    ) -> Tensor:
        """Networks (k, d) after training of k UEs, those with the most steps first."""
        w = before.clone()
        x = torch.from_numpy(data.x).to(self.device)
        y = self.to_labels(np.zeros(len(data.x)) if data.y is None else data.y)
        pull = torch.from_numpy(offset).to(w)
        memory = settings.optimiser.start(w.cpu().numpy())
        for t, index, use in _plan_steps(data, settings, rng):
            k = len(index)
            now = w[:k]
            batch = torch.from_numpy(index).to(self.device)
            live = torch.from_numpy(use).to(self.device)
            inputs = self.to_inputs(x[batch])
            g = self._compute_step_gradients(now, inputs, y[batch], live, settings.sample_clip)
            if settings.proximal:
                g += settings.proximal * (now - before[:k])
            if settings.weight_decay:
                g += settings.weight_decay * now
            if offset.any():
                g += pull[:k]
            if isinstance(settings.optimiser, Sgd):
                now.add_(g, alpha=-settings.learning_rate)
                continue
            rows = now.cpu().numpy()  # the same memory, unless on a graphics card
            moments = [m[:k] for m in memory]
            with np.errstate(over="ignore", invalid="ignore"):
                settings.optimiser.step(rows, g.cpu().numpy(), moments, settings.learning_rate, t)
            if now.is_cuda:
                now.copy_(torch.from_numpy(rows))
        return w

    def _compute_step_gradients(
        self, w: Tensor, x: Tensor, y: Tensor, live: Tensor, clip: float | None
    ) -> Tensor:
        """Gradients (k, d) of batches (k, B), of samples that are cut to norm clip one by one."""
        if clip is None:
            return self.compute_gradients(w, x, y, None if live.all() else live)
        single = w.to(self.dtype).repeat_interleave(y.shape[1], dim=0)  # (k B, d)
        gradients = self.compute_gradients(single, x.flatten(0, 1)[:, None], y.view(-1, 1))
        rows = zip(gradients.view(*y.shape, -1), live, strict=True)
        clipped = torch.stack([sum_clipped(gradient[use], clip) for gradient, use in rows])
        return clipped / live.sum(dim=1, keepdim=True)

    # -- asking

    @torch.no_grad()
    def predict(self, parameters: FloatArray, model_of: IntArray, x: FloatArray) -> Tensor:
        """Outputs (N,) or (N, classes) of samples x (N, p) by networks parameters (n_model, d)."""
        shape = [len(x), self.samples.classes][: 2 if self.samples.classes else 1]
        out = torch.empty(shape, dtype=self.dtype, device=self.device)
        samples = torch.from_numpy(x)
        weights = torch.from_numpy(parameters).to(self.device, self.dtype)
        for m in np.unique(model_of).tolist():
            of_model = np.flatnonzero(model_of == m)
            for block in split_blocks(len(of_model), _SAMPLES):
                rows = of_model[block]
                with self.code.blame("its forward"):
                    out[rows] = self._call_one(weights[m : m + 1], self.to_inputs(samples[rows]))
        return out

    def compute_record_gradients(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Gradient (N, d) of each sample's loss."""
        gradients = np.empty((len(x), self.d))
        for block in split_blocks(len(x), max(1, _NUMBERS // self.d)):
            w = torch.from_numpy(parameters[model_of[block]]).to(self.device)
            labels = self.to_labels(y[block, None])
            inputs = self.to_inputs(torch.from_numpy(x[block, None]))
            with self.code.blame("training"):
                g = self.compute_gradients(w, inputs, labels)
            gradients[block] = g.cpu().numpy()
        return gradients


def sum_clipped(gradient: Tensor, clip: float) -> Tensor:
    """Sum (d,) in double precision of gradients (n, d), each cut to norm clip. Numbers that are not
    finite are 0.
    """
    gradients = gradient.nan_to_num().double()
    # rounding of the norm and of the sum, of a million numbers, must not exceed the bound
    max_norm = 0.999999999 * clip
    return max_norm / torch.linalg.vector_norm(gradients, dim=1).clamp(min=max_norm) @ gradients


def _plan_steps(
    data: Local, settings: LocalTraining, rng: Rng
) -> Iterator[tuple[IntArray, IntArray, BoolArray]]:
    """Of each step its number for every UE (k, 1), samples of the batches (k, B), and which of them
    are no padding (k, B), where that is a UE's first sample of the batch.
    """
    size = settings.compute_batch_sizes(data.count)
    steps = -(-data.count // size)
    for epoch in range(settings.local_epochs):
        order = np.arange(len(data.x))
        if not settings.is_full_batch:  # whatever a UE has, alone or with others
            order = rng.draw_orders(f"order{epoch}m", data.row, data.count)
            order += np.repeat(data.ptr[:-1], data.count)
        for step in range(steps[0]):
            k = np.count_nonzero(steps > step)
            start = data.ptr[:k] + step * size[:k]
            n = np.minimum(data.ptr[1 : k + 1] - start, size[:k])
            slot = np.arange(n.max())
            live = slot < n[:, None]
            index = order[start[:, None] + np.where(live, slot, 0)]
            yield epoch * steps[:k, None] + step + 1, index, live
