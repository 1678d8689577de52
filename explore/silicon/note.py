"""What stands beside an estimated clock wherever a time at it is shown."""

from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.target import ClockSource, Target

KINDS = {
    ClockSource.ESTIMATED: "estimated",
    ClockSource.EXTRAPOLATED: "extrapolated: larger than every routed design",
}
FAMILY = "ecp5"  # the only family with routed designs


def clock_note(target: Target) -> str:
    """Return the interval of a target's estimated clock, and the unit that limits it; "" for a clock of
    another source, or where this version estimates another clock."""
    if target.clock_source not in KINDS:
        return ""
    from vdla.explore.silicon.clock import estimated_clock  # the hardware takes a while to import

    try:
        estimate = estimated_clock(target.config, FAMILY)
    except ToolError:
        return ""
    if estimate is None or estimate.mhz != target.clock_mhz:
        return ""
    return (
        f"{KINDS[target.clock_source]}, {estimate.low:g} to {estimate.high:g} MHz, "
        f"limited by {estimate.limited_by}"
    )
