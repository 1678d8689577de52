"""Threads that carry out parallel loops: native code calls back, and the iterations are shared out in ranges
of one length."""

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

LAUNCH = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
Errors = list[BaseException]


class Crew:
    """A pool of threads and the bodies of the parallel loops of one function; calls into native code release
    the interpreter's lock.

    Args:
        threads: at least 1.
        bodies: of each loop, the address of `void (first, end, words...)` and how many words it takes.
    """

    def __init__(self, threads: int, bodies: Sequence[tuple[int, int]]) -> None:
        self.threads, self.pool = (
            threads,
            ThreadPoolExecutor(threads, "vdla-host"),
        )  # starts threads as they are needed
        self._words = [ctypes.c_int64 * words for _, words in bodies]
        self._bodies = [
            ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (2 + words))(address) for address, words in bodies
        ]

    def call(self, native: Callable[..., None], *arguments: int) -> None:
        """Call `native(launch, arguments...)`, where `launch(loop, words, extent)` returns when all
        iterations are done.

        Raises:
            RuntimeError, KeyboardInterrupt: no thread could be started, or the wait was interrupted; results
                are incomplete.
        """
        errors: Errors = []
        native(LAUNCH(lambda loop, words, extent: self._launch(errors, loop, words, extent)), *arguments)
        if errors:
            raise errors[0]

    def _launch(self, errors: Errors, loop: int, words: int, extent: int) -> None:
        """Carry out a loop. An error must not leave here, where native code is the caller, nor work that is
        under way be left alone."""
        futures: list[Future] = []
        try:
            self._start(futures, self._bodies[loop], self._words[loop].from_address(words), extent)
            wait(futures)
        except BaseException as error:
            errors.append(error)
            wait(futures)

    def _start(
        self, futures: list[Future], body: Callable[..., None], words: Sequence[int], extent: int
    ) -> None:
        length = -(-extent // self.threads)
        for first in range(0, extent, length):
            futures.append(self.pool.submit(body, first, min(first + length, extent), *words))
