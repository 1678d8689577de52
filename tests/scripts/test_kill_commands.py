"""A small share of the campaign that kills commands, and that it sees what it looks for."""

import sys

import pytest

from tests.loading import load_file


@pytest.fixture
def script(monkeypatch):
    """Return the script; no network is needed for what is killed here."""
    module = load_file("scripts/kill_commands.py")
    monkeypatch.setattr(
        module, "write_inputs", lambda place: (place / "stream.asm").write_text("FINISH()\n" * 5000)
    )
    return module


@pytest.mark.slow
def test_a_killed_command_leaves_no_half_of_a_file(script, tmp_path):
    states, problems = script.campaign("asm", 6, 0, tmp_path)
    assert problems == []
    assert states.total() == 6


CARELESS = {
    "half-written": "file.write('half'); file.flush(); time.sleep(0.5); file.write('whole')",
    "was not there before": "open(sys.argv[1] + '.part', 'w').close(); time.sleep(0.5); file.write('whole')",
    "is not whole after the next run": "time.sleep(0.5); file.write(str(time.time()))",
}


@pytest.mark.parametrize("problem", CARELESS)
def test_a_command_that_writes_carelessly_is_found_out(script, tmp_path, monkeypatch, problem):
    text = f"import sys, time\nwith open(sys.argv[1], 'w') as file: {CARELESS[problem]}"
    monkeypatch.setattr(
        script.Bench, "_line", lambda bench: [sys.executable, "-c", text, str(bench._folder / "plot.svg")]
    )
    _, problems = script.campaign("plot", 6, 0, tmp_path)
    assert any(problem in line for line in problems)
