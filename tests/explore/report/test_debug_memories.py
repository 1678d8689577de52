"""The page of the debugger: scratchpads, the chosen instruction, elements and breakpoints are the debugger's."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("playwright")

from tests.explore.debug.imaged import contents
from tests.explore.debug.planted import planted
from tests.explore.report.browser import Opened, opened
from vdla.explore.debug.contents import Contents
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.execution import values_of
from vdla.explore.debug.recording import NONE, DebugError
from vdla.explore.report.debug_page import write_debug_page
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.timing.result import NEVER
from vdla.sim.verify.columns import DRAM

COMPARED = ("conv3x3_d", "4", "7", "9")
MOMENTS, INSTRUCTIONS = 12, 40
CONDITIONS = (
    "instruction 7",
    "/^LOAD/",
    "/GEMM|ALU/",
    "element INP 3",
    "element ACC 0",
    "element UOP 1",
    "tokens load->compute >= 1",
    "tokens compute->store == 1",
    "tokens store->compute < 1",
    "queue compute > 2",
    "queue store == 0",
    "queue load <= 1",
    "LOAD_MEMORY > 10",
    "COMPUTE_BUSY >= 1,00",
    "STORE_TOKEN_PREV == 0x20",
    "LOAD_BUSY < 5",
    "GEMM_STEPS > 50",
    "ALU_STEPS == 0",
    "ALU_STEPS >= 17",
    "GEMM_STEPS >= 9999999",
)
HELD = """cycles => cycles.map((cycle) => page.run.scratchpads.map(([memory]) =>
  page.memories.held(memory, cycle).map(({ begin, end, label, writers }) => [begin, end, label, writers])))"""
TOUCHED = """indices => indices.map((index) => {
  const memories = page.memories;
  const touches = memories.of(index).map((touch) =>
    [memories.memory[touch], memories.kind[touch], memories.placesText(touch), memories.areaName(touch)]);
  return [touches, [...memories.sources(index)], [...memories.readers(index)]];
})"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("memories")
    return {name: write_debug_page(folder / f"{name}.html", contents(name).recording) for name in COMPARED}


@pytest.fixture
def shown(running, files) -> Iterator[Opened]:
    with opened(running, files["conv3x3_d"]) as opened_page:
        yield opened_page
        assert opened_page.complaints == []


def by_memory(rows: list[tuple[int, int]]) -> list[list]:
    """Return pairs of memory and instruction as the page holds them."""
    grouped: dict[int, list[int]] = {}
    for memory, instruction in rows:
        grouped.setdefault(memory, []).append(instruction)
    return [[memory, instructions] for memory, instructions in grouped.items()]


@pytest.mark.parametrize("name", COMPARED)
def test_scratchpads_touches_and_flow_on_the_page_are_those_of_the_debugger(running, files, name):
    memories, pick = contents(name), random.Random(name)
    with opened(running, files[name]) as opened_page:
        cycles = [pick.randrange(memories.recording.timing.cycles) for _ in range(MOMENTS)]
        expected = [
            [
                [
                    [each.begin, each.end, each.label, list(each.writers)]
                    for each in memories.held(memory, cycle)
                ]
                for memory in memories.scratchpads
            ]
            for cycle in cycles
        ]
        assert opened_page.page.evaluate(HELD, cycles) == expected
        indices = [pick.randrange(len(memories.recording)) for _ in range(INSTRUCTIONS)]
        assert opened_page.page.evaluate(TOUCHED, indices) == [touched(memories, index) for index in indices]
        assert opened_page.complaints == []


def touched(memories: Contents, index: int) -> list:
    """Return what the page holds of the touches and the flow of an instruction."""
    views = [
        [view.memory, view.reads + 2 * view.writes, view.text, view.area] for view in memories.touched(index)
    ]
    return [views, by_memory(memories.flow.sources(index)), by_memory(memories.flow.readers(index))]


def test_values_on_the_page_are_those_of_the_debugger(shown):
    memories, pick = contents("conv3x3_d"), random.Random(3)
    writes = np.flatnonzero(memories.touches.writes & (memories.touches.memory != MemoryType.UOP)).tolist()
    for number in [pick.choice(writes) for _ in range(20)]:
        memory, places = int(memories.touches.memory[number]), memories.touches.places(number)
        place, index = int(pick.choice(places)), int(memories.touches.instruction[number])
        expected = dict(values_of(memories, memory, place))[index].reshape(-1).tolist()
        assert shown.page.evaluate(f"page.memories.valuesAt({number}, {place})") == expected


@pytest.mark.parametrize("name", COMPARED)
def test_breakpoints_on_the_page_begin_to_hold_when_those_of_the_debugger_do(running, files, name):
    debugger = Debugger(contents(name).recording)
    address = next(view.begin for view in debugger.contents.touched(debugger.contents.flow.writer.max()))
    first = int(debugger.contents.touches.begin[debugger.contents.touches.memory == DRAM][0])
    conditions = [*CONDITIONS, f"address {first:#x}", f"address {address}"]
    expected = {text: debugger.add_breakpoint(text.split()).cycles.tolist() for text in conditions}
    assert sum(map(bool, expected.values())) > 10
    with opened(running, files[name]) as opened_page:
        script = (
            "texts => Object.fromEntries(texts.map((text) => [text, [...page.breakpoints.cyclesOf(text)]]))"
        )
        assert opened_page.page.evaluate(script, conditions) == expected


@pytest.mark.parametrize(
    "text",
    [
        "often",
        "tokens load->store > 1",
        "queue fetch > 1",
        "queue load => 1",
        "element OUT 1",
        "element INP far",
        "NO_COUNTER > 1",
        "instruction 9999",
        "/(/",
    ],
)
def test_what_is_no_condition_is_refused_on_the_page_and_in_the_terminal(shown, text):
    with pytest.raises(DebugError):
        Debugger(contents("conv3x3_d").recording).add_breakpoint(text.split())
    shown.page.locator("#condition").fill(text)
    shown.page.locator("#condition").press("Enter")
    said = shown.page.locator("#break-text").inner_text()
    assert any(word in said for word in ("write", "choose", "put \\ before"))
    assert shown.page.locator("#breakpoints li").count() == 0


def test_continue_stops_where_the_debugger_does_in_both_directions(shown):
    debugger, page = Debugger(contents("conv3x3_d").recording), shown.page
    for text in ("element INP 1030", "tokens load->compute >= 2"):
        page.locator("#condition").fill(text)
        page.locator("#break-form button[type='submit']").click()
        point = debugger.add_breakpoint(text.split())
        assert f"{text} begins to hold {len(point.cycles)} times" in page.locator("#break-text").inner_text()
    for forwards in (True, True, True, False, True, False, False, False, False):
        page.locator(f"[data-continue='{1 if forwards else -1}']").click()
        debugger.resume(backwards=not forwards)
        assert page.evaluate("page.cycle") == debugger.cycle
    page.locator("[data-delete='0']").click()
    assert page.locator("#breakpoints code").all_inner_texts() == ["tokens load->compute >= 2"]


def test_the_chosen_instruction_shows_its_waits_tokens_touches_and_work(shown):
    debugger, page = Debugger(contents("conv3x3_d").recording), shown.page
    assert not page.locator("#instruction-section").is_visible()
    page.evaluate("page.gotoInstruction(44)")
    view, chain = debugger.instruction(44), debugger.why(44)
    waits = page.locator("[data-card='Waits'] li").all_inner_texts()
    (link, *_) = chain.links
    assert link.cycles == 1
    assert waits[1].startswith(
        f"starts: cycle {view.started:,}, 1 cycle for {link.text}: instruction 43 retires"
    )
    touches = page.locator("[data-card='Reads and writes'] li").all_inner_texts()
    assert touches[1] == "reads INP 1049..1058, 4 rows at a distance of 12, written by 27"
    assert touches[3] == "adds to ACC 0..39, written by 42, read by 46"
    assert page.locator("[data-card='Work'] li").all_inner_texts() == ["issues 40 slots"]
    page.locator("[data-card='Reads and writes'] button", has_text="27").click()
    assert page.evaluate("page.selected") == 27
    tokens = page.locator("[data-card='Tokens'] li").all_inner_texts()
    (taken,) = debugger.instruction(27).taken
    assert tokens == [f"takes a token compute->load of {taken.producer}"]
    assert "of segment 0x4001000" in page.locator("[data-card='Reads and writes']").inner_text()


def test_an_element_leads_to_its_instructions(shown):
    memories, page = contents("conv3x3_d"), shown.page
    page.locator("#element-memory").select_option(label="INP")
    page.locator("#element").fill("1030")
    page.locator("#element").press("Enter")
    rows = page.locator("#touches tbody tr")
    history = list(memories.history(MemoryType.INP, 1030))
    assert rows.locator("th").all_inner_texts() == [str(view.instruction) for view in history]
    values = dict(values_of(memories, MemoryType.INP, 1030))
    for place, view in enumerate(history):
        text = rows.nth(place).locator("td").nth(4).inner_text()
        expected = ", ".join(map(str, values[view.instruction].reshape(-1))) if view.writes else ""
        assert text == expected
    rows.nth(1).locator("button").click()
    assert page.evaluate("page.selected") == history[1].instruction
    page.locator("#element").fill("far")
    page.locator("#element").press("Enter")
    assert "far is not a whole number" in page.locator("#element-text").inner_text()


def test_a_click_on_a_bar_lists_the_element_below_it(shown):
    page = shown.page
    page.evaluate("page.goto(2696)")
    bar = page.locator("[data-bar='INP']")
    width = bar.bounding_box()["width"]
    bar.click(position={"x": width / 2 + 3, "y": 8})
    element = int(page.locator("#element").input_value())
    assert 1024 <= element < 1096
    assert f"INP {element}: " in page.locator("#element-text").inner_text()
    assert page.evaluate("page.memories.writers(2, page.cycle)[Number(byId('element').value)]") != NEVER


def test_a_page_without_errors_begins_at_the_first_cycle(shown):
    assert not shown.page.locator("#errors-section").is_visible()
    assert shown.page.evaluate("[page.cycle, page.selected]") == [0, NONE]


def test_a_page_with_errors_opens_at_the_first(running, tmp_path):
    run = planted("A wrong address").recording
    (error,) = Debugger(run).errors
    with opened(running, write_debug_page(tmp_path / "x.html", run)) as opened_page:
        assert opened_page.page.evaluate("[page.cycle, page.selected]") == [error.cycle, error.instruction]
        assert error.text in opened_page.page.locator("#errors").inner_text()
        opened_page.page.evaluate("page.goto(0)")
        opened_page.page.locator("#errors th button").click()
        assert opened_page.page.evaluate("page.cycle") == error.cycle
        assert opened_page.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_errors_and_elements_do_not_make_the_body_scroll_sideways(running, tmp_path, width, scheme):
    page = write_debug_page(tmp_path / "x.html", planted("A wrong table").recording)
    with opened(running, page, width, scheme) as opened_page:
        opened_page.page.evaluate("page.pads.list(3, 0)")
        opened_page.page.evaluate("page.explain(page.run.bases[page.run.kinds.END])")
        opened_page.settle()
        assert opened_page.page.evaluate("document.documentElement.scrollWidth") == width
        assert opened_page.complaints == []
