"""A study written out again: every default in its place, readable by the program that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

from scenarios.app.study.schema import SCHEMA_VERSION
from scenarios.app.study.study import Study


def study_yaml(study: Study) -> str:
    """YAML of the resolved study; loading it gives the same study."""
    return f"# resolved study, schema {SCHEMA_VERSION}\n{as_yaml(study.model_dump(mode='json'))}"


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
