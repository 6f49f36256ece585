"""Events of a training for TensorBoard; nothing without a folder for them."""

from __future__ import annotations

from collections.abc import Mapping

from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import configure_logger


def board(folder: str | None, seed: int, fresh: bool) -> Logger:
    """Where figures go: a new run `seed-N_1`, ... in a folder, or the last one if the training is not fresh."""
    if folder is None:
        return Logger(None, [])
    return configure_logger(0, folder, f"seed-{seed}", fresh)


def tell(told: Logger, figures: Mapping[str, float], step: int) -> None:
    """Write down figures, and what agents have noted themselves, as they stand after a step."""
    for name, value in figures.items():
        told.record(name, value)
    told.dump(step)
