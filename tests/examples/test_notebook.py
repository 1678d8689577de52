"""The notebook runs, and its answer follows from what it measures."""

import re
from pathlib import Path

from notebooks import executed, printed

NOTEBOOK = Path(__file__).parents[2] / "examples" / "sweeps" / "memory.ipynb"


def test_the_notebook_answers_its_question(tmp_path):
    (answer,) = filter(None, map(printed, executed(NOTEBOOK, tmp_path).cells))
    suffice = {name: int(size) for name, size in re.findall(r"(\S+): (\d+) KiB suffice", answer)}
    assert set(suffice) == {"56x56", "7x7"}
    assert suffice["56x56"] < suffice["7x7"], "the layer with more weights needs more memory"
    changes = [
        (int(traffic), int(energy))
        for traffic, energy in re.findall(r"traffic (\S+)%, energy (\S+)%", answer)
    ]
    assert len(changes) == 2
    assert all(traffic < 0 < energy for traffic, energy in changes), "as its last paragraph says"
