"""A study written out again: every default in its place, readable by the program that wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from io import StringIO
from typing import Any

from scenarios.app.study.schema import SCHEMA_VERSION
from scenarios.app.study.study import Study


def study_yaml(study: Study) -> str:
    """YAML of the resolved study; loading it gives the same study."""
    values = study.model_dump(mode="json")
    text = _of_any_seed(json.dumps(values | {"seed": 0}))
    return f"# resolved study, schema {SCHEMA_VERSION}\n{text}".replace("\nseed: 0\n", f"\nseed: {study.seed}\n", 1)


@lru_cache(maxsize=4096)
def _of_any_seed(values: str) -> str:
    """YAML of values that are given as JSON: a sweep asks for it with every seed of a setting, several times."""
    return as_yaml(json.loads(values))


def as_yaml(values: Mapping[str, Any]) -> str:
    """Plain values as YAML, in their order."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 110
    yaml.sort_base_mapping_type_on_output = False
    out = StringIO()
    yaml.dump(dict(values), out)
    return out.getvalue()
