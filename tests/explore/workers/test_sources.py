"""The digest of the sources that results depend on."""

import vdla
from vdla.compiler.codegen.version import network_version
from vdla.explore.workers import sources as module
from vdla.explore.workers.sources import MEASURING, sources


def test_it_covers_the_compiler_and_what_measures(tmp_path, monkeypatch):
    assert sources() == sources() != network_version()
    for package in MEASURING:
        (tmp_path / package).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(vdla, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(module, "network_version", lambda: "one")
    digests = [sources.__wrapped__()]
    (tmp_path / "explore" / "silicon" / "store.json").write_text("{}")
    digests.append(sources.__wrapped__())
    (tmp_path / "hw" / "array.py").write_text("pass")
    digests.append(sources.__wrapped__())
    monkeypatch.setattr(module, "network_version", lambda: "another")
    digests.append(sources.__wrapped__())
    (tmp_path / "hw" / "notes.txt").write_text("nothing depends on it")
    assert len(set(digests)) == 4
    assert sources.__wrapped__() == digests[-1]
