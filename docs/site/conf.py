"""The documentation site. `make site` builds it with Sphinx, from the pages where they are in the repository.

The pages are Markdown that GitHub renders, too. They contain nothing for Sphinx: the contents of the site are
`CONTENTS`. Examples, and source files that a page links to, are pages that show their text. Notebooks are
executed, and their pages show the outputs.
"""

import re
import shutil
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

from notebooks import kit_digest, with_outputs  # noqa: E402

CONTENTS = {
    "Course": "course/README course/[1-9]*",
    "Use": "networks language_models from_pytorch operators configuration sweeps tuning reports commands "
    "messages remote security",
    "Hardware": "verilog boards board_driver export from_vta isa registers microarchitecture formal",
    "Inside": "compiler schedules simulator debugger debugger_causes proofs",
    "Measurements": "performance area timing",
    "Reference": "glossary site/api/*",
    "Development": "/CONTRIBUTING /ARCHITECTURE decisions/*",
    "Examples and sources": "/examples/**",
}  # names of pages in docs/, or from the root
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json"}
PAGES = ("*.md", "docs/*.md", "docs/course/*.md", "docs/decisions/*.md", "examples/**/*.md")
LINK = re.compile(r"\]\(([^)#\s]+)")

project = "vdla"
copyright = "the authors of vdla, Apache-2.0"
version = release = version_of("vdla")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
source_suffix = {
    ".rst": "restructuredtext",
    **dict.fromkeys((".md", ".ipynb", *LANGUAGES), "myst-nb"),  # which takes only .ipynb for notebooks
}


def linked_sources() -> set[str]:
    """Return the source files that the pages link to, relative to the root."""
    files = {
        (page.parent / target).resolve()
        for pattern in PAGES
        for page in ROOT.glob(pattern)
        for target in LINK.findall(page.read_text())
    }
    return {
        str(file.relative_to(ROOT))
        for file in files
        if file.suffix in LANGUAGES and file.is_file() and file.is_relative_to(ROOT)
    }


SOURCES = sorted(linked_sources())
include_patterns = [
    *PAGES,
    "docs/course/*.ipynb",
    *(f"examples/**{suffix}" for suffix in (".ipynb", *LANGUAGES)),
    "docs/site/api/*.rst",
    *SOURCES,
]
exclude_patterns = [".*", "build", "dist", "src", "tests"]

nb_execution_mode = "off"  # `read` executes notebooks

myst_heading_anchors = 6  # as on GitHub
highlight_language = "text"
default_role = "code"  # single backticks in docstrings

suppress_warnings = ["ref.python"]  # a name in a list of attributes may be that of several classes
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True  # as in the source
napoleon_use_ivar = True  # "Attributes:" is a list; the attributes are not documented twice
napoleon_custom_sections = ["Source", "Timing", "Members"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "vdla"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # a page that is opened as a file may not read other files
pygments_style = "a11y-light"
pygments_dark_style = "a11y-high-contrast-dark"


def contents() -> str:
    """Return the tables of contents, as directives."""
    sources = [f"/{Path(name).with_suffix('')}" for name in SOURCES if not name.startswith("examples/")]
    tables = {
        caption: [f"/docs/{name}".replace("/docs//", "/") for name in names.split()]
        for caption, names in CONTENTS.items()
    }
    tables["Examples and sources"] += sources
    return "\n".join(
        "\n".join(("```{toctree}", ":hidden:", ":glob:", f":caption: {caption}", "", *names, "```", ""))
        for caption, names in tables.items()
    )


def listing(text: str, language: str) -> str:
    """Return a fenced block."""
    fence = "`" * 8
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Execute notebooks, make Markdown of sources, and add the tables of contents to the first page."""
    path = Path(app.env.doc2path(docname))
    if docname == root_doc:
        app.env.note_dependency(__file__)
        source[0] += f"\n{contents()}"
    elif path.suffix == ".ipynb":
        source[0] = with_outputs(path)
    elif path.suffix in LANGUAGES:
        source[0] = f"# {path.relative_to(ROOT)}\n\n{listing(source[0], LANGUAGES[path.suffix])}"


def write_index(app: Sphinx, failure: Exception | None) -> None:
    """Write the first page under the name that browsers and servers look for, too."""
    if failure is None:
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Let Sphinx call `read` for each page, all of them if sources change, and `write_index` at the end."""
    app.add_config_value("digest_of_kit", kit_digest(), "env", str)
    app.connect("source-read", read)
    app.connect("build-finished", write_index)
