"""A learner whose updates were made before, and are read."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fl.learners import LEARNERS, Learner
from fl.recorded_updates import CARD, CONSTANT, UpdateCard, UpdateFile, require
from fl.types import DenseUpdates, HeldOut, Local, Metrics, Model, Public, Updates
from netsim.errors import BadInput
from netsim.part import FILE_NAME
from netsim.rng import Rng
from netsim.units import FloatArray
from netsim.world.world import World

_PROMISES = {"bound", "record bound"}


class PlainRows(Learner):
    """Rows of numbers of which nothing else is known: models are their sums."""

    kind: Literal["rows"] = "rows"

    def init(self, public: Public, rng: Rng) -> Model:
        return Model(np.zeros((public.n_model, 0)))

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        raise BadInput(
            "learning.learner: an attacker that trains needs the learner of recorded updates; "
            "give it as `of`"
        )

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        return Model(model.parameters + merged, model.constants)

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        return {}


class Recorded(Learner):
    """Reads the updates of UEs from a folder, round by round, in place of training.

    Everything else is that of the learner `of`: attacks, defenses, the radio and records see it and
    know of no other, and attackers that train do so with it. The folder is that of `netsim export
    --updates`, or of a federation elsewhere (see `fl.recorded_updates`). Its UEs are those of the
    world with the same names; a UE that has data but no update in a round takes no part in it.
    Models that a file has of its round are published, whatever the merge before made. No update
    from a file promises a bound.

    Without `of` a row is numbers alone: the ledger, sums, defenses and the radio treat it as any
    other, and attacks that read layers, signals or positions are refused.
    """

    kind: Literal["recorded"] = "recorded"
    folder: Annotated[str, FILE_NAME] = Field(min_length=1)
    """the folder of updates"""
    card: Annotated[str, FILE_NAME] | None = Field(None, min_length=1)
    """path of its card; none: card.json in it"""
    of: Annotated[Learner, LEARNERS] | None = None
    """the learner that made the updates; none: rows of numbers alone"""

    _rows: dict[tuple[int, str, int, int], tuple[UpdateFile, int]] = PrivateAttr({})
    """(round, phase, UE, model) -> the file that has its row, and which row it is"""

    reference = "netsim: updates that were made before"
    example: ClassVar = {"kind": "recorded", "folder": "updates", "of": {"kind": "rsrp-net"}}

    @property
    def trained(self) -> Learner:
        return self.of or PlainRows()

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """What the learner `of` needs."""
        return self.trained.needs

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """What it offers, without promises of training."""
        return self.trained.offers - _PROMISES

    @property
    def phases(self) -> tuple[str, ...]:  # type: ignore[override]
        """Its phases."""
        return self.trained.phases

    def init(self, public: Public, rng: Rng) -> Model:
        start = self.trained.init(public, rng)
        card = UpdateCard.from_file(self._card_path)
        place = Path(self.folder) / card.files[0].file
        arrays = card.files[0].read(Path(self.folder))
        constants = {k.removeprefix(CONSTANT): v for k, v in arrays.items() if CONSTANT in k}
        constants |= {name: np.array(value) for name, value in card.constants.items()}
        for name, value in constants.items() if self.of else ():
            shape = getattr(start.constants.get(name), "shape", "no such constant")
            require(value.shape == shape, place, f"{name} is {value.shape}, and `of` has {shape}")
        model = arrays.get("parameters", start.parameters)
        shape = start.parameters.shape if self.of else (public.n_model, card.files[0].numbers)
        require(model.shape == shape, place, f"parameters are {model.shape}, and not {shape}")
        return Model(model, start.constants | constants)

    def attach(self, world: World, round_s: float, last: int, whole: bool) -> Self:
        path = self._card_path
        card = UpdateCard.from_file(path)
        area_m = [*world.area.low_m.tolist(), *world.area.high_m.tolist()]
        is_there = card.area_m is None or np.allclose(card.area_m, area_m, atol=1)
        require(is_there, path, f"area_m is {card.area_m}, and that of the world is {area_m}")
        keys = self.trained.model_dump(mode="json")
        for key, value in card.learner.items():
            require(keys.get(key) == value, path, f"updates were made with {key} {value!r}")
        names = {name: i for i, name in enumerate(world.ues)}
        numbers = {entry.phase: entry.numbers for entry in card.files}
        rows = dict[tuple[int, str, int, int], tuple[UpdateFile, int]]()
        for entry in card.files:
            place = Path(self.folder) / entry.file
            entry.check(Path(self.folder))
            require(entry.phase in self.phases, place, f"the learner has no phase {entry.phase!r}")
            require(
                entry.numbers == numbers[entry.phase], place, "others have rows of another size"
            )
            number = entry.round or world.clock.count_rounds(entry.time_s, round_s)
            for i, (name, model) in enumerate(zip(entry.ue, entry.model, strict=True)):
                require(name in names, place, f"the world has no UE {name!r}")
                row = number, entry.phase, names[name], model
                require(row not in rows, place, f"UE {name!r} has two updates in round {number}")
                rows[row] = entry, i
            if whole:
                entry.read(Path(self.folder))
        numbered = all(entry.round for entry in card.files)
        known = {row[0] for row in rows}.union(card.empty_rounds)
        missing = sorted(set(range(1, last + 1 if numbered else 1)) - known)
        require(not missing, path, f"rounds {missing[:3]} are in no file, nor in empty_rounds")
        for number, _, ue, model in rows:
            whole_row = all((number, phase, ue, model) in rows for phase in self.phases)
            require(whole_row, path, f"an update of round {number} lacks a phase of the learner")
        attached = self.model_copy()
        attached._rows = rows
        return attached

    def start_round(self, number: int, model: Model, local: Local) -> tuple[Model, Local]:
        first = self.phases[0]
        pairs = zip(local.ue.tolist(), local.model.tolist(), strict=True)
        is_recorded = [(number, first, *pair) in self._rows for pair in pairs]
        files = (entry for row, (entry, _) in self._rows.items() if row[:2] == (number, first))
        arrays = next((entry.read(Path(self.folder)) for entry in files), {})
        model = replace(model, parameters=arrays.get("parameters", model.parameters))
        return model, local.select(np.array(is_recorded, dtype=np.bool_))

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        pairs = zip(data.ue.tolist(), data.model.tolist(), strict=True)
        rows = [self._rows[rng.round, phase, *pair] for pair in pairs]
        files = {entry.file: entry for entry, _ in rows}
        arrays = {name: entry.read(Path(self.folder)) for name, entry in files.items()}
        numbers = next(row[0].numbers for key, row in self._rows.items() if key[1] == phase)
        update = [arrays[entry.file]["update"][i] for entry, i in rows]
        count = [arrays[entry.file]["count"][i] for entry, i in rows]
        values = np.reshape(update, (len(rows), numbers))
        return DenseUpdates(data.ue, data.model, np.array(count, dtype=float), values, phase)

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        return self.trained.step(model, phase, merged)

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        return self.trained.evaluate(model, held_out)

    @property
    def _card_path(self) -> Path:
        return Path(self.card or Path(self.folder) / CARD)
