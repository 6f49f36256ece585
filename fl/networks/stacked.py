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
from functools import lru_cache, partial
from inspect import signature
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook

from fl.networks.training import Batches, Gradients, train_networks
from fl.networks.user_code import UserCode
from fl.optimisers import LocalTraining
from fl.types import Local, SampleFormat, split_by_model
from netsim.columns import split_blocks
from netsim.errors import BadInput, to_one_line
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_NUMBERS = 2**23  # of weights and samples that are stacked, chosen for speed
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

    def __init__(
        self,
        code: UserCode,
        module: nn.Module | type[nn.Module] | None,
        arguments: str,
        samples: SampleFormat | None,
        loss: str | UserCode,
        precision: int,
        device: str,
    ) -> None:
        """module : a module or a class, or None where `code` makes one, and is blamed.

        arguments : JSON. samples : None for positions. loss : a word, or code of a law as in
        LOSSES. BadInput with one line where the module cannot be trained.
        """
        self.code = code
        self.loss_name = loss
        self.is_position = samples is None
        self.samples = samples or _POSITIONS
        self.dtype = torch.float32 if precision == 32 else torch.float64
        self.device = choose_device(device)
        self.loss: Loss = loss.load() if isinstance(loss, UserCode) else LOSSES[loss]
        make: Any = code.load() if module is None else module
        self._make: Callable[[], Any] = partial(deepcopy, make)
        if not isinstance(make, nn.Module):
            facts = {"shape": self.samples.shape, "classes": self.samples.classes}
            with code.try_out("its signature"):
                names = signature(make).parameters
            known = {name: fact for name, fact in facts.items() if name in names}
            self._make = partial(make, **known | json.loads(arguments))
        self.module = self._build(0)
        parameters = dict(self.module.named_parameters())
        self.names = [name for name, p in parameters.items() if p.requires_grad]
        self._refuse_parameters(parameters)
        self.shapes = [parameters[name].shape for name in self.names]
        self.sizes = [prod(shape) for shape in self.shapes]
        self.d = sum(self.sizes)
        first = self._flatten(self.module)
        self.module.to(self.device, self.dtype)
        self._try_out(self._to_weights(first[None]))

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
        pieces = [p.detach().flatten() for p in module.parameters() if p.requires_grad]
        return torch.cat(pieces).double().numpy(force=True)

    def _to_weights(self, parameters: FloatArray) -> Tensor:
        return torch.from_numpy(parameters).to(self.device, self.dtype)

    def draw_parameters(self, n: int, rng: Rng) -> FloatArray:
        """First parameters (n, d) of n networks, each its own; those of a module that is given as
        an object, of all.
        """
        units = rng.uniform("module", np.arange(n)).tolist()
        return np.array([self._flatten(self._build(int(unit * 2**53))) for unit in units])

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

    @property
    def _output_shape(self) -> list[int]:
        """Of the output for a sample."""
        return [self.samples.classes] if self.samples.classes else []

    # -- trying it out

    def _try_out(self, w: Tensor) -> None:
        """Refuse what cannot be trained, and find out what the module is."""
        unit = np.random.default_rng(0).random((_PROBED, prod(self.samples.shape)))
        x = self.to_inputs(torch.from_numpy(unit * self.samples.largest))
        y = self.to_labels(np.zeros((2, _PROBED)))
        with self.code.try_out("its forward"), torch.no_grad():
            read = self.read_layers(w, x)
            out = self._call_one(w, x)
            self._refuse_output(out)
            half = self._call_one(w, x[:2])
            self._refuse_memory(w, x)
        self.mixes = not torch.allclose(half, out[:2], rtol=1e-3, atol=1e-5)
        self.layers = list(read)
        first = next(iter(read.values()), x[:0])
        self.reads_positions = self.is_position and torch.equal(first[:, :2], x)
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
        wanted = [_PROBED, *self._output_shape]
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
        names = {
            module: name
            for name, module in self.module.named_modules()
            if isinstance(module, nn.Linear) and f"{name}.bias" in self.names
        }
        read: dict[nn.Module, list[Tensor]] = {}

        def keep_input(module: nn.Module, given: tuple[Tensor, ...], _: object) -> None:
            read.setdefault(module, []).append(given[0])

        with register_module_forward_hook(keep_input):
            self._call_one(w, x)
        return {
            names[module]: h[0]
            for module, h in read.items()
            if module in names and len(h) == 1 and h[0].dim() == 2
        }

    # -- computing

    def _call(self, pieces: list[Tensor], x: Tensor) -> Any:
        """Output of one network, pieces (*shape), for samples (B, *shape)."""
        named = dict(zip(self.names, pieces, strict=True))
        return torch.func.functional_call(self.module, named, (x,))

    def _call_one(self, w: Tensor, x: Tensor, training: bool = False) -> Any:
        """Output of the network w (1, d) for samples (B, *shape)."""
        self.module.train(training)
        return self._call([piece[0] for piece in self.unpack(w)], x)

    def unpack(self, w: Tensor) -> list[Tensor]:
        """Views of rows (k, d), one an array (k, *shape)."""
        pieces = torch.split(w, self.sizes, dim=1)
        return [p.view(-1, *shape) for p, shape in zip(pieces, self.shapes, strict=True)]

    def select_layer(self, rows: FloatArray, layer: str) -> FloatArray:
        """[W; b] (n, inputs + 1, units) of a fully connected layer in the first d numbers of
        rows.
        """
        pieces = self.unpack(torch.from_numpy(rows[:, : self.d]))
        arrays = dict(zip(self.names, pieces, strict=True))
        weight = arrays[f"{layer}.weight"].transpose(1, 2)
        return torch.cat([weight, arrays[f"{layer}.bias"][:, None]], dim=1).numpy()

    @torch.no_grad()
    def compute_layer_input(self, parameters: FloatArray, x: FloatArray, layer: str) -> FloatArray:
        """What a layer of the network parameters (d,) reads of samples x (N, p): (N, inputs)."""
        inputs = self.to_inputs(torch.from_numpy(x))
        read = self.read_layers(self._to_weights(parameters[None]), inputs)
        return read[layer].double().numpy(force=True)

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
        read: Callable[[Local], Local],
        offset: FloatArray | None = None,
    ) -> FloatArray:
        """Updates, rows (n, d), as in `fl.networks.training.train_networks`.

        `read` makes of some rows of data those that the module and its loss read.
        """
        clips = settings.sample_clip is not None
        n_samples = settings.compute_batch_sizes(data.count).max(initial=1)
        per_sample = data.x.shape[1] + _ACTIVATIONS + self.d * clips
        together = 1 if self.one_by_one else _NUMBERS // (self.d + n_samples * per_sample)

        def begin(rows: Local) -> _StackedGradients:
            torch.manual_seed(int(rng.uniform("module", rows.row[:1])[0] * 2**53))
            return _StackedGradients(self, read(rows), settings, rng)

        # clipped gradients are added up in double precision
        first = start.astype(float if clips else settings.dtype)
        with torch.random.fork_rng(), self.code.blame("training"):
            # blocks in turn: they share a module, and the stream of torch
            return train_networks(first, data, settings, together, begin, offset, map)

    # -- asking

    @torch.no_grad()
    def predict(self, parameters: FloatArray, model_of: IntArray, x: FloatArray) -> Tensor:
        """Outputs (N,) or (N, classes), not on a graphics card, of samples x (N, p) by networks
        parameters (n_model, d).
        """
        out = torch.empty([len(x), *self._output_shape], dtype=self.dtype)
        weights = self._to_weights(parameters)
        with self.code.blame("its forward"), torch.random.fork_rng():
            torch.manual_seed(0)  # of what draws in evaluation too
            for m, rows in split_by_model(model_of, _SAMPLES):
                inputs = self.to_inputs(torch.from_numpy(x[rows]))
                out[rows] = self._call_one(weights[m : m + 1], inputs).cpu()
        return out

    def compute_sample_gradients(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Gradient (N, d) of each sample's loss."""
        gradients = np.empty((len(x), self.d))
        for rows, g in self._iterate_gradients(parameters, model_of, x, y):
            gradients[rows] = g
        return gradients

    def compute_sample_gradient_norms(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """L2 norm (N,) of the gradient of each sample's loss."""
        norm = np.empty(len(x))
        for rows, g in self._iterate_gradients(parameters, model_of, x, y):
            norm[rows] = np.linalg.norm(g, axis=1)
        return norm

    def _iterate_gradients(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Gradients (n, d) in double precision of some samples after the other."""
        for rows in split_blocks(len(x), max(1, _NUMBERS // self.d)):
            w = self._to_weights(parameters[model_of[rows]])
            inputs = self.to_inputs(torch.from_numpy(x[rows, None]))
            with self.code.blame("training"):
                g = self.compute_gradients(w, inputs, self.to_labels(y[rows, None]))
            yield rows, g.double().numpy(force=True)


def sum_clipped(gradient: Tensor, clip: float) -> Tensor:
    """Sum (d,) in double precision of gradients (n, d), each cut to norm clip. Numbers that are not
    finite are 0.
    """
    gradients = gradient.nan_to_num().double()
    # rounding of the norm and of the sum, of a million numbers, must not exceed the bound
    max_norm = 0.999999999 * clip
    return max_norm / torch.linalg.vector_norm(gradients, dim=1).clamp(min=max_norm) @ gradients


class _StackedGradients(Gradients):
    """Gradients by autograd, of samples that are cut to norm clip one by one."""

    def __init__(self, net: StackedModule, data: Local, settings: LocalTraining, rng: Rng) -> None:
        super().__init__(data, settings, rng)
        self.net = net
        self.clip = settings.sample_clip
        self.x = torch.from_numpy(data.x).to(net.device)
        self.y = net.to_labels(np.zeros(len(data.x)) if data.y is None else data.y)

    def compute(self, w: FloatArray, batches: Batches) -> FloatArray:
        first, end = batches.start[:, None], batches.end[:, None]
        place = first + np.arange((end - first).max())
        live = torch.from_numpy(place < end).to(self.net.device)
        # padding is a UE's first sample of the batch
        index = torch.from_numpy(batches.order[np.where(place < end, place, first)])
        index = index.to(self.net.device)
        weights = torch.from_numpy(w).to(self.net.device)
        picked = self.x.index_select(0, index.flatten())  # 20 times as fast as x[index]
        x = self.net.to_inputs(picked.view(*index.shape, -1))
        y = self.y[index]
        if self.clip is None:
            g = self.net.compute_gradients(weights, x, y, None if live.all() else live)
            return g.cpu().numpy()
        single = weights.repeat_interleave(y.shape[1], dim=0)  # (k B, d)
        gradients = self.net.compute_gradients(single, x.flatten(0, 1)[:, None], y.view(-1, 1))
        rows = zip(gradients.view(*y.shape, -1), live, strict=True)
        clipped = torch.stack([sum_clipped(gradient[use], self.clip) for gradient, use in rows])
        return (clipped / live.sum(dim=1, keepdim=True)).cpu().numpy()


build_stacked = lru_cache(maxsize=16)(StackedModule)
