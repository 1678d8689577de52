"""Marks on pages: figures and excerpts of stored output take their place."""

import pytest
from figures.declared import Measurement
from figures.pages import PageError, marks, rendered
from figures.store import Output

RUN = Measurement(
    "run",
    "vdla run x.onnx",
    depends=("sim",),
    figures={"cycles": r"([\d,]+) cycles", "loops": r"([\d,]+) loops"},
    views={"end": r"(last .*)"},
)
OUTPUTS = {"run": Output("", "first 7,602,145 cycles\nlast line\nof all")}


def page(text: str) -> str:
    return rendered(text, {"run": RUN}, OUTPUTS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("takes 1<!-- run.cycles --> cycles", "takes 7,602,145<!-- run.cycles --> cycles"),
        ("takes 1.0<!-- run.cycles M.1 --> million", "takes 7.6<!-- run.cycles M.1 --> million"),
        ("takes 1<!-- run.cycles k.0 --> k", "takes 7,602<!-- run.cycles k.0 --> k"),
        ("no mark: 7 cycles", "no mark: 7 cycles"),
        (
            "<!-- run -->\n```\nold\n```\n",
            "<!-- run -->\n```\nfirst 7,602,145 cycles\nlast line\nof all\n```\n",
        ),
        (
            "<!-- run end -->\n```\n$ vdla\nold\n```\n",
            "<!-- run end -->\n```\n$ vdla\nlast line\nof all\n```\n",
        ),
        ("```\nnot marked\n```\n", "```\nnot marked\n```\n"),
    ],
)
def test_marks_take_what_is_stored(before, after):
    assert page(before) == after
    assert page(after) == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1<!-- ran.cycles -->", "the mark ran names no stored measurement"),
        ("1<!-- run.slots -->", "declares no figures.slots of run"),
        ("1<!-- run.loops -->", "holds no '([\\\\d,]+) loops' (run.loops)"),
        ("<!-- run begin -->\n```\n```\n", "declares no views.begin of run"),
    ],
)
def test_an_unknown_mark_is_refused(text, message):
    with pytest.raises(PageError) as raised:
        page(text)
    assert message in str(raised.value)


def test_the_marks_of_a_page_name_measurements():
    assert marks("1<!-- a.b --> text\n<!-- c d -->\n```\n```\n<!-- a comment -->") == {"a", "c"}
