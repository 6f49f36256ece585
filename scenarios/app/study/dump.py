"""A study written out again: every default in its place, readable by the program that wrote it."""

from __future__ import annotations

import json
from functools import lru_cache

from scenarios.app.study.schema import SCHEMA_VERSION
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import as_yaml

__all__ = ["as_yaml", "study_yaml"]


def study_yaml(study: Study) -> str:
    """YAML of the resolved study; loading it gives the same study."""
    values = study.model_dump(mode="json")
    text = _of_any_seed(json.dumps(values | {"seed": 0}))
    return f"# resolved study, schema {SCHEMA_VERSION}\n{text}".replace("\nseed: 0\n", f"\nseed: {study.seed}\n", 1)


@lru_cache(maxsize=4096)
def _of_any_seed(values: str) -> str:
    """YAML of values that are given as JSON: a sweep asks for it with every seed of a setting, several times."""
    return as_yaml(json.loads(values))
