"""The area and clock of a configuration on an FPGA family."""

from dataclasses import dataclass

from vdla.hw.spec.target import ClockSource

ESTIMATED, SYNTHESISED, ROUTED = ClockSource.ESTIMATED.value, "synthesised", ClockSource.ROUTED.value
EXTRAPOLATED = ClockSource.EXTRAPOLATED.value


@dataclass(frozen=True, slots=True)
class Silicon:
    """The area and clock of a configuration, and where the figures come from.

    Attributes:
        lut: LUTs; LUT4-equivalents on ECP5, LUT6 on xc7.
        ff: flip-flops.
        dsp: DSP blocks.
        block_ram: DP16KD (18 Kbit) on ECP5, units of 36 Kbit on xc7.
        mhz: clock in MHz; None where none is known.
        mhz_low, mhz_high: interval of an estimated clock (`ClockEstimate`); both `mhz` where it was routed.
        limited_by: the units of the slowest path; of an estimate, the slowest component. "" where no clock is
            known.
        area: SYNTHESISED or ESTIMATED.
        clock: ROUTED, ESTIMATED or EXTRAPOLATED.
    """

    lut: float
    ff: float
    dsp: float
    block_ram: float
    mhz: float | None = None
    mhz_low: float | None = None
    mhz_high: float | None = None
    limited_by: str = ""
    area: str = ESTIMATED
    clock: str = ESTIMATED
