"""Tables that are collected from the modules of a package."""

import pytest

from vdla.compiler.discovery import declared, modules_of

MODULES = {
    "__init__": "TABLE = {'hidden': 0}",
    "b": "TABLE = {'y': 2}\nOTHER = {'q': 9}",
    "a": "TABLE = {'z': 1}",
    "c": "",
}


@pytest.fixture
def package(tmp_path, monkeypatch, request) -> str:
    """Return the name of a package with the modules of `MODULES`."""
    name = f"package_of_{request.node.name}"
    (tmp_path / name).mkdir()
    for module, text in MODULES.items():
        (tmp_path / name / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_entries_of_all_modules_are_collected_in_order(package):
    assert [module.__name__ for module in modules_of(package)] == [f"{package}.{name}" for name in "abc"]
    assert list(declared(package, "TABLE").items()) == [("y", 2), ("z", 1)]
    assert declared(package, "OTHER") == {"q": 9}
    assert declared(package, "NONE") == {}


def test_a_key_of_two_modules_is_refused(package, tmp_path):
    (tmp_path / package / "d.py").write_text("TABLE = {'z': 3}")
    with pytest.raises(
        ValueError, match=rf"^{package}\.d\.TABLE declares 'z', as another module of {package} does$"
    ):
        declared(package, "TABLE")
