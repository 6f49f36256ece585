"""A study written out again: every default in its place, readable by the program that wrote it."""

from __future__ import annotations

from io import StringIO

from scenarios.app.study.schema import SCHEMA_VERSION
from scenarios.app.study.study import Study


def study_yaml(study: Study) -> str:
    """YAML of the resolved study; loading it gives the same study."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 110
    yaml.sort_base_mapping_type_on_output = False
    out = StringIO()
    out.write(f"# resolved study, schema {SCHEMA_VERSION}\n")
    yaml.dump(study.model_dump(mode="json"), out)
    return out.getvalue()
