"""The pictures of docs/simulator.md agree with these sources: the same words and numbers are drawn."""

import re

import pytest
from click.testing import CliRunner

pytest.importorskip("matplotlib")
import make_pictures

TEXT = re.compile(r"<text[^>]*>([^<]*)")


def test_the_pictures_are_drawn_from_these_sources(tmp_path):
    done = CliRunner().invoke(make_pictures.main, ["--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 3
    for path in drawn:
        shown = make_pictures.PICTURES / path.name
        assert TEXT.findall(path.read_text()) == TEXT.findall(shown.read_text()), "run make figures"
