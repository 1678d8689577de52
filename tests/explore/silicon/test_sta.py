"""The slowest paths of a design, from its delays."""

import pytest

from vdla.explore.silicon.sta import read_delays, slowest_paths
from vdla.hw.spec.errors import ToolError

REGISTERS = """
  (INSTANCE unit.a) (IOPATH CLK Q (430:477:500) (430:477:500))
  (INSTANCE gate) (IOPATH A F (200:218:300) (0:0:0)) (IOPATH B F (200:218:250) (0:0:0))
  (INSTANCE unit.b) (IOPATH CLK Q (1:1:600) (0:0:0)) (SETUPHOLD (posedge DI) (posedge CLK) (1:2:100) (0:0:0))
"""
WIRES = """
  (INTERCONNECT \\$clock/O unit.a/CLK (0:0:9000) (0:0:0))
  (INTERCONNECT unit.a/Q gate/A (0:0:1000) (0:0:0))
  (INTERCONNECT unit.b/Q gate/B (0:0:700) (0:0:0))
  (INTERCONNECT gate/F unit.b/DI (0:0:400) (0:0:0))
"""


def test_the_slowest_path_to_a_register_is_found_with_its_pins():
    (path,) = slowest_paths(read_delays(REGISTERS + WIRES))
    assert path.ns == pytest.approx(0.5 + 1.0 + 0.3 + 0.4 + 0.1)
    assert path.pins == (("unit.a", "Q"), ("gate", "A"), ("gate", "F"), ("unit.b", "DI"))


def test_another_path_is_slowest_when_its_wire_is():
    (path,) = slowest_paths(read_delays(REGISTERS + WIRES.replace("700", "1700")))
    assert path.ns == pytest.approx(0.6 + 1.7 + 0.25 + 0.4 + 0.1)
    assert path.pins[0] == ("unit.b", "Q")


def test_backslashes_of_escaped_names_are_dropped():
    delays = read_delays("(INTERCONNECT \\\\\\$x\\$1/Q gate/A (1:2:3) (0:0:0))")
    assert delays.into == {("gate", "A"): [(("$x$1", "Q"), 0.003)]}


def test_a_combinational_loop_is_refused():
    loop = "(INTERCONNECT gate/F gate/A (0:0:1) (0:0:0))"
    with pytest.raises(ToolError, match=r"combinational loop: .*gate/"):
        slowest_paths(read_delays(REGISTERS + WIRES + loop))


SEVERAL = """
  (INSTANCE ram) (IOPATH CLK Q (1:1:500) (0:0:0)) (IOPATH WCK Q (1:1:700) (0:0:0)) (IOPATH RCLK Q (1:1:600) (0:0:0))
  (INSTANCE z) (SETUPHOLD (posedge DI) (posedge CLK) (1:2:100) (0:0:0))
  (INSTANCE a) (SETUPHOLD (posedge DI) (posedge CLK) (1:2:100) (0:0:0)) (SETUPHOLD (posedge CE) (posedge CLK) (1:2:0) (0:0:0))
  (INSTANCE far) (SETUPHOLD (posedge DI) (posedge CLK) (1:2:3) (0:0:0))
  (INSTANCE lone) (SETUPHOLD (posedge DI) (posedge CLK) (1:2:9000) (0:0:0))
  (INTERCONNECT ram/Q z/DI (0:0:200) (0:0:0))
  (INTERCONNECT ram/Q a/DI (0:0:200) (0:0:0))
  (INTERCONNECT ram/Q a/CE (0:0:) (0:0:0))
  (INTERCONNECT ram/Q far/DI (0:0:9000) (0:0:0))
  (INTERCONNECT nowhere/Q lone/DI (0:0:200) (0:0:0))
"""


def test_every_input_that_a_register_reaches_has_its_path_the_slowest_first():
    paths = slowest_paths(read_delays(SEVERAL))
    ends = [(path.pins[-1], round(path.ns, 6)) for path in paths]
    assert ends == [(("far", "DI"), 9.703), (("a", "DI"), 1.0), (("z", "DI"), 1.0), (("a", "CE"), 0.7)]
    assert all(path.pins[0] == ("ram", "Q") for path in paths)


def test_a_loop_is_named_by_its_first_pins():
    gates = "".join(
        f"(INSTANCE g{place}) (IOPATH A F (0:0:1) (0:0:0)) (INTERCONNECT g{place}/F g{(place + 1) % 9}/A (0:0:1) (0:0:0))"
        for place in range(9)
    )
    with pytest.raises(ToolError) as caught:
        slowest_paths(read_delays(gates))
    assert str(caught.value).count(" -> ") == 4
