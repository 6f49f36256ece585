"""A part is a small frozen object whose fields are its YAML keys and whose method is its equation.

A slot is a tagged union of parts, written as ``Annotated[Base, OneOf("slot", places={"kind":
"module:Class"})]``. The union is the registry: adding a part is one file plus one line in one
union. A package outside this one adds parts with an entry point in the group ``netsim.<slot>`` (for
example ``netsim.defense``), which the union reads once.

A part is imported, and its schema built, when a scenario first has it. A plug-in may therefore
import any module of this package, and one that cannot be used is refused in one line where a study
is read.
"""

# annotations are no strings here: pydantic would evaluate those of `Part` again for each of its
# classes

import ast
import inspect
import json
import re
import sys
import textwrap
from collections import UserDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from traceback import extract_tb
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import uuid4

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from netsim.contract import guard_returns, is_bundled
from netsim.errors import BadInput
from netsim.fit import refuse_broken
from netsim.notice import Notice

_OUTSIDE = set[str]()
"""modules with parts from outside, whether or not an entry point names them"""
_FRAME = re.compile(r'File "(.+)", line (\d+)')

_Metres = Annotated[float, Field(ge=-1e9, le=1e9)]
Coordinates = tuple[_Metres, _Metres]
"""A place in the plane of the area, metres east and north."""
Positive = Annotated[float, Field(gt=0, le=1e6)]
"""A number of any unit above 0."""
Share = Annotated[float, Field(gt=0, le=1)]
"""A part of a whole above 0, at most all of it."""
Probability = Annotated[float, Field(gt=0, lt=1)]
"""A probability that is neither 0 nor 1."""
Fraction = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole, from nothing to all of it."""
Amount = Annotated[float, Field(gt=0, le=1e9)]
"""A quantity above 0."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""A number of things, at least one."""

Needs = dict[str, str]
"""A word that a part needs -> why."""


HELD = "\0held"
"""kind of what stands in JSON for a part that is given as an object and that no YAML says, whose
number `held` has: that in the context of a validation"""


class UnusablePlugin(BadInput):
    """A plug-in that is no part of its slot; the user has to mend or uninstall it."""


FILE_NAME = "FILE_NAME"
"""In `Annotated[str, FILE_NAME]`: the name of a file or folder, which a scenario gives relative to
itself; loading it makes the value absolute and fills in ${VARIABLES}."""
FileName = Annotated[str, FILE_NAME, Field(min_length=1)]
"""The name of a file or folder that stands in a scenario."""
CODE_NAME = "CODE_NAME"
"""In `Annotated[str, CODE_NAME]`: FILE.py:NAME, a word, or an entry point; of FILE.py:NAME the file
is one that the scenario reads, as of FILE_NAME."""


def split_code_name(text: str) -> tuple[str, str]:
    """File and name of FILE.py:NAME; the file is empty for a word."""
    file, _, name = text.rpartition(":")
    if file.endswith(".py"):
        return file, name
    return "", text


class Part(BaseModel):
    """Frozen; unknown keys, wrong types, non-finite numbers, and what breaks a rule of fit
    (`netsim.fit`), are refused.

    Class attributes
    ----------------
    reference : paper and equation that the part implements.
    example : the smallest valid YAML, from which contract tests and `netsim list --matrix` build
    it; by default the
        kind alone.
    needs, offers : words that a study matches when it is loaded; `needs` maps a word to the reason.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        ser_json_inf_nan="null",
        defer_build=True,
    )

    reference: ClassVar = ""
    example: ClassVar[dict[str, object]] = {}
    needs: ClassVar[dict[str, str]] = {}
    offers: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, kind: str = "", **settings: Any) -> None:
        """kind : the word that `kind:` takes in YAML, as in ``class Clip(Defense, kind="clip")``; a
        field of the class, as if it were ``kind: Literal["clip"] = "clip"``.
        """
        super().__init_subclass__(**settings)
        if kind:
            cls.__annotations__["kind"] = Annotated[Literal[kind], Field(kind)]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        if "kind" in cls.model_fields and "example" not in vars(cls):
            cls.example = {"kind": cls.model_fields["kind"].default}
        if not is_bundled(cls):
            _OUTSIDE.add(cls.__module__)
            guard_returns(cls)

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        refuse_broken(self)
        return self

    def __deepcopy__(self, _: object = None) -> Self:
        """The same part, for it is frozen."""
        return self

    def change(self, path: str, value: object) -> Self:
        """The same part with another value at a dotted path of its parts, which is not checked."""
        name, _, rest = path.partition(".")
        value = getattr(self, name).change(rest, value) if rest else value
        return self.model_copy(update={name: value})

    @classmethod
    def kind_name(cls) -> str:
        """The word that `kind:` takes in YAML."""
        return str(cls.model_fields["kind"].default)

    @property
    def digest(self) -> str:
        """SHA-256 of what it holds that is no key, such as a module or arrays; empty: nothing."""
        return ""

    def notices(self, built: Any) -> Iterable[Notice]:
        """What a person should know of it in a scenario, before that is played; built :
        `netsim.notice.Built` for parts of a world, `fl.notice.Prepared` for parts of learning.
        """
        return ()


def read_source(kind: type) -> str:
    """The source of a class; another text each time where there is none, as of a notebook."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return uuid4().hex


def collect_parts(section: BaseModel) -> Iterator[Part]:
    """The parts that a section has as values, alone or in a list."""
    for _, value in section:
        yield from (
            part
            for part in (value if isinstance(value, tuple) else (value,))
            if isinstance(part, Part)
        )


def collect_nested_parts(*roots: Part) -> list[Part]:
    """Parts, then those that they have as values, and so on."""
    parts = [*roots]
    for part in parts:
        parts += collect_parts(part)
    return parts


@cache
def read_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field of a model, by its name; that of the class nearest to the model
    counts.

    Sources are read on demand: reading all of them takes as long as importing them.
    """
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base not in (BaseModel, Part):
            texts |= _read_class_texts(base)
    return {name: texts[name] for name in model.model_fields if name in texts}


def _read_class_texts(model: type[BaseModel]) -> dict[str, str]:
    """The texts that stand below fields in the source of one class; nothing where there is no
    source.
    """
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError):
        return {}
    texts = {}
    for pair in pairwise(getattr(tree, "body", ())):
        match pair:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = inspect.cleandoc(text)
    return texts


class Named(Part):
    """A part of which a study may hold several; records call it by `name` (default: its kind)."""

    role: ClassVar = ""
    name: str | None = Field(None, min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_-]+$")
    """name in records, when one kind stands twice"""

    @property
    def label(self) -> str:
        """The word that records use."""
        return self.name or self.kind_name()

    @property
    def word(self) -> str:
        """The name of its memory and of its random streams in a round, such as `defense.clip`."""
        return f"{self.role}.{self.label}"


class OneOf:
    """The union of a slot: picks the part by its `kind`, plugins included.

    Errors carry the place and the legal kinds, as pydantic's tagged union does.
    """

    def __init__(
        self,
        slot: str,
        *parts: type[Part],
        places: Mapping[str, str] | None = None,
        default: str | None = None,
    ) -> None:
        """places : kind -> "module:class" of parts that are imported when a scenario has them;
        default : the kind of a part that names none; None: every part must.
        """
        self.slot = slot
        self._ours: dict[str, type[Part] | str] = {part.kind_name(): part for part in parts} | dict(
            places or {}
        )
        self._default = default

    def restrict(self, *kinds: str) -> "OneOf":
        """The union of some of its own kinds; plug-ins of the slot belong to it too."""
        slot = OneOf(self.slot, default=self._default)
        slot._ours = {kind: self._ours[kind] for kind in kinds}
        return slot

    @property
    def parts(self) -> "_Parts":
        """Kind -> part, ours first, then those that other packages bring; BadInput for one that
        cannot be used.
        """
        brought = load_plugins(self.slot)
        for kind, (_, entry) in brought.items():
            if kind in self._ours:
                raise _refuse_plugin(entry, f"its kind {kind!r} is taken; give it another")
        return _Parts(self._ours | {kind: part for kind, (part, _) in brought.items()})

    def check(self) -> None:
        """Raise BadInput for a plug-in with fields that cannot be checked."""
        for part, entry in load_plugins(self.slot).values():
            _check(Part, part, entry, lambda part: part.model_rebuild())

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        brought = load_plugins(self.slot)
        choices: dict[Hashable, CoreSchema] = {}
        parts = self.parts
        for kind in parts:
            if kind in brought:
                _check(source, *brought[kind], handler.generate_schema)
            choices[kind] = parts.build_schema(kind)
        take_held = partial(self._take_held, source)
        choices[HELD] = core_schema.with_info_plain_validator_function(take_held)
        metadata = {"pydantic_js_functions": [self._json_schema]}
        return core_schema.tagged_union_schema(
            choices, discriminator=self._discriminator, metadata=metadata
        )

    def _take_held(self, base: Any, value: Mapping[str, Any], info: ValidationInfo) -> Part:
        """The part that a value stands for. ValueError: it is none of this slot."""
        held: Sequence[Part] = info.context or ()
        part = held[value["held"]]
        kind = part.kind_name()
        if isinstance(part, base) and self.parts.get(kind, type(part)) is type(part):
            return part
        raise ValueError(
            f"{type(part).__name__} must derive from {base.__module__}.{base.__name__}, and its "
            f"kind {kind!r} be that of no other part"
        )

    def _json_schema(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        choices: dict[Hashable, CoreSchema] = {}
        for kind, part in self.parts.items():
            part.model_rebuild()
            choices[kind] = part.__pydantic_core_schema__
        return handler(core_schema.tagged_union_schema(choices, discriminator=self._discriminator))

    @property
    def _discriminator(self) -> str | Callable[[object], object]:
        return "kind" if self._default is None else self.find_kind

    def find_kind(self, value: object) -> object:
        """The kind of a part, or the default; None for a value that is no part."""
        if isinstance(value, Mapping):
            return value.get("kind", self._default)
        return getattr(value, "kind", None)


class _Parts(UserDict[str, Any]):
    """Kind -> part; one that is given by its place is imported when it is asked for."""

    def __getitem__(self, kind: str) -> type[Part]:
        part = self.data[kind]
        return resolve_name(part) if isinstance(part, str) else part

    def validate(self, kind: str, value: object, info: ValidationInfo) -> Part:
        """Check a part by its own schema, which is made when a scenario first has the part."""
        part = self[kind]
        if isinstance(value, part):
            return value
        if info.mode == "json":  # where a list may stand for a tuple
            return part.model_validate_json(json.dumps(value), context=info.context)
        return part.model_validate(value, context=info.context)

    def build_schema(self, kind: str, **metadata: object) -> CoreSchema:
        """The schema of a part that is imported when a scenario first has it."""
        return core_schema.with_info_plain_validator_function(
            partial(self.validate, kind), metadata=metadata
        )


class Section:
    """The part of a section that most scenarios leave out: imported when one has it.

    Written ``Annotated[Train, Section("rl.settings:Train")] | None``, where `Train` is `Any` while
    a program runs.
    """

    def __init__(self, place: str) -> None:
        self._parts = _Parts({"": place})

    @property
    def part(self) -> type[Part]:
        """The part."""
        return self._parts[""]

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return self._parts.build_schema("", pydantic_js_functions=[self._json_schema])

    def _json_schema(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        self.part.model_rebuild()
        return handler(self.part.__pydantic_core_schema__)


def _check(
    base: object, part: type[Part], entry: EntryPoint, generate: Callable[[Any], object]
) -> None:
    """Raise BadInput where a plug-in is no part of the slot, or where its fields cannot be
    checked.
    """
    if isinstance(base, type) and not issubclass(part, base):
        raise _refuse_plugin(
            entry, f"it is no {base.__name__}; derive it from {base.__module__}.{base.__name__}"
        )
    if isabstract(part):
        raise _refuse_plugin(entry, f"it lacks {', '.join(sorted(part.__abstractmethods__))}")
    try:
        generate(part)
    except BadInput:
        raise
    except Exception as error:
        reason = f"its fields cannot be checked ({_format_error(error)})"
        raise _refuse_plugin(entry, reason) from None


@cache
def find_entry_points() -> list[EntryPoint]:
    """Our entry points of installed packages; found once, for every package is looked into."""
    points = entry_points()
    groups = [group for group in points.groups if group.startswith("netsim.")]
    return [point for group in groups for point in points.select(group=group)]


def describe_plugin_line(trace: str) -> str:
    """`; plug-in FILE:LINE`, the last line of a plug-in that a traceback passed; empty where it
    passed none.
    """
    named = {entry.module for entry in find_entry_points()} | _OUTSIDE
    read = [sys.modules.get(name) for name in named]
    files = [getattr(module, "__file__", None) for module in read]
    places = [f"; plug-in {file}:{line}" for file, line in _FRAME.findall(trace) if file in files]
    return "".join(places[-1:])


def add_plugin_file(slot: str, path: Path, name: str) -> str:
    """Add a class of a file to the plug-ins of a slot; returns its kind.

    Studies that were read before know nothing of it.
    """
    find_entry_points().append(EntryPoint(name, f"{path.stem}:{name}", f"netsim.{slot}"))
    sys.path.insert(0, str(path.resolve().parent))
    load_plugins.cache_clear()
    return [*load_plugins(slot)][-1]


@cache
def load_plugins(slot: str) -> dict[str, tuple[type[Part], EntryPoint]]:
    """Parts that installed packages declare under the entry point group ``netsim.<slot>``, and
    where, by kind.

    Raises
    ------
    BadInput : one line: a plug-in that cannot be imported, or that is no part.
    """
    brought: dict[str, tuple[type[Part], EntryPoint]] = {}
    for entry in find_entry_points():
        if entry.group != f"netsim.{slot}":
            continue
        try:
            part = entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a module does when it is imported, SystemExit too
            reason = f"it cannot be imported ({_format_error(error)}){_find_line(error)}"
            raise _refuse_plugin(entry, reason) from None
        is_part = isinstance(part, type) and issubclass(part, Part)
        kind = part.model_fields.get("kind") if is_part else None
        if kind is None or not isinstance(kind.default, str) or not kind.default:
            raise _refuse_plugin(entry, "it is not a part with a `kind`")
        if part.kind_name() in brought:
            raise _refuse_plugin(entry, f"its kind {part.kind_name()!r} is taken; give it another")
        brought[part.kind_name()] = part, entry
    return brought


def _refuse_plugin(entry: EntryPoint, reason: str) -> UnusablePlugin:
    package = entry.dist.name if entry.dist is not None else f"{entry.module}.py"
    return UnusablePlugin(
        f"plug-in {entry.value} of {package} ({entry.group}): {reason}; mend {package}, or "
        f"uninstall it"
    )


def _find_line(error: BaseException) -> str:
    """`, FILE:LINE`, the last line of a file that raised it; empty where it has none."""
    frames = extract_tb(error.__traceback__)
    places = [f", {frame.filename}:{frame.lineno}" for frame in frames if frame.name == "<module>"]
    return "".join(places[-1:])


def _format_error(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}".removesuffix(": ")
