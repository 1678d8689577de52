"""The files of a module as C99: the network, the driver, and a Makefile."""

from collections.abc import Mapping
from enum import IntFlag
from importlib.resources import files

from vdla.export.c_text import ExportError, comment
from vdla.export.image import image_of
from vdla.export.network import GENERATED, Network, header, image_source, require_name, source
from vdla.export.operators import require_forms
from vdla.export.values import values_of
from vdla.hw.spec.registers import IDENTITY, MEANING, REGISTERS, VERSION, Fault
from vdla.runtime.module.plan import Plan

LIBRARY = ("vdla_platform", "vdla_driver", "vdla_layout", "vdla_integers", "vdla_operators")
OK = "VDLA_OK"
DRIVER_ERRORS = {
    "NOT_READY": "the network has not been initialised",
    "IDENTITY": "the register IDENTITY does not read VDLA: wrong address, or no accelerator",
    "VERSION": "the register map has another version",
    "CONFIGURATION": "the module was compiled for another configuration of the accelerator",
    "ADDRESS": "memory of the module is not aligned, or beyond the addresses that the accelerator reaches",
    "BUSY": "the accelerator is running already",
    "TIMEOUT": "the run did not end within VDLA_POLL_LIMIT polls",
}
"""Errors that the driver finds, with their meanings."""

FAULT_ORDER = (
    Fault.SRAM_OVERRUN,
    Fault.MEMORY_ERROR,
    Fault.INVALID_INSTRUCTION,
    Fault.DEADLOCK,
    Fault.UNFINISHED,
)
"""Faults as the kit reports them: the first that is set is the cause."""


def files_of(plan: Plan, name: str) -> dict[str, str]:
    """Return the text of each file, by name.

    Raises:
        ExportError: the name is no C identifier, nothing runs on the accelerator, an operator on the host has
            no C form, or C has no type for a value.
        ModuleError, VerificationError, DeviceError: the module cannot run.
    """
    require_name(name)
    require_forms(plan)
    require_launch(plan)
    network = Network(name, plan, image_of(plan), values_of(plan))
    return {
        **{f"{each}.{ending}": asset(f"{each}.{ending}") for each in LIBRARY for ending in ("h", "c")},
        "vdla_registers.h": registers_header(),
        "vdla_errors.h": errors_header(),
        "vdla_errors.c": errors_source(),
        f"{name}.h": header(network),
        f"{name}.c": source(network),
        f"{name}_image.c": image_source(network),
        "Makefile": makefile(name),
    }


def require_launch(plan: Plan) -> None:
    """Refuse a module that runs nothing on the accelerator.

    Raises:
        ExportError: it does.
    """
    if not plan.launches:
        raise ExportError(
            f"module {plan.name} runs nothing on the accelerator, so there is nothing to export; "
            "`vdla compile --layers` lists the reasons"
        )


def asset(name: str) -> str:
    """Return the text of a file of `c/`."""
    return files("vdla.export.c").joinpath(name).read_text(encoding="utf-8")


def registers_header() -> str:
    """Return the text of vdla_registers.h: offsets of the registers, and their bits."""
    offsets = "".join(
        f"#define VDLA_{register.name} {register.offset:#05x}u {comment(register.help)}\n"
        for register in REGISTERS
    )
    bits = "".join(_bits(kind, meanings) for kind, meanings in MEANING.items())
    return (
        f"{GENERATED}#ifndef VDLA_REGISTERS_H\n#define VDLA_REGISTERS_H\n\n"
        f"/* Offsets in bytes; a register has 32 bits. */\n{offsets}\n"
        f"#define VDLA_IDENTITY_VALUE {IDENTITY:#x}u\n#define VDLA_VERSION_VALUE {VERSION}u\n{bits}\n#endif\n"
    )


def _bits(kind: type[IntFlag], meanings: Mapping[IntFlag, str]) -> str:
    lines = [
        f"#define VDLA_{kind.__name__.upper()}_{bit.name} {bit.value:#x}u {comment(meanings[bit])}\n"
        for bit in kind
    ]
    return f"\n/* Bits of {kind.__name__.upper()}. */\n{''.join(lines)}"


def errors() -> dict[str, str]:
    """Return the meaning of each error code, in order; the first has the number 1."""
    faults = {f"{fault.name}": MEANING[Fault][fault] for fault in FAULT_ORDER}
    named = {f"VDLA_ERROR_{name}": text for name, text in DRIVER_ERRORS.items()}
    named |= {f"VDLA_FAULT_ERROR_{name}": text for name, text in faults.items()}
    return named | {"VDLA_FAULT_ERROR_UNKNOWN": "the register FAULT has no bit that this driver knows"}


def errors_header() -> str:
    """Return the text of vdla_errors.h."""
    codes = "".join(f"    {name}, {comment(text)}\n" for name, text in errors().items())
    return f"""{GENERATED}#ifndef VDLA_ERRORS_H
#define VDLA_ERRORS_H

#include <stdint.h>

enum vdla_error {{
    {OK} = 0,
{codes}}};

/* Return the error code of the bits of FAULT. */
int vdla_fault_error(uint32_t fault);

/* Return what an error code means. */
const char *vdla_error_text(int error);

#endif
"""


def errors_source() -> str:
    """Return the text of vdla_errors.c."""
    tests = "".join(
        f"    if ((fault & VDLA_FAULT_{fault.name}) != 0)\n        return VDLA_FAULT_ERROR_{fault.name};\n"
        for fault in FAULT_ORDER
    )
    cases = "".join(
        f'    case {name}:\n        return "{text}";\n' for name, text in {OK: "no error", **errors()}.items()
    )
    return f"""{GENERATED}#include "vdla_errors.h"

#include "vdla_registers.h"

int vdla_fault_error(uint32_t fault)
{{
{tests}    return VDLA_FAULT_ERROR_UNKNOWN;
}}

const char *vdla_error_text(int error)
{{
    switch (error) {{
{cases}    default:
        return "unknown error";
    }}
}}
"""


def makefile(name: str) -> str:
    """Return the text of the Makefile."""
    sources = [name, f"{name}_image", *(each for each in LIBRARY if each != "vdla_platform"), "vdla_errors"]
    return f"""# Generated by `vdla export`. Builds lib{name}.a for a CPU beside the accelerator.
#   CC, AR, CFLAGS  of the CPU, as in: make CC=riscv64-unknown-elf-gcc CFLAGS="-O2 -march=rv32im -mabi=ilp32"
#   VDLA_BASE       address of the accelerator's registers
#   PLATFORM        a file in place of vdla_platform.c
CFLAGS ?= -O2
PLATFORM ?= vdla_platform.c
STRICT := -std=c99 -Wall -Wextra -Wpedantic -Werror -Wconversion -ffp-contract=off
STRICT += -ffunction-sections -fdata-sections -I.
ifdef VDLA_BASE
CPPFLAGS += -DVDLA_BASE=$(VDLA_BASE)
endif
OBJECTS := {" ".join(f"{each}.o" for each in sources)} $(PLATFORM:.c=.o)

lib{name}.a: $(OBJECTS)
\t$(AR) rcs $@ $(OBJECTS)

%.o: %.c $(wildcard *.h)
\t$(CC) $(STRICT) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

clean:
\trm -f lib{name}.a $(OBJECTS)

.PHONY: clean
"""
