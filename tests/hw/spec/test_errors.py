"""Errors say what they were given, and where in a stream they stand."""

import pytest

from vdla.hw.spec import errors
from vdla.hw.spec.errors import DeviceError, ProgramError, VdlaError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ProgramError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_a_stream_has_its_message_and_its_instruction(kind):
    error = kind("it is unsafe", 7)
    assert (str(error), error.index) == ("it is unsafe", 7)
    alone = kind("it is unsafe")
    assert (str(alone), alone.index) == ("it is unsafe", None)
    assert isinstance(error, DeviceError)
    assert isinstance(error, VdlaError)
