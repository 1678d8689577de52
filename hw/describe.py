"""The description that accompanies emitted Verilog: ports and registers."""

import re

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.reference import registers_page

_PORT = re.compile(r"^  (input|output) (?:wire )?(?:\[(\d+):0\] )?([^\s,;]+) ?[,;\n]", re.MULTILINE)


def ports(verilog: str, module: str) -> list[tuple[str, str, int]]:
    """Return (name, direction, width) of each port of `module`, in the order of the text."""
    body = verilog[verilog.index(f"\nmodule {module}(") :]
    body = body[: body.index("\nendmodule")]
    return [(name, direction, int(high or 0) + 1) for direction, high, name in _PORT.findall(body)]


def describe(verilog: str, module: str, config: AcceleratorConfig) -> str:
    """Return Markdown that describes `module` as emitted for `config`."""
    rows = "".join(
        f"| `{name}` | {direction} | {width} |\n" for name, direction, width in ports(verilog, module)
    )
    return (
        f"# {module}\nConfiguration `{config.name}`, digest `{config.digest}`.\n\n## Ports\n"
        f"| port | direction | bits |\n|---|---|---|\n{rows}\n#{registers_page()}"
    )
