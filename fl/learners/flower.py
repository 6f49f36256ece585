"""Training by the client of a Flower app, in this process."""

from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import PrivateAttr

from fl.learners.torch_net import TorchNet
from fl.networks.user_code import UserCode
from fl.types import DenseUpdates, Local, Model, SampleFormat, State, Updates
from netsim.part import CODE_NAME
from netsim.rng import Rng


class Flower(TorchNet, kind="flower"):
    """Trains by the ClientApp of a Flower app, which is called in this process for each UE.

    Its message of type train has the arrays of `module.state_dict()`; the samples of the UE as
    ArrayRecord `samples`, inputs and labels as the module and its loss read them; and a
    ConfigRecord `config` with server-round, lr, local-epochs and batch-size (0: all). Its reply has
    the arrays after training, and where a MetricRecord says num-examples, the weight of the UE. The
    state of a UE's Context stays from round to round; an attacker that trains begins with empty
    ones. Torch draws from the run's stream while a client trains, other libraries from their own.

    The other keys are those of learner torch: attacks take them for how the app trains. No update
    has a proven bound.
    """

    app: Annotated[str, CODE_NAME]
    """the ClientApp, FILE.py:NAME beside the scenario; a run imports the file"""

    _client: Any = PrivateAttr(None)
    """the ClientApp, once it is imported"""

    reference: ClassVar = (
        "Beutel et al., Flower: A Friendly Federated Learning Research Framework, 2020"
    )
    example: ClassVar = {"kind": "flower", "module": "perceptron", "app": "client.py:app"}

    @property
    def _app_code(self) -> UserCode:
        return UserCode("learning.learner.app", self.app, "netsim.app")

    @property
    def _has_record_bound(self) -> bool:
        return False

    def prepare(self, samples: SampleFormat | None, may_import: bool) -> Self:
        self._app_code.check()
        prepared = super().prepare(samples, may_import)
        if may_import:
            prepared._client = self._app_code.load()
        return prepared

    def start_ues(self, n_ue: int) -> State:
        return {}

    def train_with_state(
        self, model: Model, phase: str, data: Local, state: State, rng: Rng
    ) -> tuple[Updates, State]:
        import torch
        from flwr.app import ArrayRecord, ConfigRecord, Context, Message, Metadata, RecordDict
        from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
        from flwr.proto.recorddict_pb2 import RecordDict as Memory

        client = self._client or self._app_code.load()
        x, y = self._prepare_rows(model, data)
        net = self.build_net(model)
        inputs = net.to_inputs(torch.from_numpy(x))
        samples = inputs.cpu().numpy(), net.to_labels(y).cpu().numpy()
        pieces = net.unpack(torch.from_numpy(model.parameters[data.model]).to(net.dtype))
        config = {
            "server-round": rng.round,
            "lr": self.learning_rate,
            "local-epochs": self.local_epochs,
            "batch-size": 0 if self.batch_size == "all" else self.batch_size,
        }
        metadata = Metadata(1, "", 0, 1, "", str(rng.round), 0.0, 3600.0, "train")
        values = np.zeros((len(data.ue), net.d))
        count = data.count.astype(float)
        seeds = (rng.uniform("client", data.row) * 2**53).astype(int).tolist()
        states = dict(state)
        for i, row in enumerate(map(str, data.row.tolist())):
            before = {name: piece[i] for name, piece in zip(net.names, pieces, strict=True)}
            taken = slice(data.ptr[i], data.ptr[i + 1])
            records = {
                "arrays": ArrayRecord(net.module.state_dict() | before),
                "samples": ArrayRecord([array[taken] for array in samples]),
                "config": ConfigRecord(config),
            }
            message = Message(content=RecordDict(records), metadata=metadata)
            memory = Memory.FromString(states.get(row, np.zeros(0, np.uint8)).tobytes())
            ue = int(data.ue[i])
            context = Context(1, ue, {"partition-id": ue}, recorddict_from_proto(memory), config)
            with torch.random.fork_rng(), self._app_code.blame("training"):
                torch.manual_seed(seeds[i])
                reply = client(message, context).content
                after = next(iter(reply.array_records.values())).to_torch_state_dict()
                moved = [(after[name].double() - before[name]).flatten() for name in net.names]
                values[i] = torch.cat(moved).numpy()
                for metrics in reply.metric_records.values():
                    count[i] = metrics.get("num-examples", count[i])
                memory = recorddict_to_proto(context.state)
            states[row] = np.frombuffer(memory.SerializeToString(deterministic=True), np.uint8)
        return DenseUpdates(data.ue, data.model, count, values), states
