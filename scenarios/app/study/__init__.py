"""A scenario file becomes a frozen study, or one line for each mistake."""

from collections.abc import Mapping
from typing import Any

Value = Any
"""a plain value, as YAML and JSON have it"""
Fields = dict[str, Any]
"""plain values by key, as YAML and JSON have them"""
Record = Mapping[str, Any]
"""the same, only read"""
SCHEMA_VERSION = 6
"""raised when a key of studies, a table, a column or a key of summaries gets another name or
meaning"""
