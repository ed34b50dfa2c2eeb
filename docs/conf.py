"""The site: `sphinx-build -W --keep-going -c docs . build/site`.

The root of the repository is the source folder, so that links between pages are the same on the site and on a page of
the repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, ClassVar

from pygments.lexer import inherit
from pygments.lexers.meson import MesonLexer
from pygments.lexers.special import TextLexer
from pygments.token import Number
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from cugen.version import __version__  # noqa: E402

project = "cugen"
release = __version__
copyright = "the authors of cugen"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/course/*.md",
    "docs/results/*.md",
    "cugen/explain/*.md",
    "examples/README.md",
    "examples/*/README.md",
    "specs/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
myst_heading_anchors = 4
default_role = "code"  # docstrings have single backquotes round code
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

html_theme = "furo"
html_title = f"cugen {release}"
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]
html_copy_source = False
html_show_sphinx = False


class ZeroMesonLexer(MesonLexer):
    """With the number 0, which Pygments' own doesn't know."""

    tokens: ClassVar[dict[str, Any]] = {"root": [(r"\b0\b", Number.Integer), inherit]}


def navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """The links of the start page, section by section, are the navigation; pages of diagnostics aren't in it."""
    if name == root_doc:
        for section in source[0].split("\n## ")[1:]:
            title = section.splitlines()[0]
            pages = re.findall(r"\]\(([^)#]+)\.md\)", section)
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])
    elif name.startswith("cugen/explain/"):
        source[0] = "---\norphan: true\n---\n" + source[0]


def setup(app: Sphinx) -> None:
    app.add_lexer("meson", ZeroMesonLexer)
    app.add_lexer("ninja", TextLexer)  # Pygments has none
    app.connect("source-read", navigation)
