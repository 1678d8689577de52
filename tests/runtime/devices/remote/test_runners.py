"""Turns: round robin over clients; waits end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.runtime.devices.remote.serving import awaited
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.remote.runners import Turns

SECONDS = 10.0


class Queue:
    """Runs of clients, which note when they begin."""

    def __init__(self, places: int = 1, longest: int = 20) -> None:
        self.turns, self.order = Turns(places, longest), []
        self.gate = asyncio.Event()

    async def run(self, client: str, seconds: float = SECONDS) -> None:
        async with self.turns.turn(client, seconds):
            self.order.append(client)
            await self.gate.wait()

    async def started(self, clients: str) -> list[asyncio.Task]:
        tasks = [asyncio.create_task(self.run(client)) for client in clients]
        await asyncio.sleep(0)
        return tasks

    async def finish(self, tasks: list[asyncio.Task]) -> str:
        self.gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return "".join(self.order)


def within(work: Callable[[], Awaitable]) -> object:
    return awaited(asyncio.wait_for(work(), SECONDS))


@pytest.mark.parametrize(
    ("came", "ran"),
    [("a", "a"), ("aaab", "aaba"), ("aaaabbc", "aabcaba"), ("abababc", "abacbab"), ("abcabc", "abcabc")],
)
def test_clients_take_turns_whatever_each_has_asked_for(came, ran):
    async def work():
        queue = Queue()
        return await queue.finish(await queue.started(came))

    assert within(work) == ran


def test_as_many_run_at_once_as_there_are_places():
    async def work():
        queue = Queue(places=2)
        tasks = await queue.started("aabb")
        begun = "".join(queue.order)
        await queue.finish(tasks)
        return begun, "".join(queue.order)

    assert within(work) == ("aa", "aabb")


def test_a_full_queue_refuses_and_names_its_limit():
    async def work():
        queue = Queue(longest=2)
        tasks = await queue.started("abc")
        with pytest.raises(
            DeviceError, match=r"^the queue holds 2 runs, and the limit is 2; run again later$"
        ):
            await queue.run("d")
        return await queue.finish(tasks)

    assert within(work) == "abc"


def test_a_wait_ends_at_its_limit_and_disturbs_nobody():
    async def work():
        queue = Queue()
        tasks = await queue.started("ab")
        with pytest.raises(DeviceError, match=r"^the run waited 0\.01 seconds, which is the limit"):
            await queue.run("c", 0.01)
        return await queue.finish(tasks)

    assert within(work) == "ab"


def test_a_place_that_is_handed_to_a_cancelled_run_goes_to_the_next():
    async def work():
        queue = Queue()
        first, second, third = await queue.started("abc")
        first.cancel()
        await asyncio.sleep(0)  # the place was handed to b
        second.cancel()
        return await queue.finish([first, second, third]), queue.turns._free

    order, free = within(work)
    assert order in ("abc", "ac")
    assert free == 1
