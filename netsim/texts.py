"""Texts that templates make, which lie beside the modules that print them."""

from functools import cache
from typing import Any

from netsim.errors import format_count


@cache
def read_template(package: str, name: str) -> Any:
    """The template of this name in a package; no value in it breaks a line."""
    from jinja2 import Environment, PackageLoader  # here, since it loads for long

    templates = Environment(  # noqa: S701, it is no HTML
        loader=PackageLoader(package, ""), finalize=lambda value: str(value).replace("\n", " ")
    )
    templates.globals["count"] = format_count
    return templates.get_template(name)


def render_lines(package: str, name: str, **context: object) -> list[str]:
    """The lines of a template."""
    return read_template(package, name).render(context).split("\n")


def render_facts(package: str, name: str, **context: object) -> list[tuple[str, str]]:
    """Facts of a template in their order, each a name and its text, from lines `name|text`."""
    lines = render_lines(package, name, **context)
    return [(fact, text) for fact, _, text in (line.partition("|") for line in lines)]
