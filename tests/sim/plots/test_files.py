"""Files of plots: their size, and what stands in them whenever they are written."""

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from vdla.hw.spec.errors import FileFormatError
from vdla.sim.plots.files import check_suffix, save


@pytest.mark.parametrize("spelling", [str, Path])
def test_a_path_is_given_as_text_or_as_a_path(tmp_path, spelling):
    wanted = tmp_path / "plot.svg"
    assert check_suffix(spelling(wanted)) == wanted
    assert isinstance(check_suffix(spelling(wanted)), Path)
    save(Figure(figsize=(1, 1)), spelling(wanted))
    assert wanted.stat().st_size > 0


def test_a_png_has_150_dots_to_an_inch(tmp_path):
    save(Figure(figsize=(4, 3)), tmp_path / "plot.png")
    width_and_height = np.frombuffer((tmp_path / "plot.png").read_bytes(), ">u4", count=2, offset=16)
    assert width_and_height.tolist() == [4 * 150, 3 * 150]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_file_tells_neither_when_nor_by_what_it_was_written(tmp_path, suffix):
    save(Figure(figsize=(1, 1)), tmp_path / f"plot.{suffix}")
    data = (tmp_path / f"plot.{suffix}").read_bytes()
    assert not re.search(rb"<dc:date>|Software", data)


@pytest.mark.parametrize(
    ("name", "told"), [("plot.pdf", ".pdf"), ("png", "a file without a suffix"), ("plot.PNG", ".PNG")]
)
def test_another_suffix_is_refused(tmp_path, name, told):
    path = tmp_path / name
    message = f"^{re.escape(f'{path}: a plot is written as .png or .svg, not as {told}')}$"
    for refused in (check_suffix, lambda path: save(Figure(), path)):
        with pytest.raises(FileFormatError, match=message):
            refused(path)
    assert list(tmp_path.iterdir()) == []
