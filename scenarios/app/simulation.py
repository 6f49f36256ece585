"""A run from values of Python: a world, a learner, data, defenses and attacks as objects, mappings
or kinds.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from fl.round.learning import Learning
from netsim.errors import BadInput, suggest_nearest
from netsim.world.setting import WorldSetting
from scenarios.app.result import Result, run
from scenarios.app.run.events import Watch, ignore_event
from scenarios.app.run.how import create_scratch_folder
from scenarios.app.study.load import Scenario, Source
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import parse_place

_SECTIONS: dict[str, type[BaseModel]] = {"": Study, "learning.": Learning, "world.": WorldSetting}
"""where a name may stand, in the order in which it is looked for"""


def simulate(
    world: Source,
    learner: object = None,
    data: object = None,
    attacks: object = None,
    defenses: object = None,
    rounds: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    watch: Watch = ignore_event,
    **sections: object,
) -> Result:
    """Run a study that is put together from values of Python; returns what it found.

    world : a bundled scenario's name, a scenario file, the keys of a scenario or of its section
    `world:`, or a `WorldSetting`. Of a scenario everything stays that is not given here.

    learner : also a module of PyTorch, or its class. data : also arrays (x, y), a mapping of
    arrays by name, a `torch.utils.data.Dataset`, or a table of Hugging Face or pandas. All parts:
    objects of classes that derive from `Learner`, `Data`, `Defense`, `Attack`, ..., without an
    entry point too; mappings as in YAML; kinds as text. sections : more keys of a scenario, of its
    sections `learning:` and `world:`, or dotted paths.

    out : folder of the records, as in `run`; none: one that goes with the result, unless it is
    copied from `result.folder` before. Raises BadInput: a line for each mistake, which names its
    argument.
    """
    values = {"learner": learner, "data": data, "attacks": attacks, "defenses": defenses}
    values |= {"rounds": rounds, "seed": seed}
    given = {name: value for name, value in values.items() if value is not None} | sections
    if isinstance(world, WorldSetting) or (isinstance(world, Mapping) and "world" not in world):
        world = {"title": "simulated", "world": world}
    try:
        changes = {find_key(name): adapt_value(name, value) for name, value in given.items()}
        scenario = Scenario.from_source(world, changes, "simulate({})")
        with scenario.locate_errors(), ExitStack() as stack:
            folder = out or stack.enter_context(create_scratch_folder("netsim-")) / "run"
            result = run(scenario.study, folder, watch)
            # tables are read on demand, by the run of a result
            weakref.finalize(result.run, stack.pop_all().close)
            return result
    except BadInput as error:
        lines = [line.replace("simulate(learning.", "simulate(") for line in error.lines]
        raise BadInput(*lines) from None


def adapt_value(name: str, value: Any) -> object:
    """Return the part that stands for a module, arrays, a data set or a table."""
    adapt = {"learner": _adapt_learner, "data": _adapt_data}.get(name)
    try:
        return value if adapt is None else adapt(value)
    except ValidationError as error:  # of keys beside a module or arrays
        first = error.errors()[0]
        raise BadInput(f"simulate({name}.{first['loc'][0]}): {first['msg']}") from None
    except (TypeError, ValueError) as error:
        raise BadInput(f"simulate({name}): {error}") from None


def _adapt_learner(value: Any) -> object:
    keys = value if isinstance(value, Mapping) else {"module": value}
    torch = sys.modules.get("torch")  # else there is no module of it
    if torch is None or not isinstance(keys.get("module"), torch.nn.Module | type):
        is_named = isinstance(value, Mapping) and "module" in value and "kind" not in value
        return {"kind": "torch", **value} if is_named else value
    from fl.learners.torch_net import TorchNet

    return TorchNet.from_module(**keys)


def _adapt_data(value: Any) -> object:
    from fl.data.own_samples import Samples

    if isinstance(value, tuple):
        value = dict(zip(("x", "y"), value, strict=False))
    if isinstance(value, Mapping):
        return value if "kind" in value else Samples.from_arrays(**value)
    if hasattr(value, "columns") or hasattr(value, "column_names"):
        return Samples.from_table(value)
    if hasattr(value, "__getitem__") and not isinstance(value, str | np.ndarray):
        return Samples.from_dataset(value)
    return value


def find_key(name: str) -> str:
    """Return the dotted path of an argument; BadInput for a name that no section has."""
    first = parse_place(name)[0]
    for section, model in _SECTIONS.items():
        if first in model.model_fields:
            return f"{section}{name}"
    near = suggest_nearest(name, [key for m in _SECTIONS.values() for key in m.model_fields])
    raise BadInput(f"simulate({name}): no argument, section or key{near}; see `netsim list`")
