"""The documentation as a site: it builds without a warning, no link is dead, it loads nothing from a network,
and the search works on files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

import vdla
from tests.docs.html import Site, pages_with
from tests.docs.pages import ROOT, paths

CONFIGURATION = ROOT / "docs" / "site"
FIRST = "index.html"
NARROW = 400
WIDTHS = (1280, NARROW, 800, 1010, 1320, 1920)  # Furo lays pages out anew at 1008 and 1312 pixels


def build(source: Path, folder: Path) -> subprocess.CompletedProcess:
    """Build a site as `make site` does, into another folder."""
    recipe = re.search(
        r"^site: env tools\n\t@\$\(PYTHON\) (?P<words>.*)$", (ROOT / "Makefile").read_text(), re.M
    )
    words = recipe["words"].replace("build/site", str(folder)).split()
    return subprocess.run([sys.executable, *words], cwd=source, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Site:
    """Return the site; one process of the test run builds it."""
    folder = tmp_path_factory.getbasetemp()
    if re.fullmatch(r"popen-gw\d+", folder.name):
        folder = folder.parent
    with FileLock(folder / "site.lock"):
        if not (folder / "site" / FIRST).exists():
            done = build(ROOT, folder / "site")
            assert done.returncode == 0, done.stderr
    return Site(folder / "site")


def test_every_page_and_every_example_is_in_the_site(site):
    names = [path.relative_to(ROOT) for path in paths()]
    names += [
        path.relative_to(ROOT)
        for folder in ("examples", "docs/course")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".ipynb")
    ]
    expected = {"docs/course/1_first_accelerator.ipynb", "examples/sweeps/memory.ipynb", "docs/isa.md"}
    assert expected <= {str(name) for name in names}
    assert [str(name) for name in names if name.with_suffix(".html").as_posix() not in site.pages] == []


def test_every_page_is_in_the_table_of_contents(site):
    listed = {link["href"] for link in site.pages[FIRST].select(".sidebar-tree a[href]")}
    unlisted = {"README.html", FIRST, "genindex.html", "py-modindex.html", "search.html"}
    assert set(site.pages) - listed == unlisted


def test_no_link_is_dead(site):
    assert site.dead_links() == []


def test_nothing_is_loaded_from_a_network(site):
    assert site.remote_resources() == []


@pytest.mark.parametrize(
    ("page", "printed", "pictures"),
    [
        ("docs/course/1_first_accelerator.html", "outputs equal, cycles equal, counters equal", 2),
        ("docs/course/2_decoupled_access_execute.html", "deadlock: no unit can go on", 3),
        ("docs/course/3_from_onnx_to_a_stream.html", "proved", 1),
        ("examples/sweeps/memory.html", "KiB suffice", 1),
    ],
)
def test_the_page_of_a_notebook_shows_its_outputs(site, page, printed, pictures):
    outputs = site.pages[page].select(".cell_output")
    assert any(printed in output.get_text() for output in outputs)
    assert sum(len(output.select("img, svg")) for output in outputs) == pictures


def planted(folder: Path, body: str, style: str = "") -> Site:
    """Return a site of two pages and a style sheet."""
    (folder / "sub").mkdir()
    (folder / "sub" / "other.html").write_text('<h1 id="top">Other</h1>')
    (folder / "style.css").write_text(style)
    (folder / "page.html").write_text(
        f'<link rel="stylesheet" href="style.css"><h1 id="here">Page</h1>{body}'
    )
    (folder.parent / "outside.html").write_text("")
    return Site(folder)


@pytest.mark.parametrize(
    ("target", "resolves"),
    [
        ("sub/other.html", True),
        ("sub/other.html#top", True),
        ("#here", True),
        ("https://example.org/none#none", True),
        ("sub/none.html", False),
        ("sub/other.html#none", False),
        ("#none", False),
        ("sub", False),
        ("../outside.html", False),
    ],
)
def test_a_dead_link_is_noticed(tmp_path, target, resolves):
    (tmp_path / "site").mkdir()
    links = planted(tmp_path / "site", f'<a href="{target}">x</a>').dead_links()
    assert links == ([] if resolves else [f"page.html: {target}"])


@pytest.mark.parametrize(
    "body",
    [
        '<script src="{}"></script>',
        '<img src="{}">',
        '<img srcset="a.png 1x, {} 2x">',
        '<link rel="stylesheet" href="{}">',
        '<link rel="preload" as="font" href="{}">',
        "<style>@font-face {{ src: url({}) }}</style>",
        '<iframe src="{}"></iframe>',
        '<svg><image href="{}"/></svg>',
    ],
)
@pytest.mark.parametrize("url", ["https://cdn.example.org/a", "//cdn.example.org/a"])
def test_a_resource_of_a_network_is_noticed(tmp_path, body, url):
    assert planted(tmp_path, body.format(url)).remote_resources() == [f"page.html: {url}"]
    (tmp_path / "page.html").write_text(body.format("a"))
    assert Site(tmp_path).remote_resources() == []


@pytest.mark.parametrize("style", ["@import '{}';", 'a {{ background: url("{}") }}'])
def test_a_resource_of_a_style_sheet_is_noticed(tmp_path, style):
    url = "https://cdn.example.org/a"
    assert planted(tmp_path, "", style.format(url)).remote_resources() == [f"style.css: {url}"]


def test_a_broken_reference_ends_the_build(tmp_path):
    """A page with a dead link, and a page that is in no table of contents."""
    for name in ("docs/site", "docs/decisions", "examples", "scripts"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "scripts" / "notebooks.py").write_text((ROOT / "scripts" / "notebooks.py").read_text())
    (tmp_path / "docs" / "site" / "conf.py").write_text((CONFIGURATION / "conf.py").read_text())
    (tmp_path / "docs" / "site" / "site.css").write_text("")
    (tmp_path / "README.md").write_text("# First\n[a](docs/none.md)\n")
    (tmp_path / "docs" / "stray.md").write_text("# Stray\n")
    done = build(tmp_path, tmp_path / "built")
    assert done.returncode != 0
    assert "'docs/none.md'" in done.stderr
    assert "stray.md: WARNING: document isn't included in any toctree" in done.stderr


@pytest.mark.parametrize(
    ("stem", "page"),
    [
        ("scratchpad", "docs/glossary"),
        ("requantis", "docs/isa"),
        ("deadlock", "docs/messages"),
        ("pytorch", "docs/from_pytorch"),
        ("calibr", "docs/networks"),
        ("percentil", "docs/site/api/networks"),  # of a docstring
        ("notebook", "docs/sweeps"),
        ("altair", "examples/sweeps/memory"),
    ],
)
def test_the_search_knows_the_words_of_a_page(site, stem, page):
    assert page in pages_with(site.index(), stem)


def test_the_search_knows_what_is_no_word_of_a_page(site):
    assert pages_with(site.index(), "nonesuch") == set()


def test_the_reference_has_the_public_names(site):
    objects = {entry[-1] for entry in site.index()["objects"]["vdla"]}
    assert objects == set(vdla._API)
    text = site.pages["docs/site/api/networks.html"].find(id="vdla.compile").parent.get_text()
    assert "samples" in text
    assert "GraphError" in text


def test_the_search_works_in_a_browser(site, running):
    from tests.explore.report.browser import opened

    with opened(running, site.folder / FIRST, ready=".sidebar-search") as browser:
        browser.page.fill(".sidebar-search", "requantise store")
        browser.page.press(".sidebar-search", "Enter")
        browser.page.get_by_text("Search finished").wait_for()
        results = browser.page.locator("ul.search a")
        assert "Instruction set" in results.all_inner_texts()
        results.get_by_text("Instruction set", exact=True).click()
        browser.page.wait_for_url("**/docs/isa.html*")
        assert browser.page.locator("h1").inner_text().startswith("Instruction set")
        browser.page.goto(f"{(site.folder / 'search.html').as_uri()}?q=nonesuch")
        browser.page.get_by_text("did not match any documents").wait_for()
        assert browser.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", [FIRST, "docs/networks.html", "docs/site/api/networks.html", "docs/isa.html"]
)
def test_a_page_fits_windows_in_its_colours(site, running, name, scheme):
    from tests.explore.report.browser import opened

    with opened(running, site.folder / name, WIDTHS[0], scheme, ready="article") as browser:
        for width in WIDTHS:
            browser.page.set_viewport_size({"width": width, "height": 900})
            assert (width, browser.page.evaluate("document.documentElement.scrollWidth")) == (width, width)
        colours = (
            browser.page.evaluate(f"getComputedStyle(document.body).{name}")
            for name in ("backgroundColor", "color")
        )
        background, text = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
        assert (background < text) == (scheme == "dark")
        assert browser.complaints == []


def test_every_page_fits_a_narrow_window_and_asks_no_network(site, running):
    with running.new_context(viewport={"width": NARROW, "height": 900}) as context:
        page, wide, asked = context.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        for name in site.pages:
            page.goto((site.folder / name).as_uri())
            if page.evaluate("document.documentElement.scrollWidth") > NARROW:
                wide.append(name)
    assert wide == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
