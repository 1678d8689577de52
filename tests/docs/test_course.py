"""The notebooks of the course run, answer their questions, and print what their texts say."""

import re
from itertools import takewhile
from pathlib import Path

import nbformat
import pytest
from notebooks import executed, printed

from tests.docs.pages import DOCS

NOTEBOOKS = sorted((DOCS / "course").glob("*.ipynb"))
QUESTION = "**Question.**"


def numbers_of(pattern: str, text: str) -> list[list[int]]:
    """Return the numbers in the groups of each match; thousands have commas."""
    return [[int(group.replace(",", "")) for group in match.groups()] for match in re.finditer(pattern, text)]


def first_accelerator(text: str) -> None:
    """Check the answers of notebook 1."""
    assert numbers_of(r"(\d+) MACs in a cycle", text) == numbers_of(r"(\d+) multipliers, one for each", text)
    ((predicted, busy),) = numbers_of(r"= ([\d,]+) cycles\nmeasured: ([\d,]+) cycles", text)
    assert predicted < busy < 1.01 * predicted, "few cycles only start instructions"
    assert "outputs equal, cycles equal, counters equal" in text
    ((later, latency),) = numbers_of(r"(\d+) cycles later\nlatency of the memory: (\d+)", text)
    assert later == latency
    ((narrow, wide),) = numbers_of(r"run: +([\d,]+) and ([\d,]+) cycles", text)
    assert narrow / 2 < wide < narrow, "faster, but not twice as fast"
    ((more, exposed),) = numbers_of(r"([\d,]+) cycles more for \d+ bursts of operands, not ([\d,]+)", text)
    assert 0 < more < exposed / 10, "most of the latency is hidden"


def decoupled_access_execute(text: str) -> None:
    """Check the answers of notebook 2."""
    (single, single_measured), (double, double_measured) = numbers_of(
        r"= (\d+) cycles\nmeasured: +(\d+) cycles", text
    )
    assert single < single_measured < 1.1 * single
    assert double == double_measured, "with two buffers, loads are hidden"
    limits = numbers_of(r"buffers: predicted (\d+), measured (\d+) cycles", text)
    assert len(limits) == 3
    assert all(measured <= predicted < measured + 8 for predicted, measured in limits)
    ((serial,), (overlapped,)) = numbers_of(r"buffers=\d: .* (\d+)%", text)
    assert serial > 10 > 2 > overlapped
    in_order, threaded = numbers_of(r"tokens, \[(\d+), (\d+), (\d+)\] cycles", text)
    assert all(fast < slow for fast, slow in zip(threaded, in_order, strict=True))
    assert "chain of waits: load waits for a token compute->load that nothing pushes" in text
    assert "all tokens: 1 different result\n" in text
    ((results,),) = numbers_of(r"without the pops: (\d+) different results", text)
    assert results > 1
    assert "all tokens: safe\n" in text
    assert "no token orders them: a token compute->load is missing" in text


def from_onnx_to_a_stream(text: str) -> None:
    """Check the answers of notebook 3."""
    ((macs,),) = numbers_of(r"sum +([\d,]+)", text)
    assert f"{macs / 1000:.1f} kMAC" in text, "the compiled network multiplies as often"
    ((floats, total),) = numbers_of(r"float +(\d+) of (\d+) digits", text)
    ((integers, _),) = numbers_of(r"int8 +(\d+) of (\d+) digits", text)
    assert integers > floats - total / 100, "int8 costs less than a percent"
    cycles = numbers_of(r"chosen ([\d,]+), best ([\d,]+), worst ([\d,]+) cycles", text)
    assert len(cycles) == 3
    assert all(best <= chosen < worst for chosen, best, worst in cycles)
    assert "load_wgt: its loops have extents 8x8, these 8" in text
    points = numbers_of(
        r"(\d+) x (\d), chunks of (\d), threads (\d): +([\d,]+) bytes, +([\d,]+) cycles", text
    )
    fastest = min(points, key=lambda point: point[-1])
    assert numbers_of(r"fastest: \((\d+), (\d), (\d), (\d)\)", text) == [fastest[:4]]
    assert fastest[3] == 2, "two threads are faster"
    most, least = (choose(points, key=lambda point: point[-2]) for choose in (max, min))
    assert fastest[-1] < least[-1] < most[-1], "the tiles that load least are not the fastest"
    assert "buffer S of 512 elements does not fit the accumulator memory" in text
    assert "\nproved\n" in text


def how_much_hardware(text: str) -> None:
    """Check the answers of notebook 4."""
    ((small, large),) = numbers_of(r"([\d,]+) and ([\d,]+) cycles: [\d.]+ times as fast", text)
    assert large < small < 16 * large, "faster, but not by as much as the multipliers"
    assert "best value: alu_lanes" in text
    ((pairs,),) = numbers_of(r"(\d+) pairs, for example", text)
    assert pairs > 0, "fewer cycles, and yet more time"
    ((front, points),) = numbers_of(r"(\d+) of (\d+) are on the front", text)
    assert 2 < front < points == 27
    ((share,),) = numbers_of(r"dram takes (\d+)% of the energy", text)
    assert share > 50
    assert "scarce: dsp" in text, "multipliers run out before LUTs"
    ((default, tuned),) = numbers_of(r"([\d,]+) cycles before, ([\d,]+) tuned", text)
    assert tuned < default
    assert "before: perhaps - tuned: within" in text, "tuning decides"
    assert "decision: none" not in text


def your_own_instruction(text: str) -> None:
    """Check the answers of notebook 5."""
    assert "a and b loaded once: None\n" in text
    assert numbers_of(r"a loaded again as C: (\d+) passes", text) == [[4]]
    assert "max(M[" in text
    assert "absdiff(D[" in text
    ((proved, circuits),) = numbers_of(r"(\d+) of (\d+) circuits with", text)
    ((refuted, faults),) = numbers_of(r"(\d+) of (\d+) planted faults refuted", text)
    assert proved == circuits > 0
    assert refuted == faults > 0
    (by_pixels,), (at_random,) = numbers_of(r"noticed by (\d+)%", text)
    assert by_pixels == 0 < at_random, "tests on pixels do not notice the fault"
    ((predicted, measured),) = numbers_of(r"predicted: (\d+) LUTs, measured: {'LUT': (\d+)", text)
    assert predicted <= measured < 1.5 * predicted
    assert [device in text for device in ("functional", "rtl", "WRONG")] == [True, True, False]
    ((saved, in_passes),) = numbers_of(r"([\d,]+) cycles saved, ([\d,]+) of them in passes", text)
    assert in_passes < saved < 1.3 * in_passes, "the passes, and a load"


CHECKS = {
    "1_first_accelerator": first_accelerator,
    "2_decoupled_access_execute": decoupled_access_execute,
    "3_from_onnx_to_a_stream": from_onnx_to_a_stream,
    "4_how_much_hardware": how_much_hardware,
    "5_your_own_instruction": your_own_instruction,
}


def unanswered(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the questions that are not followed by a cell that prints or shows something."""
    cells = notebook.cells
    return [
        cell.source
        for number, cell in enumerate(cells)
        if cell.cell_type == "markdown"
        and QUESTION in cell.source
        and not any(
            answer.outputs for answer in takewhile(lambda each: each.cell_type == "code", cells[number + 1 :])
        )
    ]


def titled(path: Path) -> str:
    """Return the first line of a notebook."""
    return nbformat.read(path, 4).cells[0].source.partition("\n")[0]


def test_the_notebooks_of_the_course_are_numbered():
    assert set(CHECKS) == {path.stem for path in NOTEBOOKS}
    titles = [titled(path) for path in NOTEBOOKS]
    assert [title[:5] for title in titles] == [f"# {path.stem[0]}. " for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_course_has_questions_and_no_outputs(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.id for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert sum(cell.source.count(QUESTION) for cell in notebook.cells) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_course_answers_its_questions(path, tmp_path):
    notebook = executed(path, tmp_path)
    assert unanswered(notebook) == []
    if path.stem in CHECKS:
        CHECKS[path.stem](re.sub(r"\n {8}", " ", "".join(map(printed, notebook.cells))))  # wrapped lines


def asked(*outputs: list[nbformat.NotebookNode]) -> nbformat.NotebookNode:
    """Return a notebook of a question and of cells with these outputs."""
    answers = [nbformat.v4.new_code_cell("x", outputs=each) for each in outputs]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"{QUESTION} Why?"), *answers])


def test_a_question_without_an_answer_is_noticed():
    answer = nbformat.v4.new_output("stream", text="42")
    assert unanswered(asked([], [answer])) == []
    assert unanswered(asked([], [])) == [f"{QUESTION} Why?"]
    late = asked([])
    late.cells += asked([answer]).cells
    assert unanswered(late) == [f"{QUESTION} Why?"]
