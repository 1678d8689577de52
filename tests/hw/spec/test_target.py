"""Targets: what is refused and how, digests, files, settings."""

from dataclasses import replace

import pytest

from vdla.hw.spec import target_files
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT, PRESETS, SMALL, TINY
from vdla.hw.spec.target import TARGETS, ClockSource, EnergyTable, Target

FAR = Target(SMALL, MemoryParameters(400, 32), 120, EnergyTable(dram=1300))


def test_every_configuration_is_a_target_with_the_reference_memory_at_100_mhz():
    assert {
        name: (target.config, target.memory.latency, target.memory.depth, target.clock_mhz)
        for name, target in TARGETS.items()
    } == {name: (config, 64, 16, 100.0) for name, config in PRESETS.items()}


def test_the_digest_tells_everything_apart_but_names():
    assert Target(DEFAULT.with_changes(name="other")).digest == Target(DEFAULT).digest
    others = [
        FAR,
        replace(FAR, config=TINY),
        replace(FAR, memory=MemoryParameters(401, 32)),
        replace(FAR, memory=MemoryParameters(400, 33)),
        replace(FAR, clock_mhz=121),
        replace(FAR, energy=EnergyTable()),
    ]
    assert len({target.digest for target in others}) == len(others)


def test_digests_are_those_that_stored_files_hold():
    """Modules, tuning logs and areas that people keep are known by them."""
    vta = Target(PRESETS["vta"], MemoryParameters(5, 4, 3), 33)
    assert [value[:16] for value in (TINY.digest, PRESETS["vta"].digest)] == [
        "14acd07fe568d5ea",
        "30a3216cbd39e186",
    ]
    assert [value[:16] for value in (Target(TINY).digest, Target(TINY).timing_digest, vta.digest)] == [
        "ef99ab667692d072",
        "10630407c3f67fa3",
        "775a25231f4a4df3",
    ]


def test_cycles_depend_on_configuration_and_memory_alone():
    assert replace(FAR, clock_mhz=1, energy=EnergyTable()).timing_digest == FAR.timing_digest
    assert (
        len(
            {
                target.timing_digest
                for target in (FAR, replace(FAR, config=TINY), replace(FAR, memory=MemoryParameters()))
            }
        )
        == 3
    )


@pytest.mark.parametrize("target", [FAR, *TARGETS.values()], ids=lambda target: target.name)
def test_toml_reads_back_equal(target):
    assert target_files.from_toml(target_files.to_toml(target)) == target


def test_a_file_of_a_configuration_alone_is_a_target(tmp_path):
    (tmp_path / "flat.toml").write_text(
        "block_in = 32\ninp_buffer_bytes = 65536\nwgt_buffer_bytes = 524288\n"
    )
    target = target_files.load(tmp_path / "flat.toml")
    assert (target.config.block_in, target.memory, target.clock_mhz) == (32, MemoryParameters(), 100.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "clock_source = 3",
            "f: clock_source = 3 is unknown; there are preset, given, estimated, extrapolated, routed",
        ),
        ("clock_mhz = 0", "f: clock_mhz = 0 stands still; it must be greater"),
        ("clock_mhz = 'fast'", "f: clock_mhz = 'fast' is not a number"),
        ("clock_mhz = nan", "f: clock_mhz = nan is outside 0..10000"),
        (
            "memory = 3",
            "f: memory = 3 is not a table; write [memory] and below it latency, depth, cycles_per_beat",
        ),
        ("[memory]\nlatency = 0", "f: memory latency = 0 is outside 1..1048576"),
        ("[memory]\nlatency = true", "f: memory latency = True is outside 1..1048576"),
        (
            "[memory]\nlag = 5",
            "f: parameter 'memory.lag' is unknown; there are latency, depth, cycles_per_beat",
        ),
        ("[energy]\ndram = -1", "f: energy.dram = -1 is outside the finite numbers from 0 on"),
        ("batch = 3", "f: batch = 3 is not a power of two; the nearest are 2 and 4"),
    ],
)
def test_bad_toml_names_file_parameter_and_value(text, message):
    with pytest.raises(ConfigError) as caught:
        target_files.from_toml(text, "f")
    assert str(caught.value) == message


def test_settings_change_configuration_memory_clock_and_energy_together():
    settings = [
        "block_in=32",
        "inp_buffer_bytes=64KiB",
        "wgt_buffer_bytes=512KiB",
        "memory.latency=400",
        "clock_mhz=120",
        "energy.dram=1300",
    ]
    target = target_files.apply_settings(Target(DEFAULT), settings)
    assert (target.config.block_in, target.memory, target.clock_mhz, target.energy.dram) == (
        32,
        MemoryParameters(400),
        120.0,
        1300.0,
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("memory.latency", "setting 'memory.latency' is not of the form key=value"),
        ("memory.latency=x", "memory.latency = 'x' is not a whole number (it may end in KiB or MiB)"),
        ("memory.lag=1", "target parameter 'memory.lag' is unknown; the nearest is memory."),
        (
            "clock_mz=70",
            "target parameter 'clock_mz' is unknown; the nearest is clock_mhz; there are name, batch, ",
        ),
        ("xyz=70", "target parameter 'xyz' is unknown; there are name, batch, "),
        ("clock_mhz=fast", "clock_mhz = 'fast' is not a number"),
        (
            "clock_source=guessed",
            "clock_source = 'guessed' is unknown; there are preset, given, estimated, extrapolated, routed",
        ),
    ],
)
def test_bad_settings_are_named(setting, message):
    with pytest.raises(ConfigError) as caught:
        target_files.apply_settings(Target(DEFAULT), [setting])
    assert str(caught.value).startswith(message)


def test_a_target_comes_as_itself_as_a_configuration_or_by_name():
    assert target_files.target_of(FAR) is FAR
    assert target_files.target_of(TINY) == target_files.target_of("tiny") == Target(TINY)


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (Target(DEFAULT), "preset"),
        (Target(DEFAULT, clock_mhz=50), "given"),
        (target_files.apply_settings(FAR, ["clock_mhz=9", "clock_source=routed"]), "routed"),
        (
            target_files.apply_settings(
                Target(clock_mhz=9, clock_source=ClockSource.ROUTED), ["clock_mhz=8"]
            ),
            "given",
        ),
        (target_files.from_toml("clock_mhz = 100"), "given"),
        (target_files.from_toml("block_in = 16"), "preset"),
    ],
)
def test_a_target_knows_where_its_clock_is_from_and_no_digest_does(target, source):
    assert target.clock_source == source
    assert target_files.from_toml(target_files.to_toml(target)).clock_source == source
    assert replace(target, clock_source=ClockSource.ESTIMATED).digest == target.digest


@pytest.mark.parametrize("clock", [1e-9, 1, 10_000])
def test_a_clock_may_have_any_frequency_up_to_10_ghz(clock):
    target = Target(DEFAULT, clock_mhz=clock)
    assert (target.clock_mhz, target.clock_hz) == (clock, pytest.approx(clock * 1_000_000))
    assert isinstance(target.clock_mhz, float)


@pytest.mark.parametrize("clock", [-1, 10_000.1, float("inf"), float("nan")])
def test_no_other_clock_is_taken(clock):
    with pytest.raises(ConfigError, match=rf"^clock_mhz = {clock!r} is outside 0\.\.10000$"):
        Target(DEFAULT, clock_mhz=clock)


def test_energies_are_finite_numbers_from_0_on():
    assert EnergyTable(dram=0).dram == 0
    for value in (-0.1, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match=r"^energy\.dram = .* is outside the finite numbers from 0 on$"):
            EnergyTable(dram=value)
    for value in (True, "1", None):
        with pytest.raises(ConfigError, match=rf"^energy\.dram = {value!r} is not a number$"):
            EnergyTable(dram=value)


def test_the_energies_are_those_of_horowitz_s_table():
    """ISSCC 2014, figure 1.1.9: 8-bit and 32-bit products and a sum of integers; caches of 8 KiB to 1 MiB; and
    DRAM, 1.3 to 2.6 nJ."""
    table = EnergyTable()
    assert (table.multiply_8_bits, table.multiply_32_bits, table.add_32_bits) == (0.2, 3.1, 0.1)
    assert (table.sram_8_kib, table.sram_32_kib, table.sram_1_mib) == (10, 20, 100)
    assert table.dram == (1300 + 2600) / 2


def test_memory_moves_a_beat_in_so_many_cycles():
    assert Target(DEFAULT).bytes_per_cycle == 8
    slow = Target(DEFAULT.with_changes(bus_bits=128), MemoryParameters(cycles_per_beat=4))
    assert slow.bytes_per_cycle == 4


def test_settings_of_a_target_are_told_apart_from_those_of_its_configuration():
    target = target_files.apply_settings(
        FAR, [" clock_mhz = 7 ", "clock_source = routed", "memory.depth=0x8", "energy.sram_8_kib=2.5"]
    )
    assert (target.clock_mhz, target.clock_source) == (7, "routed")
    assert target.memory == MemoryParameters(400, 8)
    assert target.energy == EnergyTable(dram=1300, sram_8_kib=2.5)
    assert target.config == SMALL
    for setting in ("memory=3", "energy.=1", "depth=3", ".depth=3"):
        with pytest.raises(
            ConfigError, match=r"^target parameter '.*' is unknown;.* there are name, batch, "
        ):
            target_files.apply_settings(FAR, [setting])
