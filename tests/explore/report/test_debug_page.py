"""The page of the debugger in a browser: its states and chains equal the debugger's; buttons and keys."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from tests.explore.debug.programs import recording
from tests.explore.report.browser import Opened, opened
from tests.explore.report.test_debug_page_data import layered
from vdla.explore.debug.chains import Chains, event_text
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.recording import NONE, Recording
from vdla.explore.debug.state import State
from vdla.explore.report.debug_page import write_debug_page
from vdla.hw.spec.units import TOKEN_EDGES, Unit

COMPARED = [
    "conv3x3",
    "fuzz",
    "no room",
    "random 2",
    "random 6 slow",
    "steps, 1 port",
    "windows, 1 port",
    "queue full",
    "cycle of waits",
    "invalid",
]
MOMENTS, EVENTS = 40, 60


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("debug")
    runs = {name: recording(name) for name in COMPARED} | {"net": layered()}
    return {
        name: write_debug_page(folder / f"{number}.html", run)
        for number, (name, run) in enumerate(runs.items())
    }


@pytest.fixture
def shown(running, files) -> Iterator[Opened]:
    with opened(running, files["net"]) as opened_page:
        yield opened_page
        assert opened_page.complaints == []


def state_values(state: State) -> dict:
    """Return what the page's state of a cycle has, of the debugger's."""
    edges = [str(edge) for edge in TOKEN_EDGES]
    return {
        "cycle": state.cycle,
        "layer": state.layer,
        "units": [
            {
                "name": unit.state.name.lower(),
                "queue": list(unit.queue),
                "working": list(unit.working),
                "lacks": [edges.index(str(edge)) for edge in unit.lacks],
                "waiting": unit.waiting,
                "text": unit.text,
            }
            for unit in state.units
        ],
        "tokens": [{"held": counter.held, "taken": counter.taken} for counter in state.tokens],
        "dispatch": {"following": state.dispatch.following, "text": state.dispatch.text},
        "bursts": [
            {
                "client": burst.client.name.lower(),
                "instruction": burst.instruction,
                "beats": burst.beats,
                "phase": burst.phase,
            }
            for burst in state.bursts
        ],
        "counters": dict(state.counters),
    }


STATE = """cycles => cycles.map((cycle) => {
  const state = page.run.at(cycle);
  const units = state.units.map(({ name, queue, working, lacks, waiting, text }) => ({ name, queue, working, lacks, waiting, text }));
  return { ...state, units, counters: Object.fromEntries(page.counters.at(cycle)) };
})"""
CHAIN = """numbers => numbers.map((number) => {
  const { run } = page;
  const chain = run.chain(number);
  const shown = (link) => [link.cycles, link.cause.cycle, run.reasonText(link), run.eventText(link.cause)];
  return { cycles: chain.cycles, turns: chain.turns, links: chain.links.map(shown), joined: run.joined(chain.links).map(shown), reasons: run.byReason(chain.links).map(({ text, count, cycles }) => [text, count, cycles]) };
})"""


@pytest.mark.parametrize("name", COMPARED)
def test_states_and_chains_on_the_page_are_those_of_the_debugger(running, files, name):
    with opened(running, files[name]) as opened_page:
        check_states(opened_page, Debugger(recording(name)), random.Random(name))
        check_chains(opened_page, Chains(recording(name)), random.Random(name))
        assert opened_page.complaints == []


def check_states(opened_page: Opened, debugger: Debugger, pick: random.Random) -> None:
    """Assert that the page has the states of the debugger."""
    last = debugger.timing.cycles
    cycles = sorted({0, 1, last - 1, last, *(pick.randrange(last) for _ in range(MOMENTS))})
    states = opened_page.page.evaluate(STATE, cycles)
    assert states == [state_values(debugger.states.at(cycle)) for cycle in cycles]


def check_chains(opened_page: Opened, chains: Chains, pick: random.Random) -> None:
    """Assert that the page has the chains of the debugger."""
    events = chains.events
    numbers = [pick.randrange(len(events.cycles)) for _ in range(EVENTS)]
    for number, on_page in zip(numbers, opened_page.page.evaluate(CHAIN, numbers), strict=True):
        event = events.event(number)
        place = number - events.bases[event.kind]
        chain = chains.chain(event.kind, place)
        rows = [
            [[link.cycles, link.cause.cycle, link.text, event_text(link.cause)] for link in links]
            for links in (chain.links, chain.joined())
        ]
        assert (on_page["cycles"], on_page["turns"]) == (chain.cycles, chain.turns)
        assert [on_page["links"], on_page["joined"]] == rows
        assert on_page["reasons"] == [list(row) for row in chain.by_reason()]


def place(shown: Opened) -> tuple[int, int]:
    return tuple(shown.page.evaluate("[page.cycle, page.selected]"))


def test_buttons_and_keys_step_as_the_debugger_does(shown):
    debugger, page = Debugger(layered()), shown.page
    steps = {
        "[data-step='cycle'][data-by='1']": lambda: debugger.step(1),
        "[data-step='cycle'][data-by='-1']": lambda: debugger.step(-1),
        "[data-step='cycle'][data-by='100']": lambda: debugger.step(100),
        "[data-step='instruction'][data-by='1']": lambda: debugger.next_instruction(),
        "[data-step='instruction'][data-by='-1']": lambda: debugger.next_instruction(None, -1),
        "[data-step='layer'][data-by='1']": lambda: debugger.next_layer(),
        "[data-step='layer'][data-by='-1']": lambda: debugger.next_layer(-1),
    }
    keys = {
        "ArrowRight": lambda: debugger.step(1),
        "ArrowLeft": lambda: debugger.step(-1),
        "n": lambda: debugger.next_instruction(),
        "p": lambda: debugger.next_instruction(None, -1),
        "j": lambda: debugger.next_layer(),
        "k": lambda: debugger.next_layer(-1),
    }
    pick = random.Random(5)
    for _ in range(60):
        selector, act = pick.choice(list(steps.items()))
        page.locator(selector).click()
        act()
        assert place(shown) == (debugger.cycle, debugger.selected)
    page.locator("#lanes").focus()
    for _ in range(60):
        key, act = pick.choice(list(keys.items()))
        page.keyboard.press(key)
        act()
        assert place(shown) == (debugger.cycle, debugger.selected)


def test_a_step_by_instruction_can_keep_to_a_unit(shown):
    debugger, page = Debugger(layered()), shown.page
    page.locator("#unit").select_option("2")
    for count in (1, 1, 1, -1):
        page.locator(f"[data-step='instruction'][data-by='{count}']").click()
        debugger.next_instruction(Unit.STORE, count)
        assert place(shown) == (debugger.cycle, debugger.selected)
    assert debugger.instruction(debugger.selected).unit is Unit.STORE


def test_the_panel_shows_the_state(shown):
    debugger, page = Debugger(layered()), shown.page
    page.locator("#cycle").fill("2696")
    page.locator("#cycle").press("Enter")
    assert place(shown) == (2696, NONE)
    debugger.goto(2696)
    state = debugger.state()
    for view in state.units:
        card = page.locator(f"[data-unit='{view.unit.name.lower()}']")
        text = card.inner_text()
        assert view.text in text
        assert f"Queue {len(view.queue)} of {view.depth}" in text
        shown_numbers = card.locator("[data-instruction]").evaluate_all(
            "all => all.map(each => Number(each.dataset.instruction))"
        )
        assert shown_numbers == [*view.working, *view.queue[:1], *view.queue[:8]]
    for counter in state.tokens:
        assert page.locator(f"[data-edge='{counter.edge}']").inner_text() == str(counter.held)
    assert page.locator("#dispatch").inner_text().startswith(state.dispatch.text)
    shown_counters = page.locator("#counters [data-counter]").evaluate_all(
        "all => Object.fromEntries(all.map(each => [each.dataset.counter, each.textContent]))"
    )
    assert shown_counters == {name: f"{value:,}" for name, value in state.counters.items() if value}


def test_why_lists_the_links_of_the_chain(shown):
    debugger, page = Debugger(layered()), shown.page
    page.evaluate("page.goto(2696)")
    debugger.goto(2696)
    page.locator("[data-unit='load'] [data-why]").click()
    chain = debugger.why(Unit.LOAD)
    rows = page.locator("#links tbody tr")
    first = rows.first.locator("td").all_inner_texts()
    assert first[:3] == ["1", "2,814", "a token compute->load"]
    costs = [
        int(text.replace(",", "")) for text in page.locator("#links tbody td:first-child").all_inner_texts()
    ]
    assert sum(costs) == chain.cycles == 2815
    assert (
        "246 links, 2,815 cycles, back to cycle 0: the run begins." in page.locator("#why-text").inner_text()
    )
    rows.first.locator("button").click()
    assert place(shown)[1] == 46


def test_the_critical_paths_are_those_of_the_debugger(shown):
    debugger, page = Debugger(layered()), shown.page
    page.locator("#path-run").click()
    assert f"{len(debugger.path().links):,} links, 14,920 cycles" in page.locator("#why-text").inner_text()
    page.evaluate("page.goto(6000)")
    page.locator("#path-layer").click()
    chain = debugger.path(debugger.layer("<second>"))
    assert f"{len(chain.links):,} links, {chain.cycles:,} cycles" in page.locator("#why-text").inner_text()
    costs = page.locator("#reasons tbody td:first-child").all_inner_texts()
    assert sum(int(text.replace(",", "")) for text in costs) == chain.cycles


def test_the_search_box_finds_forwards_and_backwards(shown):
    debugger, page = Debugger(layered()), shown.page
    page.locator("#find").fill("^STORE")
    for _ in range(3):
        page.locator("#find").press("Enter")
        debugger.find("^STORE")
        assert place(shown) == (debugger.cycle, debugger.selected)
    page.locator("[data-find='-1']").click()
    debugger.find("^STORE", backwards=True)
    assert place(shown) == (debugger.cycle, debugger.selected)
    stores = sum(text.startswith("STORE") for text in debugger.recording.texts)
    assert page.locator("#matches").inner_text() == f"{stores} instructions match"
    page.locator("#find").fill("(")
    page.locator("#find").press("Enter")
    assert "put \\ before characters" in page.locator("#matches").inner_text()
    page.locator("#find").fill("cond>")
    page.locator("#find").press("Enter")
    assert "224 instructions match" in page.locator("#matches").inner_text()


def test_a_layer_leads_to_its_instructions(shown):
    page = shown.page
    page.locator("#layers button", has_text="<second>").click()
    assert place(shown) == (5000, NONE)
    rows = page.locator("#instructions tbody tr")
    assert rows.first.get_attribute("data-row") == "99"
    assert rows.nth(1).locator("td").nth(5).inner_text() == "<second>"
    rows.nth(1).locator("[data-instruction]").click()
    assert place(shown)[1] == 100


def test_a_click_on_the_timeline_goes_to_its_cycle(shown):
    page = shown.page
    page.evaluate("page.lanes.look(2000, 1000)")
    shown.settle()
    box = page.locator("#lanes").bounding_box()
    left, width = page.evaluate("[page.lanes.left, page.lanes.width]")
    page.mouse.click(box["x"] + left + width / 2, box["y"] + 60)
    assert abs(place(shown)[0] - 2500) <= 2
    page.locator("[data-act='all']").click()
    assert page.evaluate("page.lanes.window") == [0, 14920]
    painted = page.evaluate(
        "[...page.lanes.context.getImageData(0, 0, page.lanes.place.width, page.lanes.place.height).data].some(Boolean)"
    )
    assert painted


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (400, "light"), (400, "dark")])
def test_the_body_never_scrolls_sideways(running, tmp_path, width, scheme):
    plain = layered()
    page = write_debug_page(
        tmp_path / "x.html", Recording("a_long_name_" * 9, plain.timing, plain.memory, plain.layers)
    )
    with opened(running, page, width, scheme) as opened_page:
        opened_page.page.evaluate("page.goto(2696); page.explain(page.run.freeing(0, 2696))")
        opened_page.settle()
        assert opened_page.page.evaluate("document.documentElement.scrollWidth") == width
        ground = opened_page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
        assert opened_page.complaints == []


@pytest.mark.parametrize(
    ("call", "window"),
    [
        ("windowFrom(-100, 50, 1000, 20)", [0, 50]),
        ("windowFrom(980, 50, 1000, 20)", [950, 1000]),
        ("windowFrom(100, 5, 1000, 20)", [100, 120]),
        ("windowFrom(100, 5000, 1000, 20)", [0, 1000]),
        ("zoomed([100, 200], 0.5, 150, 1000, 20)", [125, 175]),
        ("zoomed([100, 200], 2, 100, 1000, 20)", [100, 300]),
        ("zoomed([100, 200], 0.01, 200, 1000, 20)", [180, 200]),
        ("zoomed([0, 200], 2, 150, 1000, 20)", [0, 400]),
    ],
)
def test_a_window_lies_in_the_run_and_is_not_too_short(shown, call, window):
    assert shown.page.evaluate(call) == window
