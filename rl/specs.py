"""Specs of made environments that can be written as JSON, whatever an environment was made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from pydantic import BaseModel

from rl.problem import Seen


class Specified(gymnasium.Env[Seen, Seen]):
    """An environment whose `spec` holds plain arguments: a study as nested values, a path as text.

    Gymnasium sets `spec` to the arguments that it was given. Made from its JSON, the environment is the same.
    """

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """What Gymnasium made this environment from; None for one that was made by hand."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        arguments = {} if spec is None else {name: _plain(value) for name, value in spec.kwargs.items()}
        self._spec = None if spec is None else replace(spec, kwargs=arguments)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return str(value) if isinstance(value, PurePath) else value
