"""`vdla run` refuses a module whose digest is right and whose stream reaches outside its tensors, in one
line."""

import numpy as np
import pytest
from click.testing import CliRunner

from tests.compiler.network.compiled import handmade
from tests.compiler.network.graphs import random_inputs
from tests.runtime.session.test_launch import ALTERED, TITLE, resealed
from vdla.cli.run import command
from vdla.runtime.module.file import save


@pytest.mark.parametrize("name", ["a STORE far away", "a STORE relocated to weights", "no micro-ops"])
def test_an_altered_module_is_bad_input(name, tmp_path):
    change, message = ALTERED[name]
    save(resealed(**change()), tmp_path / "net.vdla")
    np.savez(tmp_path / "in.npz", **random_inputs(handmade(TITLE)[0], 0))
    arguments = [str(tmp_path / name) for name in ("net.vdla", "in.npz")]
    outcome = CliRunner().invoke(command, [arguments[0], "--input", arguments[1], "--device", "functional"])
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("error: module net, stream launch0: instruction ")
    assert message in outcome.stderr
    assert outcome.stderr.endswith("; compile it again\n")
    assert outcome.stderr.count("\n") == 1
