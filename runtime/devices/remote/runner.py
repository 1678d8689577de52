"""A process of a server, which verifies and runs one stream at a time on the DRAM of a client's device.

It reads jobs from standard input and writes replies to standard output, each with its length in front. The
server ends it when a run takes too long.
"""

import mmap
import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from vdla.hw.spec.errors import DeviceError, VdlaError
from vdla.runtime.devices.checked import CheckedDevice
from vdla.runtime.devices.registry import device_of
from vdla.runtime.devices.remote.messages import (
    Job,
    Ran,
    Refusal,
    encoded,
    read_part,
    refusal,
    target_of,
    write_part,
)


def run(job: Job) -> Ran:
    """Run a stream, if it is safe.

    Scratchpads are cleared before: nothing of another client is left there.

    Raises:
        VdlaError: as `Device.run` does.
    """
    request, asked = job.request, job.run
    device = device_of(job.device, target_of(request), request.dram_bytes)
    assert isinstance(device, CheckedDevice), "a server offers devices of this machine"
    device.verifies = True
    with Path(job.dram).open("r+b") as file:
        device.dram = np.frombuffer(mmap.mmap(file.fileno(), request.dram_bytes), np.uint8)
    result = device.run(asked.address, asked.count, cycle_limit=asked.cycle_limit)
    counters = {name: int(count) for name, count in result.counters.items()}
    return Ran(None if result.cycles is None else int(result.cycles), counters)


def reply_to(job: Job) -> Ran | Refusal:
    """Run a stream; return the reply for the client."""
    try:
        return run(job)
    except VdlaError as error:
        return refusal(error)
    except MemoryError:
        return refusal(DeviceError("the run needs more memory than the server has; run a smaller network"))


def main() -> None:
    """Serve jobs until standard input ends."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for libraries that print
    with suppress(EOFError):
        while True:
            job = msgspec.msgpack.decode(read_part(sys.stdin.buffer), type=Job)
            write_part(replies, encoded(reply_to(job)))


if __name__ == "__main__":
    main()
