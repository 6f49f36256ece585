"""A learner whose updates were made before, and are read."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from fl.learners import LEARNERS, Learner
from fl.recorded_updates import CARD, UpdateCard, UpdateFile, require
from fl.types import DenseUpdates, HeldOut, Local, Metrics, Model, Public, Updates
from netsim.part import FILE_NAME
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.world.world import World

_PROMISES = {"bound", "record bound"}


class Recorded(Learner):
    """Reads the updates of UEs from a folder, round by round, in place of training.

    Everything else is that of the learner `of`: attacks, defenses, the radio and records see it and
    know of no other, and attackers that train do so with it. The folder is that of `netsim export
    --updates`, or of a federation elsewhere (see `fl.recorded_updates`). Its UEs are those of the
    world with the same names; a UE that has data but no update in a round takes no part in it.
    Models that a file has of its round are published, whatever the merge before made. No update
    from a file promises a bound.

    Without `of` a row is numbers alone: the ledger, sums, defenses and the radio treat it as any
    other, and attacks that read layers, signals or positions, or train, are refused.
    """

    kind: Literal["recorded"] = "recorded"
    folder: Annotated[str, FILE_NAME] = Field(min_length=1)
    """the folder of updates"""
    card: Annotated[str, FILE_NAME] | None = Field(None, min_length=1)
    """path of its card; none: card.json in it"""
    of: Annotated[Learner, LEARNERS] | None = None
    """the learner that made the updates; none: rows of numbers alone"""

    _files: dict[tuple[int, str], UpdateFile] = PrivateAttr({})
    """(round, phase) -> its file"""
    _ues: tuple[str, ...] = PrivateAttr(())
    """names of the UEs of the world"""

    reference = "netsim: updates that were made before"
    example: ClassVar = {"kind": "recorded", "folder": "updates", "of": {"kind": "rsrp-net"}}

    @property
    def trained(self) -> Learner:
        return self.of or self

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """What the learner `of` needs."""
        return getattr(self.of, "needs", {})

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """What it offers, without promises of training."""
        return getattr(self.of, "offers", frozenset()) - _PROMISES

    @property
    def phases(self) -> tuple[str, ...]:  # type: ignore[override]
        """Its phases."""
        return getattr(self.of, "phases", ("all",))

    @property
    def _card_path(self) -> Path:
        return Path(self.card or Path(self.folder) / CARD)

    def attach(self, world: World, round_s: float, last: int, whole: bool) -> Self:
        path = self._card_path
        card = UpdateCard.read(path)
        here = {"area_m": [*world.area.low_m.tolist(), *world.area.high_m.tolist()]}
        here |= {} if self.of is None else self.of.model_dump(mode="json")
        for key, value in card.same.items():
            now = here.get(key, value)
            require(now == value, path, f"{key} was {value!r}, and is {now!r}")
        names = [name for entry in card.files for name, _ in entry.rows]
        unknown = sorted(set(names).difference(world.ues))
        require(not unknown, path, f"the world has no UE {unknown[:1]}; it has {world.ues[:3]}")
        files = {
            (entry.round or world.clock.count_rounds(entry.time_s, round_s), entry.phase): entry
            for entry in card.files
        }
        require(len(files) == len(card.files), path, "two files are of one round and phase")
        rounds = set(range(1, last + 1)).difference(card.empty_rounds)
        missing = sorted({(k, name) for k in rounds for name in self.phases} - files.keys())
        require(
            not missing, path, f"no file is of round and phase {missing[:1]}; play fewer rounds"
        )
        for entry in card.files:
            entry.read(Path(self.folder), whole)
        attached = self.model_copy()
        attached._files = files
        attached._ues = tuple(world.ues)
        return attached

    def init(self, public: Public, rng: Rng) -> Model:
        card = UpdateCard.read(self._card_path)
        entry = card.files[0]
        path = Path(self.folder) / entry.file
        arrays = entry.read(Path(self.folder))
        start = Model(np.zeros((public.n_model, entry.numbers)))
        if self.of is not None:
            start = self.of.init(public, rng)
        known: dict[str, Any] = {"parameters": start.parameters, **start.constants}
        given: dict[str, Any] = {"parameters": arrays.get("parameters", 0.0), **card.constants}
        for name, value in given.items():
            shape, expected = np.shape(value), np.shape(known.get(name, 0.0))
            require(shape == expected, path, f"{name} is {shape}, and the learner has {expected}")
        constants = {name: np.array(value) for name, value in card.constants.items()}
        return Model(arrays["parameters"], start.constants | constants)

    def start_round(self, number: int, model: Model, local: Local) -> tuple[Model, Local]:
        phase = self.phases[0]
        entry = self._files.get((number, phase))
        if entry is not None:
            arrays = entry.read(Path(self.folder))
            model = replace(model, parameters=arrays.get("parameters", model.parameters))
        return model, local.select(self._find_rows(number, phase, local) >= 0)

    def _find_rows(self, number: int, phase: str, local: Local) -> IntArray:
        """The place of each row of data (n,) among the rows of a file; -1: it has none."""
        entry = self._files.get((number, phase))
        places = {} if entry is None else {row: i for i, row in enumerate(entry.rows)}
        pairs = zip(local.ue.tolist(), local.model.tolist(), strict=True)
        return np.array([places.get((self._ues[ue], model), -1) for ue, model in pairs], dtype=int)

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        require(
            self._files, self._card_path, "an attacker that trains needs the learner; give `of`"
        )
        rows = self._find_rows(rng.round, phase, data)
        require((rows >= 0).all(), self._card_path, f"round {rng.round} lacks rows of {phase!r}")
        entry = self._files.get((rng.round, phase))
        arrays = {} if entry is None else entry.read(Path(self.folder))
        update = arrays.get("update", np.zeros((0, model.parameters.shape[1])))[rows]
        count = arrays.get("count", np.zeros(0))[rows]
        return DenseUpdates(data.ue, data.model, count.astype(float), update, phase)

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        return Model(model.parameters + merged, model.constants)

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        return {}
