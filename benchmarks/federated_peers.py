"""Simulators of federated learning that play the same round: every device trains, the server takes
the mean.

Both have samples in the order of their batches, one epoch, plain SGD, 32 bits, every device in
every round and equal weights. Starting Ray, loading PyTorch and making data sets are left out: a
turn is several further rounds, divided by their number. What each does besides, and what it leaves
out:

Flower (https://pypi.org/project/flwr, Beutel et al.) on Ray
    `run_simulation` with one virtual client for each device, one CPU and so one actor; `FedAvg`
    without evaluation. A client takes the model as one array, trains by the loop of
    `training_peers` (no module, no optimiser object, no data loader) and sends one array. Its data
    stay in the actor's process, which reads them once. Besides training, every message is encoded,
    stored by the server's link, queued, and given to the actor by Ray. The server looks for
    messages and answers at intervals, during which it sleeps. Not: drawing an order of samples.

pfl-research (https://pypi.org/project/pfl, Apple)
    `FederatedAveraging` with `SimulatedBackend` in this process: one `PyTorchModel` that is set
    back for each device, `torch.optim.SGD` for each device, no callbacks, no evaluation, no
    privacy. Data sets and their batches are kept, as its own data sets do. Besides training, it
    counts devices and samples in metrics. Not: drawing an order of samples.

What they are used for takes Linux: CPU time is that of this process and of all that it has started,
from /proc.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.training_peers import LEARNING_RATE, forward, leaves, loop
from fl.networks.mlp import Mlp

Rounds = Callable[[int], np.ndarray]
"""plays so many rounds more, and gives the parameters (d,) then"""


@dataclass(frozen=True)
class Work:
    """A cohort's network, parameters start (d,), samples x (k, n, p), y (k, n) in the order of
    their batches.
    """

    net: Mlp
    start: np.ndarray
    x: np.ndarray
    y: np.ndarray
    batch: int


def cpu_s() -> float:
    """CPU seconds of this process and of all that it has started and that run."""
    of = {int(stat.parent.name): _stat(stat) for stat in Path("/proc").glob("[0-9]*/stat")}
    total = process_time()
    parents = {os.getpid()}
    while parents:
        children = {pid for pid, (parent, _) in of.items() if parent in parents}
        total = total + sum(of[pid][1] for pid in children)
        parents = children
    return total


def _stat(file: Path) -> tuple[int, float]:
    """The parent of a process and its CPU seconds; (0, 0) where it has just ended."""
    try:
        fields = file.read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0.0
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def flower(work: Work) -> Iterator[tuple[str, Rounds]]:
    """Flower's simulation, started; it is ended with the context."""
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    import ray
    from flwr.app import ArrayRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)

    wanted: Queue[int] = Queue()
    found: Queue[np.ndarray | BaseException] = Queue()
    server = ServerApp()

    @server.main()  # type: ignore[untyped-decorator, unused-ignore]
    def serve(grid: Any, _: Any) -> None:
        everyone = {
            "min_train_nodes": len(work.x),
            "min_available_nodes": len(work.x),
        }  # clients join one by one
        strategy = FedAvg(fraction_evaluate=0.0, **everyone)
        arrays = ArrayRecord([work.start.astype(np.float32)])
        while n := wanted.get():
            arrays = strategy.start(grid, arrays, num_rounds=n).arrays
            found.put(arrays.to_numpy_ndarrays()[0])

    with TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", x=work.x, y=work.y)
        client = ClientApp()
        client.train()(partial(_answer, folder, work.net, work.batch))
        how = {
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "num_gpus": 0},
        }

        def simulate() -> None:
            try:
                run_simulation(server, client, len(work.x), backend_config=how)
                found.put(RuntimeError("Flower's simulation has ended"))
            except BaseException as error:
                found.put(error)

        thread = threading.Thread(target=simulate)
        thread.start()

        def rounds(n: int) -> np.ndarray:
            wanted.put(n)
            got = found.get()
            if isinstance(got, BaseException):
                raise got
            return got

        try:
            yield f"Flower {version('flwr')}, Ray {ray.__version__}", rounds
        finally:
            wanted.put(0)
            thread.join()


def _answer(folder: str, net: Mlp, batch: int, message: Any, context: Any) -> Any:
    """What a client sends back: its parameters after training."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    x, y = _data(folder)
    mine = slice(k := int(context.node_config["partition-id"]), k + 1)
    (before,) = message.content["arrays"].to_numpy_ndarrays()
    (update,) = loop(net, before, x[mine], y[mine], batch, torch.float32)()
    records = {
        "arrays": ArrayRecord([before + update]),
        "metrics": MetricRecord({"num-examples": x.shape[1]}),
    }
    return Message(content=RecordDict(records), reply_to=message)


@lru_cache
def _data(folder: str) -> tuple[np.ndarray, np.ndarray]:
    torch.set_num_threads(1)
    with np.load(Path(folder) / "data.npz") as file:
        return file["x"].astype(np.float32), file["y"].astype(np.float32)


class _Module(torch.nn.Module):
    """The network as pfl asks for it."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.net = work.net
        first = torch.tensor(work.start, dtype=torch.float32)
        self.pieces = torch.nn.ParameterList(leaves(work.net, first))

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(forward(self.net, list(self.pieces), x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {"loss": self.loss(x, y).item()}


@contextmanager
def pfl(work: Work) -> Iterator[tuple[str, Rounds]]:
    """The simulation of pfl-research, in this process."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    module = _Module(work)
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    x = torch.tensor(work.x, dtype=torch.float32)
    y = torch.tensor(work.y, dtype=torch.float32)
    devices = [PyTorchTensorDataset(tensors=pair) for pair in zip(x, y, strict=True)]
    users = FederatedDataset(devices.__getitem__, MinimizeReuseUserSampler(range(len(devices))))
    backend = SimulatedBackend(users, users)
    algorithm = FederatedAveraging()
    done = 0
    training = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=work.batch
    )

    def rounds(n: int) -> np.ndarray:
        nonlocal done
        done += n
        how = NNAlgorithmParams(
            done, evaluation_frequency=10**9, train_cohort_size=len(devices), val_cohort_size=0
        )
        algorithm.run(how, backend, model, training, send_metrics_to_platform=False)
        return np.concatenate([piece.detach().numpy().ravel() for piece in module.pieces])

    yield f"pfl-research {version('pfl')}", rounds


PEERS: dict[str, tuple[str, Callable[[Work], AbstractContextManager[tuple[str, Rounds]]]]] = {
    "flower": ("Flower on Ray", flower),
    "pfl": ("pfl-research", pfl),
}
"""by name: what to call it where it is not installed, and its start"""
