"""Texts of loop programs read back as what they say."""

from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.text import print_func
from vdla.compiler.tasks.program_text import function, joined, nest


def test_a_program_reads_back():
    text = function(
        {"A": "int8[2, 3]", "B": "int8[2, 3]"},
        [
            nest({"i": 2, "j": 3}, "B[i, j] = A[i, j]"),
            nest({"i": 2, "j": 3}, joined(["B[i, j] = A[i, j]", "A[i, j] = B[i, j]"]), threads="i"),
        ],
    )
    assert print_func(parse_func(text)) == text
    assert text.splitlines()[:3] == [
        "def main(A: int8[2, 3], B: int8[2, 3]):",
        "    for i in range(2):",
        "        for j in range(3):",
    ]
    assert "    for i in vthread(2):" in text.splitlines()
