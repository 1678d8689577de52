"""Small C programs that call functions of exported files, compiled with sanitizers."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from exported.board import SANITIZERS, compiler, run

from vdla.export.c_text import C_TYPES, array
from vdla.export.files import asset

STRICT = "-std=c99 -Wall -Wextra -Wpedantic -Werror -Wconversion -ffp-contract=off"
Arrays = Mapping[str, np.ndarray]


def outcome(folder: Path, cases: Sequence[tuple[Arrays, Arrays, str]], *library: str) -> list[Arrays]:
    """Compile and run a program of cases; return the results of each.

    Args:
        cases: inputs by C name; results by C name, with their types and shapes; statements.
        library: pairs of files of `export/c`, without their ending.
    """
    for name in (f"{each}.{ending}" for each in library for ending in ("h", "c")):
        (folder / name).write_text(asset(name))
    functions = [_function(number, *case) for number, case in enumerate(cases)]
    calls = "".join(f"    case_{number}();\n" for number in range(len(cases)))
    own = "".join(f'#include "{each}.h"\n' for each in library)
    includes = f"#include <math.h>\n#include <stdio.h>\n{own}"
    main = f"{includes}{''.join(functions)}int main(void)\n{{\n{calls}    return 0;\n}}\n"
    (folder / "main.c").write_text(main)
    sources = [folder / name for name in ("main.c", *(f"{each}.c" for each in library))]
    flags = [*STRICT.split(), *SANITIZERS.split(), "-I", folder]
    run([*compiler(), *flags, "-o", folder / "cases", *sources, "-lm"])
    done = subprocess.run([folder / "cases"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return _results(done.stdout, [results for _, results, _ in cases])


def _function(number: int, inputs: Arrays, results: Arrays, statements: str) -> str:
    """Return a C function that runs a case and writes its results."""
    given = "".join(
        array(f"    static const {C_TYPES[str(x.dtype)]} {name}", x) for name, x in inputs.items()
    )
    buffers = "".join(
        f"    static {C_TYPES[str(x.dtype)]} {name}[{x.size}];\n" for name, x in results.items()
    )
    written = "".join(f"    fwrite({name}, 1, sizeof {name}, stdout);\n" for name in results)
    return f"static void case_{number}(void)\n{{\n{given}{buffers}\n{statements}\n{written}}}\n"


def _results(data: bytes, wanted: Sequence[Arrays]) -> list[Arrays]:
    """Return the results of each case, of the bytes that the program has written."""
    results, begin = [], 0
    for arrays in wanted:
        taken = {}
        for name, x in arrays.items():
            taken[name] = np.frombuffer(data, x.dtype, x.size, begin).reshape(x.shape)
            begin += x.nbytes
        results.append(taken)
    assert begin == len(data)
    return results
