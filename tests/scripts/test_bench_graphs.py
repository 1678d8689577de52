"""The benchmark of large graphs: it compiles and runs small graphs of its forms."""

import bench_graphs
import pytest
from click.testing import CliRunner


@pytest.mark.parametrize("kind", ["relus", "float_convs"])
def test_every_stage_of_a_form_is_measured(kind):
    seconds = bench_graphs.measured(kind, bench_graphs.KINDS[kind](20))
    assert {"import", "quantise, integers", "place", "run cycle"} <= set(seconds)


def test_numbers_of_nodes_must_grow():
    done = CliRunner().invoke(bench_graphs.main, ["--nodes", "10,10"])
    assert done.exit_code == 2
    assert "is not of the form 1000,10000 with growing numbers" in done.output
