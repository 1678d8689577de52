"""`vdla compile --explain` and `--stop-after`."""

from tests.cli.commands import invoke
from tests.cli.networks import model


def saved(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(model().SerializeToString())
    return path


def test_the_passes_are_shown_before_the_summary(tmp_path):
    result = invoke("compile", saved(tmp_path), "--config", "tiny", "--explain")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "pass remove_identity"
    assert "pass to_integers" in lines
    assert "pass slice_splits" in lines
    assert (tmp_path / "net.vdla").exists()


def test_the_graph_after_a_pass_is_printed_and_no_module_written(tmp_path):
    result = invoke("compile", saved(tmp_path), "--config", "tiny", "--stop-after", "to_integers")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("def ")
    assert "Int8Conv" in result.output
    assert not (tmp_path / "net.vdla").exists()


def test_a_pass_that_there_is_not_is_refused(tmp_path):
    result = invoke("compile", saved(tmp_path), "--config", "tiny", "--stop-after", "fold")
    assert result.exit_code == 2
    assert "no pass 'fold' has run; these have: remove_identity (" in result.output
    assert not (tmp_path / "net.vdla").exists()


def test_a_folder_is_not_explained(tmp_path):
    saved(tmp_path)
    result = invoke("compile", tmp_path, "--explain")
    assert result.exit_code == 2
    assert "is a folder; --explain and --stop-after take a single model" in result.output
