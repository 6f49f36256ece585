"""Any torch module as a law on flat parameter rows, many networks at once.

Parameters of k networks are rows (k, d): the arrays of `module.named_parameters()` that require a
gradient, in this order, each flattened in C order. UEs are stacked by `torch.func`: short batches
are padded, and padding enters no loss. A module runs for one UE after the other, each on its exact
batches, where stacking would be wrong or slow (`StackedModule.one_by_one`).
"""

import json
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import signature
from math import prod
from typing import Any, Literal

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

_BLOCK_BYTES = 192 * 2**20  # of all numbers of UEs that are stacked
_WEIGHT_BYTES = 8 * 2**20  # of their weights, chosen for speed
_SAMPLES = 2000  # scored together: batch normalisation takes its statistics from them
_PROBED = 4  # samples
_LARGEST = 1e3  # weight of a network that has not diverged
_POSITIONS = SampleFormat((2,), 0, 1.0)
Device = Literal["auto", "cpu", "cuda"]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Blueprint:
    """What a stacked module is made of.

    module : code that makes one, or a module itself. arguments : JSON. samples : None for
    positions. loss : a word, or code of a law (outputs (B, ...), labels (B,)) -> losses (B,).
    """

    module: UserCode | nn.Module
    arguments: str
    samples: SampleFormat | None
    loss: str | UserCode | Loss
    precision: int
    device: Device

    @property
    def code(self) -> UserCode:
        """The code that is blamed for what the module does."""
        if isinstance(self.module, UserCode):
            return self.module
        return UserCode("learning.learner.module", type(self.module).__name__, "")


@lru_cache(maxsize=16)
def build_stacked(blueprint: Blueprint) -> "StackedModule":
    """The module, built and tried once; BadInput with one line where it cannot be trained."""
    return StackedModule(blueprint)


def choose_device(word: Device) -> torch.device:
    """Where to compute: `auto` is the graphics card if torch sees one."""
    has_gpu = torch.cuda.is_available()
    if word == "cuda" and not has_gpu:
        raise BadInput(
            "learning.learner.device: torch sees no graphics card here; take auto or cpu"
        )
    if word == "auto":
        word = "cuda" if has_gpu else "cpu"
    return torch.device(word)


def compute_squared_errors(outputs: Tensor, labels: Tensor) -> Tensor:
    """(B,)."""
    return (outputs - labels) ** 2


def compute_cross_entropies(outputs: Tensor, labels: Tensor) -> Tensor:
    """Losses (B,) in nats of logits (B, classes)."""
    return functional.cross_entropy(outputs, labels, reduction="none")


_LOSSES: dict[str, Loss] = {
    "mse": compute_squared_errors,
    "cross-entropy": compute_cross_entropies,
}


class StackedModule:
    """A module of which many copies with parameters of their own are computed at once.

    one_by_one : why UEs are trained one after the other; empty where they are stacked.
    mixes : whether the output for a sample depends on the other samples of its batch.
    layers : names of fully connected layers with biases that read one vector of each sample, in
    the order in which they run. reads_positions : whether the first of them reads the sample.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.code = blueprint.code
        self.samples = blueprint.samples or _POSITIONS
        self.dtype = torch.float32 if blueprint.precision == 32 else torch.float64
        self.device = choose_device(blueprint.device)
        self._make = self._load()
        self.loss = self._load_loss()
        self.module = self._build(0)
        parameters = dict(self.module.named_parameters())
        self.names = [name for name, p in parameters.items() if p.requires_grad]
        self._refuse_parameters(parameters)
        self.shapes = [tuple(parameters[name].shape) for name in self.names]
        self.sizes = [prod(shape) for shape in self.shapes]
        self.first = dict(zip(self.names, np.cumsum([0, *self.sizes]).tolist(), strict=False))
        self.d = sum(self.sizes)
        self._fixed = {
            name: tensor.detach().to(self.device, self._choose_dtype(tensor))
            for name, tensor in (*parameters.items(), *self.module.named_buffers())
            if name not in self.names
        }
        self._try_out()

    # -- building

    def _load(self) -> Callable[[], nn.Module]:
        source = self.blueprint.module
        if isinstance(source, nn.Module):
            return partial(deepcopy, source)
        make = source.load()
        given = json.loads(self.blueprint.arguments)
        facts = {"shape": self.samples.shape, "classes": self.samples.classes}
        with source.try_out("its signature"):
            names = signature(make).parameters
        known = {name: fact for name, fact in facts.items() if name in names}
        return lambda: make(**known | given)

    def _load_loss(self) -> Loss:
        loss = self.blueprint.loss
        if isinstance(loss, UserCode):
            return loss.load()
        return _LOSSES[loss] if isinstance(loss, str) else loss

    def _build(self, seed: int) -> nn.Module:
        """A module whose first weights follow from a seed."""
        with torch.random.fork_rng(devices=[]), self.code.try_out("building it"):
            torch.manual_seed(seed)
            module = self._make()
        if not isinstance(module, nn.Module):
            self._refuse(f"is no torch.nn.Module, but {type(module).__name__}; derive it from one")
        torch.func.replace_all_batch_norm_modules_(module)  # statistics of the batch alone
        return module

    def draw_parameters(self, n: int, rng: Rng) -> FloatArray:
        """First parameters (n, d) of n networks, each its own; those of a module that is given as
        an object, of all.
        """
        rows = []
        for unit in rng.uniform("module", np.arange(n)).tolist():
            parameters = dict(self._build(int(unit * 2**53)).named_parameters())
            pieces = [parameters[name].detach().reshape(-1).double() for name in self.names]
            rows.append(torch.cat(pieces).cpu().numpy())
        return np.array(rows).reshape(n, self.d)

    def _choose_dtype(self, tensor: Tensor) -> torch.dtype:
        return self.dtype if tensor.is_floating_point() else tensor.dtype

    def _refuse(self, problem: str) -> None:
        raise BadInput(f"{self.code.key}: {self.code.text} {problem}")

    def _refuse_parameters(self, parameters: dict[str, nn.Parameter]) -> None:
        if not self.names:
            self._refuse("has no parameters to train; give it one that requires a gradient")
        for name in self.names:
            dtype = parameters[name].dtype
            if not dtype.is_floating_point:
                self._refuse(f"has a parameter {name} of {dtype}; parameters are real numbers")
            if nn.parameter.is_lazy(parameters[name]):
                self._refuse(f"has a lazy parameter {name}; give its layer the number of inputs")

    # -- trying it out

    def _try_out(self) -> None:
        """Refuse what cannot be trained, and find out what the module is."""
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(_PROBED, *self.samples.shape, generator=generator).to(
            self.device, self.dtype
        )
        parameters = dict(self.module.named_parameters())
        pieces = [parameters[name].detach().reshape(-1) for name in self.names]
        w = torch.cat(pieces).to(self.device, self.dtype)[None]
        with self.code.try_out("the forward pass"), torch.no_grad():
            self.layers, self.activations, self.reads_positions, out = self._listen(w, x)
            self._check_output(out)
            half = self._call_one(w, x[: _PROBED // 2])
            self.mixes = not torch.allclose(half, out[: _PROBED // 2], rtol=1e-3, atol=1e-5)
        with self.code.try_out("training"):
            self._refuse_memory(w, x)
            self.one_by_one = ""
            self.one_by_one = self._explain_loop(w, x)
            labels = self._draw_labels(1)
            gradient = self.compute_gradients(w, x[None], labels)
        if not torch.isfinite(gradient).all():
            self._refuse(f"has gradients that are not finite at {self._find_line()}; mend it")

    def _draw_labels(self, k: int) -> Tensor:
        zeros = torch.zeros(k, _PROBED, device=self.device, dtype=self.dtype)
        return zeros.long() if self.samples.classes else zeros

    def _find_line(self) -> str:
        """Where the forward pass is written."""
        code = getattr(type(self.module).forward, "__code__", None)
        return "its forward" if code is None else f"{code.co_filename}:{code.co_firstlineno}"

    def _check_output(self, out: Any) -> None:
        classes = self.samples.classes
        want = (_PROBED, classes) if classes else (_PROBED,)
        place = self._find_line()
        if not isinstance(out, Tensor):
            self._refuse(f"returns {type(out).__name__} at {place}; return one tensor {want}")
        if tuple(out.shape) != want:
            hint = ".squeeze(-1)" if tuple(out.shape) == (_PROBED, 1) and not classes else ""
            self._refuse(
                f"returns the shape {tuple(out.shape)} for {_PROBED} samples at {place}; return "
                f"{want}{f', as out{hint} has' if hint else ''}"
            )
        if out.dtype != self.dtype:
            self._refuse(
                f"returns {out.dtype} for {self.dtype} at {place}; make tensors with dtype=x.dtype"
            )
        if not torch.isfinite(out).all():
            self._refuse(f"returns numbers that are not finite at {place}; mend it")

    def _refuse_memory(self, w: Tensor, x: Tensor) -> None:
        """Refuse a module in training that changes its buffers, or whose output depends on what it
        has seen before.
        """
        before = {name: tensor.clone() for name, tensor in self.module.named_buffers()}
        twice = []
        for _ in range(2):
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(0)
                twice.append(self._call_one(w, x, training=True))
        for name, tensor in self.module.named_buffers():
            if not torch.equal(tensor, before[name]):
                self._refuse(
                    f"changes its buffer {name} in training, which would carry numbers from one UE "
                    "to the next; make it a local variable"
                )
        if not torch.equal(twice[0], twice[1]):
            self._refuse(
                f"returns other numbers for the same samples at {self._find_line()}; it may "
                "remember nothing, and draw random numbers from torch alone"
            )

    def _explain_loop(self, w: Tensor, x: Tensor) -> str:
        """Why UEs are trained one after the other; empty where they are stacked."""
        if self.mixes:
            return "the output for a sample depends on the others of its batch"
        if any(isinstance(m, nn.modules.conv._ConvNd) for m in self.module.modules()):
            return "convolutions are faster so"
        two = torch.cat([w, 1.1 * w])
        both = torch.stack([x, x.flip(0)])
        labels = self._draw_labels(2)
        expected = [
            self.compute_gradients(two[i : i + 1], both[i : i + 1], labels[:1]) for i in range(2)
        ]
        try:
            with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
                warnings.simplefilter("error")  # of operations that vmap takes one by one
                found = self.compute_gradients(two, both, labels)
        except Exception as error:
            return f"torch.func.vmap cannot stack it ({to_one_line(str(error))[:100]})"
        is_random = any("Dropout" in type(m).__name__ for m in self.module.modules())
        if not is_random and not torch.allclose(found, torch.cat(expected), rtol=1e-3, atol=1e-5):
            return "torch.func.vmap gives other gradients"
        return ""

    def _listen(self, w: Tensor, x: Tensor) -> tuple[list[str], int, bool, Any]:
        """Layers, numbers that a sample leaves in the modules, whether the first layer reads
        positions, and the output.
        """
        read: dict[str, list[Tensor]] = {}
        n_numbers = [0]
        hooks = []

        def hear(name: str, given: Any, out: Any) -> None:
            if isinstance(out, Tensor):
                n_numbers[0] += out.numel() // _PROBED
            if name and given and isinstance(given[0], Tensor):
                read.setdefault(name, []).append(given[0])

        for name, module in self.module.named_modules():
            names = f"{name}.weight", f"{name}.bias"
            is_layer = isinstance(module, nn.Linear) and all(n in self.names for n in names)
            hooks.append(
                module.register_forward_hook(
                    lambda _, given, out, name=name if is_layer else "": hear(name, given, out)
                )
            )
        try:
            out = self._call_one(w, x)
        finally:
            for hook in hooks:
                hook.remove()
        layers = [
            name for name, h in read.items() if len(h) == 1 and h[0].shape[:-1] == x.shape[:1]
        ]
        first = read[layers[0]][0] if layers else x[:, :0]
        is_read = x.dim() == 2 and torch.equal(first[:, : x.shape[1]], x)
        return layers, n_numbers[0], is_read, out

    # -- computing

    def _call(self, pieces: list[Tensor], x: Tensor) -> Tensor:
        """Output of one network, pieces (*shape), for samples (B, *shape)."""
        named = dict(zip(self.names, pieces, strict=True))
        return torch.func.functional_call(self.module, named | self._fixed, (x,))

    def _call_one(self, w: Tensor, x: Tensor, training: bool = False) -> Tensor:
        """Output of the network w (1, d) for samples (B, *shape)."""
        self.module.train(training)
        return self._call([piece[0] for piece in self.unpack(w)], x)

    def unpack(self, w: Tensor) -> list[Tensor]:
        """Views of rows (k, d), one an array (k, *shape)."""
        pieces = torch.split(w, self.sizes, dim=1)
        return [p.view(-1, *shape) for p, shape in zip(pieces, self.shapes, strict=True)]

    def select(self, rows: FloatArray, name: str) -> FloatArray:
        """The array (n, *shape) of a name in rows (n, d)."""
        i = self.names.index(name)
        start = self.first[name]
        return rows[:, start : start + self.sizes[i]].reshape(-1, *self.shapes[i])

    def compute_losses(self, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Losses (k, B) in training of networks w (k, d) on samples x (k, B, *shape), y (k, B)."""
        if self.one_by_one or len(w) == 1:
            rows = [self._call_one(w[i : i + 1], x[i], training=True) for i in range(len(w))]
            out = torch.stack(rows)
        else:
            self.module.train()
            out = torch.func.vmap(self._call, randomness="different")(self.unpack(w), x)
        if torch.isnan(out).any():
            self._blame_nan(w, out)
        return self._apply_loss(out.flatten(0, 1), y.flatten()).view(y.shape)

    def _apply_loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Losses (B,)."""
        loss = self.loss(out, y)
        if not isinstance(loss, Tensor) or loss.shape != y.shape:
            shape = tuple(getattr(loss, "shape", ()))
            raise BadInput(
                f"learning.learner.loss: it returns the shape {shape} for {len(y)} samples; return "
                f"one loss of each ({len(y)},), as with reduction='none'"
            )
        return loss

    def _blame_nan(self, w: Tensor, out: Tensor) -> None:
        """Refuse outputs that are not numbers, unless the weights have diverged."""
        size = w.detach().abs().amax(dim=1)
        row = torch.isnan(out).flatten(1).any(dim=1) & (size < _LARGEST)
        if row.any():
            self._refuse(
                f"returns NaN at {self._find_line()} under weights of at most "
                f"{float(size[row].max()):.3g}; mend it"
            )

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
            self._refuse(f"has an output that depends on no parameter at {self._find_line()}")
        return torch.autograd.grad(mean.sum(), leaf)[0]

    def to_inputs(self, x: FloatArray) -> Tensor:
        """Samples (..., p) as the module reads them (..., *shape)."""
        inputs = torch.from_numpy(x).to(self.device, self.dtype)
        if self.blueprint.samples is not None:
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
        (n_model, d), on samples x as the module reads them, flat, and labels y.

        offset (n, d) is added to every gradient of a row. A row that overflows stays non-finite;
        one without samples is zero.
        """
        values = np.zeros((len(data.ue), self.d))
        ordered = settings.order_rows(data.count)
        clips = settings.sample_clip is not None
        n_samples = int(settings.compute_batch_sizes(data.count).max(initial=1))
        per_sample = 4 * (prod(self.samples.shape) + self.activations) + (self.d if clips else 0)
        n_bytes = settings.precision // 8
        per_row = n_bytes * (6 * self.d + n_samples * per_sample)
        together = min(_BLOCK_BYTES // per_row, _WEIGHT_BYTES // (n_bytes * self.d))
        if self.one_by_one:
            together = 1
        number = torch.float64 if clips else self.dtype
        first = torch.from_numpy(start).to(self.device, number)
        for block in split_blocks(len(ordered), max(1, together)):
            rows = ordered[block]
            before = first[torch.from_numpy(data.model[rows])]
            pull = None
            if offset is not None:
                pull = torch.from_numpy(offset[rows]).to(self.device, number)
            with self.code.blame("training"), self._draw_from(rng, data.row[rows[:1]]):
                after = self._train(before, data.select(rows), settings, rng, pull)
            values[rows] = (after - before).double().cpu().numpy()
        return values

    @contextmanager
    def _draw_from(self, rng: Rng, owner: IntArray) -> Generator[None]:
        """Torch's random numbers from the run's stream, of the first UE that is stacked."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(rng.uniform("module", owner)[0] * 2**53))
            yield

    def _train(
        self, before: Tensor, data: Local, settings: LocalTraining, rng: Rng, pull: Tensor | None
    ) -> Tensor:
        """Networks (k, d) after training of k UEs, those with the most samples first."""
        w = before.clone()
        x = self.to_inputs(data.x)
        y = self.to_labels(np.zeros(len(data.x)) if data.y is None else data.y)
        memory = settings.optimiser.start(w.cpu().numpy())
        for t, index, live in _plan_steps(data, settings, rng):
            k = len(index)
            places = torch.from_numpy(index).to(self.device)
            use = None if live.all() else torch.from_numpy(live).to(self.device)
            g = self._compute_step_gradients(w[:k], x[places], y[places], use, settings)
            if settings.proximal:
                g += settings.proximal * (w[:k] - before[:k])
            if settings.weight_decay:
                g += settings.weight_decay * w[:k]
            if pull is not None:
                g += pull[:k]
            _move_weights(w[:k], g, settings, [m[:k] for m in memory], t)
        return w

    def _compute_step_gradients(
        self, w: Tensor, x: Tensor, y: Tensor, live: Tensor | None, settings: LocalTraining
    ) -> Tensor:
        """Gradients (k, d) of batches, of samples that are clipped one by one where settings say
        so.
        """
        clip = settings.sample_clip
        if clip is None:
            return self.compute_gradients(w, x, y, live)
        k, n = y.shape
        single = w.to(self.dtype).repeat_interleave(n, dim=0)  # (k n, d): a network of each sample
        gradients = self.compute_gradients(single, x.flatten(0, 1)[:, None], y.view(-1, 1))
        use = torch.ones_like(y, dtype=torch.bool) if live is None else live
        rows = zip(gradients.view(k, n, -1), use, strict=True)
        clipped = torch.stack([sum_clipped(gradient[mask], clip) for gradient, mask in rows])
        return clipped / use.sum(dim=1, keepdim=True)

    # -- asking

    @torch.no_grad()
    def predict(self, parameters: FloatArray, model_of: IntArray, x: FloatArray) -> Tensor:
        """Outputs (N,) or (N, classes) of samples x (N, p) by networks parameters (n_model, d)."""
        out = torch.empty(len(x), *([self.samples.classes] if self.samples.classes else []))
        out = out.to(self.dtype)
        for w, block in self._split_models(parameters, model_of):
            with self.code.blame("the forward pass"):
                out[block] = self._call_one(w, self.to_inputs(x[block])).cpu()
        return out

    def compute_record_losses(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Loss (N,) of each sample."""
        out = self.predict(parameters, model_of, x).to(self.device)
        return self._apply_loss(out, self.to_labels(y)).detach().double().cpu().numpy()

    def compute_record_gradients(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Gradients (b, d) of blocks of samples."""
        together = max(1, _BLOCK_BYTES // (32 * self.d))
        for block in split_blocks(len(x), together):
            w = torch.from_numpy(parameters[model_of[block]]).to(self.device, self.dtype)
            inputs = self.to_inputs(x[block])[:, None]
            with self.code.blame("training"):
                g = self.compute_gradients(w, inputs, self.to_labels(y[block])[:, None])
            yield block, g.double().cpu().numpy()

    @torch.no_grad()
    def compute_layer_inputs(self, parameters: FloatArray, x: FloatArray, layer: str) -> FloatArray:
        """What a fully connected layer of the network parameters (d,) reads of samples x (N, p):
        (N, inputs).
        """
        read: list[Tensor] = []
        hook = self.module.get_submodule(layer).register_forward_pre_hook(
            lambda _, given: read.append(given[0].double().cpu())
        )
        try:
            self.predict(parameters[None], np.zeros(len(x), dtype=int), x)
        finally:
            hook.remove()
        return torch.cat(read).numpy()

    def _split_models(
        self, parameters: FloatArray, model_of: IntArray
    ) -> Iterator[tuple[Tensor, IntArray]]:
        """Each network (1, d) with samples that it is asked for, some at a time."""
        for m in np.unique(model_of).tolist():
            of_model = np.flatnonzero(model_of == m)
            w = torch.from_numpy(parameters[m : m + 1]).to(self.device, self.dtype)
            for part in split_blocks(len(of_model), _SAMPLES):
                yield w, of_model[part]


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
    count = data.count
    size = settings.compute_batch_sizes(count)
    steps = -(-count // size)
    for epoch in range(settings.local_epochs):
        order = np.arange(len(data.x))
        if (steps > 1).any():
            mixed = rng.draw_orders(f"order{epoch}m", data.row, count)
            order = mixed + np.repeat(data.ptr[:-1], count)
        for step in range(steps[0]):
            k = np.count_nonzero(steps > step)
            taken = step * size[:k]
            n = np.minimum(count[:k] - taken, size[:k])[:, None]
            slot = np.arange(n.max())
            live = slot < n
            start = (data.ptr[:k] + taken)[:, None]
            yield epoch * steps[:k, None] + step + 1, order[start + np.where(live, slot, 0)], live


def _move_weights(
    w: Tensor, g: Tensor, settings: LocalTraining, memory: list[FloatArray], t: IntArray
) -> None:
    """One step of the optimiser on networks w (k, d), in place."""
    if isinstance(settings.optimiser, Sgd):
        w.add_(g, alpha=-settings.learning_rate)
        return
    rows = w.cpu().numpy()  # the same memory, unless on a graphics card
    with np.errstate(over="ignore", invalid="ignore"):
        settings.optimiser.step(rows, g.cpu().numpy(), memory, settings.learning_rate, t)
    if w.is_cuda:
        w.copy_(torch.from_numpy(rows))
