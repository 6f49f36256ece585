"""Pages written from the program when the documentation is built: scenario keys, records, command
line, and the verdicts on published claims that are kept with it.

They go to ``docs/reference/generated`` and ``docs/studies/papers.md``, which are not committed, so
they cannot differ from the program. Beside the HTML goes the page of a finished run, which is
played then.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pygments.lexers.special import TextLexer
from records_page import keys_page, tables_page

from fl.notice import notice as of_learning
from netsim.notice import notice as of_worlds
from netsim.part import OneOf, Part, read_descriptions
from scenarios import load, run
from scenarios.app.cli.commands import build_parser, main
from scenarios.app.report.plot import TERMS
from scenarios.app.study.describe import (
    describe_type,
    find_nested_models,
    find_slot,
    find_unit,
    get_field_type,
    list_union_members,
    to_flow_yaml,
    unwrap_annotation,
    walk_sections,
)
from scenarios.app.study.notice import notice as of_studies
from scenarios.app.study.slots import SLOTS, collect_all_rules
from scenarios.app.study.study import Study

FOLDER = Path(__file__).parents[1] / "reference" / "generated"


def pages() -> dict[str, str]:
    """File name -> Markdown of every generated page."""
    found = {"sections.md": sections_page(), "cli.md": cli_page(build_parser())}
    found |= {
        "tables.md": tables_page(),
        "summary.md": keys_page(),
        "notices.md": notices_page(),
        "rules.md": rules_page(),
    }
    found["terms.txt"] = "\n".join(f"{word}\n: {says}\n" for word, says in TERMS.items())
    return found | {f"slot-{name}.md": slot_page(name, slot) for name, slot in SLOTS.items()}


def notices_page() -> str:
    """Every notice: key, severity, sentence and remedy, with words in braces for values."""
    lines = ["# Notices", "", "Words in braces stand for values.", ""]
    lines += ["| key | severity | says | remedy |", "|---|---|---|---|"]
    for catalogue in (of_worlds, of_learning, of_studies):
        for key, of in catalogue.entries.items():
            lines.append(f"| `{key}` | {of['severity']} | {of['says']} | {of.get('remedy', '')} |")
    return "\n".join([*lines, ""])


def write_pages(folder: Path = FOLDER) -> None:
    """Write all pages; those that have not changed keep their time, so that Sphinx does not read
    them again."""
    folder.mkdir(parents=True, exist_ok=True)
    found = pages()
    for old in folder.glob("*.md"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        _renew(folder / name, text)


def write_papers(path: Path) -> None:
    """Write the page of publications, figure by figure, as `netsim claims --page` prints it, and
    its drawings."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        page = Path(folder) / "papers.md"
        if main(["claims", "--page", str(page)]):
            raise RuntimeError("netsim claims --page failed")
        _renew(path, page.read_text())
        drawings = path.with_suffix("")  # of the links of the page
        drawings.mkdir(exist_ok=True)
        for drawing in page.with_suffix("").glob("*.svg"):
            _renew(drawings / drawing.name, drawing.read_text())


def _renew(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


# --------------------------------------------------------------------------------------
# scenario keys


def sections_page() -> str:
    """All keys outside of slots, section by section, in the order in which a scenario is
    written."""
    lines = [
        "# Sections of a scenario",
        "",
        "Keys that hold a part link to the page of its slot.",
        "",
    ]
    for path, model in walk_sections(Study, ""):
        lines += [f"({_anchor(path)})=", f"## `{path}:`" if path else "## Top level", ""]
        lines += [
            markdown(inspect.cleandoc(model.__doc__ or "")),
            "",
            *fields_table(model, path),
            "",
        ]
    return "\n".join(lines)


def rules_page() -> str:
    """All rules of fit: the key of each, and the sentence with which a study that breaks it is
    refused."""
    shown = {
        rule.key: re.sub(r"<([\w.]+)>", r"*\1*", rule.pattern).replace("|", "\\|")
        for rule in collect_all_rules()
    }
    rows = [f"| `{key}` | {sentence} |" for key, sentence in shown.items()]
    head = (
        "A scenario that breaks a rule is refused with its sentence; what stands in italics "
        "is of the scenario."
    )
    return "\n".join(["# Rules of fit", "", head, "", "| rule | sentence |", "|---|---|", *rows])


def slots_in(annotation: Any) -> set[str]:
    """Names of the slots that an annotation mentions, at any depth."""
    base, metadata = unwrap_annotation(annotation)
    slot = find_slot(metadata)
    found = {slot.slot} if slot is not None else set()
    for inner in (*list_union_members(base), *get_args(base)):
        if inner is not base:
            found |= slots_in(inner)
    return found


def slot_page(name: str, slot: OneOf) -> str:
    """All parts of a slot."""
    kinds = slot.parts
    lines = [
        f"# {name}",
        "",
        f"{len(kinds)} kinds: " + ", ".join(f"[`{k}`](#{_anchor(name, k)})" for k in kinds),
        "",
    ]
    for kind, part in kinds.items():
        lines += part_section(name, kind, part)
    return "\n".join(lines)


def part_section(slot: str, kind: str, part: type[Part]) -> list[str]:
    """One part: what it does, its keys, the smallest example, what it needs, and where it comes
    from."""
    lines = [
        f"({_anchor(slot, kind)})=",
        f"## {kind}",
        "",
        markdown(inspect.cleandoc(part.__doc__ or "")),
        "",
    ]
    lines += fields_table(part, None) if len(part.model_fields) > 1 else ["No keys besides `kind`."]
    lines.append("")
    for field in part.model_fields.values():
        for inner, _ in find_nested_models(field):
            title = f"Keys of each `{inner.__name__}`"
            lines += [f"**{title}.** {markdown(inspect.cleandoc(inner.__doc__ or ''))}", ""]
            lines += [*fields_table(inner, None), ""]
    facts = [("Example", f"`{to_flow_yaml(part.example)}`")] if part.example else []
    facts += (
        [("Needs", f"{need}: {why}") for need, why in part.needs.items()]
        if isinstance(part.needs, dict)
        else []
    )
    offers = (
        part.model_validate_json(json.dumps(part.example)).offers if part.example else frozenset()
    )
    facts += [("Offers", ", ".join(sorted(offers)))] if offers else []
    facts += [("Reference", markdown(part.reference))] if part.reference else []
    facts.append(("Code", f"`{part.__module__}.{part.__name__}`"))
    return [*lines, *(f"- {word}: {text}" for word, text in facts), ""]


def fields_table(model: type[BaseModel], path: str | None) -> list[str]:
    """One row a key: what it takes with its bounds, the unit, the default, the meaning.

    path : of the section in the scenario, whose own sections have anchors; None inside a part.
    """
    rows = ["| key | type and bounds | unit | default | meaning |", "|---|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if name == "kind":
            continue
        rows.append(
            "| "
            + " | ".join(_cells(name, field, read_descriptions(model).get(name, ""), path))
            + " |"
        )
    return rows


def _cells(name: str, field: FieldInfo, said: str, path: str | None) -> list[str]:
    annotation = get_field_type(field)
    slots = sorted(slots_in(annotation))
    inner = list(find_nested_models(field))
    if any(slot not in SLOTS for slot in slots):  # a choice of few parts of another slot
        slots = []
    choices = [f"a part of slot [{slot}](slot-{slot}.md)" for slot in slots]
    if slots and any(
        get_origin(member) is tuple and slots_in(member)
        for member in list_union_members(unwrap_annotation(annotation)[0])
    ):
        choices = [f"a list of parts of slot [{slot}](slot-{slot}.md)" for slot in slots]
    for model, mark in inner:
        word = "a list of mappings" if mark else "a mapping"
        keys = ", ".join(f"`{key}`" for key in model.model_fields)
        place = _anchor(f"{path}.{name}{mark}".lstrip("."))
        choices.append(f"{word}: {keys}" if path is None else f"[{word}](#{place})")
    taken = " or ".join(choices) or escape(describe_type(annotation))
    default = "required" if field.is_required() else _default(field)
    return [f"`{name}`", taken, find_unit(name).strip(), default, escape(said)]


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None else f"`{to_flow_yaml(value)}`"


def _anchor(*words: str) -> str:
    """A label that is unique in the documentation."""
    text = "-".join(words) or "top"
    return "key-" + re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


# --------------------------------------------------------------------------------------
# command line


def cli_page(top: argparse.ArgumentParser) -> str:
    """Every command with its arguments."""
    lines = [
        "# Command line",
        "",
        markdown(top.description or ""),
        "",
        markdown(top.epilog or ""),
        "",
    ]
    for name, command, summary in commands(top):
        lines += [f"(cli-{name})=", f"## netsim {name}", "", f"{sentence(summary)}", ""]
        lines += [
            "```text",
            " ".join(command.format_usage().split()).removeprefix("usage: "),
            "```",
            "",
        ]
        rows = [_argument(action) for action in command._actions if _shown(action)]
        if rows:
            lines += ["| argument | default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def commands(top: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Name, parser and help of each command."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield name, command, helps.get(name, "")


def _shown(action: argparse.Action) -> bool:
    return action.dest != "help" and action.help != argparse.SUPPRESS


def _argument(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings) or action.dest
    taken = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    )
    if action.option_strings and not taken and action.nargs != 0:
        taken = action.dest.upper()
    label = (
        f"`{name} {taken}`".replace(" `", "`") if action.option_strings else f"`{taken or name}`"
    )
    machine = action.dest == "jobs"  # the default is the number of cores of this machine
    default = "" if action.default in (None, False, [], "") or machine else f"`{action.default}`"
    default = "number of cores" if machine else default
    text = (action.help or "").replace(
        "%(default)s", "number of cores" if machine else str(action.default)
    )
    return f"| {escape(label)} | {default} | {escape(text)} |"


# --------------------------------------------------------------------------------------
# text


def markdown(text: str) -> str:
    """A docstring as Markdown: code stays, what Markdown would take for markup outside of code is
    escaped."""
    text = re.sub(r"(?m)^:math:`(.*)`$", r"$\1$", text).replace("``", "`").replace("::\n", ":\n")
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else _marked(piece) for piece in pieces)


def _marked(text: str) -> str:
    """Outside of code: `<`, `*`, `$` and `_` at the edge of a word are no markup; indented lines
    are code blocks."""
    lines = []
    for line in text.split("\n"):
        code = line.startswith("    ")
        lines.append(line if code else re.sub(r"([<*$\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", line))
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(markdown(text).split()).replace("|", "\\|")


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = markdown(text)
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


# --------------------------------------------------------------------------------------
# Sphinx

_SECTIONS = {
    "parameters",
    "returns",
    "raises",
    "yields",
    "notes",
    "examples",
    "see also",
    "references",
    "warns",
}
_TERM = re.compile(r"(\w[\w, ]*(?: \([^)]*\))?) : (.*)")


_COLON = "\ue000"


def keep_colons(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Before napoleon, which would read `type: meaning` in the first line of a property's
    docstring."""
    if what in ("attribute", "property", "data") and lines:
        lines[:] = [line.replace(":", _COLON) for line in lines]


def plain_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text with `code`, not reStructuredText; this makes them valid
    reStructuredText.

    Markup characters outside of code are escaped, an indented paragraph (a formula) becomes a
    literal block, a line `term : meaning` an item of a list, and a section with another name than
    numpydoc's a line in bold. What napoleon has written (fields that begin with a colon) keeps its
    form.
    """
    out: list[str] = []
    for paragraph in re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines).strip("\n")):
        out += [*_paragraph(paragraph.split("\n")), ""]
    lines[:] = [line.replace(_COLON, ":") for line in out]


def _paragraph(rows: list[str]) -> list[str]:
    if rows[0].lstrip().startswith((":", "..")):
        return [_escaped(row) for row in rows]
    if all(row.startswith("    ") for row in rows):
        return ["::", "", *rows]
    if len(rows) > 1 and re.fullmatch(r"-{3,}", rows[1].strip()):
        return [f"**{rows[0].strip()}**", "", *_paragraph(rows[2:] or [""])]
    out: list[str] = []
    for row in (row.strip() for row in rows):
        term = _TERM.fullmatch(row)
        if term and len(term[1]) < 60:
            out += [f"- `{term[1]}`: {_escaped(term[2])}"]
        elif row.startswith("- "):
            out += [f"- {_escaped(row[2:])}"]
        else:
            in_list = any(line.startswith("- ") for line in out)
            out += [("  " if in_list else "") + _escaped(row)]
    first = next((k for k, line in enumerate(out) if line.startswith("- ")), 0)
    return [*out[:first], "", *out[first:]] if first else out


def _escaped(text: str) -> str:
    pieces = re.split(r"(`+[^`]*`+)", text)
    return "".join(
        p if p.startswith("`") else re.sub(r"(?<!\\)([*|]|_(?!\w))", r"\\\1", p) for p in pieces
    )


FINISHED = "town.html"


def write_finished(app: Any, error: Exception | None) -> None:
    """After a build of HTML, play `town` without defenses and put its page beside, unless it is
    there already."""
    page = Path(app.outdir) / FINISHED
    if error is None and app.builder.format == "html" and not page.exists():
        with tempfile.TemporaryDirectory() as folder:
            page.write_bytes(run(load("town", {"learning.defenses": []}), folder).page.read_bytes())


def write_all(app: Any) -> None:
    """Before Sphinx reads the pages."""
    write_pages(Path(app.srcdir) / "reference" / "generated")
    write_papers(Path(app.srcdir) / "studies" / "papers.md")


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_all)
    app.connect("autodoc-process-docstring", keep_colons, priority=100)
    app.connect("autodoc-process-docstring", plain_docstring, priority=900)  # after napoleon
    app.connect("build-finished", write_finished)
    app.add_lexer("csv", TextLexer)  # pygments has none
    return {"parallel_read_safe": True, "parallel_write_safe": True}
