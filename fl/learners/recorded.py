"""A learner whose updates were made before, and are read."""

from dataclasses import astuple, replace
from pathlib import Path
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import PrivateAttr

from fl.learners import LEARNERS, Learner
from fl.learners.recorded_updates import CARD, UpdateCard, UpdateFile, require
from fl.types import DenseUpdates, HeldOut, Local, Metrics, Model, Public, Updates
from netsim.columns import no_ints, number_row
from netsim.errors import BadInput
from netsim.part import FileName, Needs
from netsim.rng import Rng
from netsim.units import IntArray
from netsim.world.world import World

_PROMISES = {"bound", "record bound"}

_TRAINED = LEARNERS.restrict("rsrp-net", "radio-map", "density", "torch", "scaffold")


class Recorded(Learner, kind="recorded"):
    """Reads the updates of UEs from a folder, round by round, in place of training.

    Everything else is that of the learner `of`: attacks, defenses, the radio and records see it
    and know of no other, and attackers that train do so with it. The folder is that of `netsim
    export --updates`, or of a federation elsewhere (`fl.learners.recorded_updates`). Its UEs are
    those of the world with the same names; a UE that has data but no update in a round takes no
    part in it. Models that a file has of its round are published, whatever the merge before made.
    No update
    from a file promises a bound. Learners with several uploads in a round have none.
    """

    folder: FileName
    """the folder of updates"""
    card: FileName | None = None
    """path of its card; none: card.json in it"""
    of: Annotated[Learner, _TRAINED]
    """the learner that made the updates"""

    _card: UpdateCard = PrivateAttr()
    _files: dict[int, tuple[UpdateFile, IntArray]] = PrivateAttr({})
    """round -> its file, and the numbers of its rows (n,)"""

    reference = "netsim: updates that were made before"
    example: ClassVar = {"kind": "recorded", "folder": "updates", "of": {"kind": "rsrp-net"}}

    @property
    def trained(self) -> Learner:
        return self.of

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """What the learner `of` needs."""
        return self.of.needs

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """What it offers, without promises of training."""
        return self.of.offers - _PROMISES

    @property
    def _path(self) -> Path:
        return Path(self.card or Path(self.folder) / CARD)

    def attach(self, trained: Learner, world: World, round_s: float, last: int) -> Self:
        path = self._path
        card = UpdateCard.read(path)
        here = self.of.model_dump(mode="json") | {"area_m": [*astuple(world.area)]}
        for key, value in card.same.items():
            now = here.get(key, value)
            require(now == value, path, f"{key} was {value!r}, and is {now!r}")
        ues = {name: ue for ue, name in enumerate(world.ues)}
        files = dict[int, tuple[UpdateFile, IntArray]]()
        for entry in card.files:
            try:
                row = np.array([number_row(ues[name], model) for name, model in entry.rows], int)
            except KeyError as name:
                raise BadInput(f"{path}: the world has no UE {name}") from None
            number = entry.round or world.clock.count_rounds(entry.time_s, round_s)
            require(number not in files, path, f"two files are of round {number}")
            files[number] = entry, row
            entry.read(Path(self.folder))
        problem = f"it has {card.rounds:,} rounds, the study {last:,}; play fewer"
        require(last <= card.rounds, path, problem)
        attached = self.model_copy(update={"of": trained})
        attached._card = card
        attached._files = files
        return attached

    def init(self, public: Public, rng: Rng) -> Model:
        start = self.of.init(public, rng)
        expected = start.parameters.shape
        for entry in self._card.files:
            fits = entry.models == expected
            require(fits, self._path, f"models are {entry.models}, the learner has {expected}")
            self._check_numbers(start, entry.numbers)
        ones = np.ones((public.n_model, 1))
        constants = {name: ones * value for name, value in self._card.constants.items()}
        return replace(start, constants=start.constants | constants)

    def _check_numbers(self, model: Model, numbers: int) -> None:
        """Refuse rows of another length than the learner can add to its models, by its own step."""
        problem = f"rows have {numbers} numbers, and the learner has others"
        merged = np.zeros((len(model.parameters), numbers))
        require(numbers > 1, self._path, problem)  # one would be added to all
        try:
            self.of.step(model, self.phases[0], merged)
        except ValueError:
            raise BadInput(f"{self._path}: {problem}") from None

    def start_round(self, number: int, model: Model, local: Local) -> tuple[Model, Local]:
        entry, row = self._files.get(number, (None, no_ints()))
        if entry is not None:
            model = replace(model, parameters=entry.read(Path(self.folder))["parameters"])
        return model, local.select(np.isin(local.row, row))

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        if rng.round not in self._files:  # of a round without UEs
            return self.of.train_locally(model, phase, data, rng)
        entry, row = self._files[rng.round]
        arrays = entry.read(Path(self.folder))
        order = np.argsort(row)
        place = order[np.searchsorted(row, data.row, sorter=order)]
        return DenseUpdates(data.ue, data.model, arrays["count"][place], arrays["update"][place])

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        return self.of.evaluate(model, held_out)
