"""A run from values of Python: a world, a learner, data, defenses and attacks as objects, mappings
or kinds.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import BaseModel

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
    return value


def find_key(name: str) -> str:
    """Return the dotted path of an argument; BadInput for a name that no section has."""
    first = parse_place(name)[0]
    for section, model in _SECTIONS.items():
        if first in model.model_fields:
            return f"{section}{name}"
    near = suggest_nearest(name, [key for m in _SECTIONS.values() for key in m.model_fields])
    raise BadInput(f"simulate({name}): no argument, section or key{near}; see `netsim list`")
