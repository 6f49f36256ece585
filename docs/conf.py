"""Sphinx configuration. Build: ``python -m sphinx -W -b html docs docs/_build/html``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

from netsim import __version__  # noqa: E402

project = "netsim"
author = "The netsim developers"
copyright = "2026, The netsim developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "generated_pages",
    "moved_pages",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]

# Markdown and notebooks. Notebooks are committed with their outputs; a slow test executes them.
nb_execution_mode = "off"
myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]

# Docstrings follow the NumPy convention.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {
    name: name
    for name in (
        "FloatArray",
        "IntArray",
        "BoolArray",
        "ComplexArray",
        "State",
        "Seen",
        "ArrayLike",
    )
}
autodoc_class_signature = "separated"
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "__init__, __new__, model_config, model_post_init",
}
autoclass_content = "class"
autodoc_inherit_docstrings = False
napoleon_google_docstring = False
napoleon_use_ivar = True
add_module_names = False
default_role = "code"  # docstrings write `name` for code

# Theme. Nothing is fetched when the pages are built.
html_theme = "furo"
html_title = f"netsim {version}"
html_static_path = ["_static"]
html_show_sourcelink = False
