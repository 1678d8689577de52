"""Yosys' Verilog, rewritten in forms that all tools which read it take; and a description of its ports and
registers."""

import re
from collections.abc import Mapping

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.reference import registers_page

_MODULE = re.compile(r"^module (?P<name>\\\S+ |\w+).*?^endmodule\n", re.MULTILINE | re.DOTALL)
_TRIGGER = re.compile(r"^  reg (\\\$auto\$verilog_backend\S+ ) = 0;\n", re.MULTILINE)
_MEMORY = re.compile(
    r"^(?P<declaration>  reg (?:\[\d+:0\] )?(?P<name>\\\S+ |\w+) ?\[(?P<last>\d+):0\];\n)"
    r"(?!  initial begin\n)",
    re.MULTILINE,
)
_INITIAL_VALUE = re.compile(
    r"^(?P<declaration>  reg (?:signed )?(?:\[\d+:0\] )?(?P<name>\\\S+ |\w+)) = (?P<value>.*);\n",
    re.MULTILINE,
)
_TEMPORARIES = re.compile(r"(?:^  (?:wire|reg) (?:\[\d+:0\] )?\\\$\d+ ;\n)+", re.MULTILINE)
_PORT = re.compile(
    r"^  (?P<way>input|output) (?P<range>\[\d+:0\] )?(?P<name>\w+);\n  wire (?:\[\d+:0\] )?(?P=name);\n",
    re.MULTILINE,
)
_DESCRIBED_PORT = re.compile(r"^  (input|output) (?:wire )?(?:\[(\d+):0\] )?([^\s,;]+) ?[,;\n]", re.MULTILINE)


def finished(text: str, sources: Mapping[str, str]) -> str:
    """Return Verilog that simulators and synthesis read alike, and that lint has nothing to say about.

    Args:
        text: as Yosys writes it.
        sources: what each module was emitted from; a comment above the module says so.
    """

    def rewritten(match: re.Match[str]) -> str:
        module = _TEMPORARIES.sub(_hidden, _start_blocks(match.group()))
        module = _INITIAL_VALUE.sub(r"\g<declaration>;\n  initial \g<name> = \g<value>;\n", module)
        source = sources.get(match["name"].strip().removeprefix("\\"))
        comment = f"// {source}\n" if source else ""
        return comment + _complete_cases(_MEMORY.sub(_zeroed, module))

    return _MODULE.sub(rewritten, text)


def with_port_header(text: str, module: str, ports: Mapping[str, Mapping[str, str]]) -> str:
    """Declare the ports of one module in its header, where tools look for their attributes.

    Args:
        ports: attributes of each port, in the order in which they are to stand.
    """

    def rewritten(match: re.Match[str]) -> str:
        if match["name"] != module:
            return match.group()
        found = {port["name"]: port for port in _PORT.finditer(match.group())}
        header = ",\n".join(_declaration(found.pop(name), given) for name, given in ports.items())
        assert not found, f"ports without a place: {list(found)}"
        body = _PORT.sub("", match.group().partition(");\n")[2])
        return f"module {module}(\n{header}\n);\n{body}"

    return _MODULE.sub(rewritten, text)


def _declaration(port: re.Match[str], attributes: Mapping[str, str]) -> str:
    lines = [f'  (* {name} = "{value}" *)\n' for name, value in attributes.items()]
    return f"{''.join(lines)}  {port['way']} wire {port['range'] or ''}{port['name']}"


def _start_blocks(module: str) -> str:
    """Give a module's trigger its value in an `initial` block at the end.

    Yosys lets every `always @*` read a trigger register, so that its initial value starts the block at time
    0. Icarus sets initial values in declarations before such blocks wait for a change, so they would not
    start.
    """
    body = _TRIGGER.sub(r"  reg \1;\n", module)
    starts = "".join(f"  initial {trigger} = 0;\n" for trigger in _TRIGGER.findall(module))
    return body.removesuffix("endmodule\n") + starts + "endmodule\n"


def _zeroed(memory: re.Match[str]) -> str:
    """Set a memory without initial contents to zero."""
    words = int(memory["last"]) + 1
    return (
        f"{memory['declaration']}  integer initial_word;\n  initial begin\n"
        f"    for (initial_word = 0; initial_word < {words}; initial_word = initial_word + 1)\n"
        f"      {memory['name']} [initial_word] = 0;\n  end\n"
    )


def _hidden(temporaries: re.Match[str]) -> str:
    """Keep values that have no name in the sources out of Verilator's waveforms."""
    return f"  /* verilator tracing_off */\n{temporaries.group()}  /* verilator tracing_on */\n"


def _complete_cases(module: str) -> str:
    """Add to each `casez` that has none a default that changes nothing: what holds was assigned before."""
    lines: list[str] = []
    defaults: list[bool] = []
    for line in module.splitlines(keepends=True):
        word = line.strip()
        if word.startswith("casez "):
            defaults.append(False)
        elif word == "default:":
            defaults[-1] = True
        elif word == "endcase" and not defaults.pop():
            lines.append(f"{line[: line.index('endcase')]}  default: ;\n")
        lines.append(line)
    return "".join(lines)


def ports(verilog: str, module: str) -> list[tuple[str, str, int]]:
    """Return (name, direction, width) of each port of `module`, in the order of the text."""
    body = verilog[verilog.index(f"\nmodule {module}(") :]
    body = body[: body.index("\nendmodule")]
    return [(name, direction, int(high or 0) + 1) for direction, high, name in _DESCRIBED_PORT.findall(body)]


def describe(verilog: str, module: str, config: AcceleratorConfig) -> str:
    """Return Markdown that describes `module` as emitted for `config`."""
    rows = "".join(
        f"| `{name}` | {direction} | {width} |\n" for name, direction, width in ports(verilog, module)
    )
    return (
        f"# {module}\nConfiguration `{config.name}`, digest `{config.digest}`.\n\n## Ports\n"
        f"| port | direction | bits |\n|---|---|---|\n{rows}\n#{registers_page()}"
    )
