"""The process of a server: it runs the stream of a job on the DRAM in a file, and replies."""

import numpy as np
from generators.programs import IMAGE_BYTES

from tests.programs.cases import CASES
from tests.programs.test_cases import CONFIG, program_of
from vdla.hw.spec.target import Target
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.remote.messages import Job, Ran, Refusal, Run, opening
from vdla.runtime.devices.remote.runner import reply_to

DRAM_BYTES = 2 * IMAGE_BYTES
SAFE = program_of(CASES["finish alone"])


def job(folder, program) -> Job:
    """Return the job that runs a program on a file of DRAM."""
    dram = folder / "dram"
    whole = np.zeros(DRAM_BYTES, np.uint8)
    whole[: len(program.image)] = program.image
    whole[IMAGE_BYTES : IMAGE_BYTES + len(program.stream)] = np.frombuffer(program.stream, np.uint8)
    whole.tofile(dram)
    request = opening("cycle", Target(CONFIG), DRAM_BYTES)
    count = len(program.stream) // CONFIG.instruction_bytes
    return Job(request, "cycle", str(dram), Run("", IMAGE_BYTES, count))


def test_a_job_takes_the_cycles_of_the_device(tmp_path):
    expected = SAFE.run_on(CycleDevice(CONFIG, DRAM_BYTES))[0]
    assert reply_to(job(tmp_path, SAFE)) == Ran(expected.cycles, dict(expected.counters))


def test_an_error_of_a_job_is_a_reply(tmp_path):
    whole = job(tmp_path, SAFE)
    reply = reply_to(Job(whole.request, whole.device, whole.dram, Run("", IMAGE_BYTES, 0)))
    assert isinstance(reply, Refusal)
    assert reply.kind == "UnfinishedError"
