"""Parsing of tasks from their texts, which are the keys of tuned records."""

import ast
import re
from collections.abc import Iterator
from inspect import isabstract, isclass

from vdla.compiler.discovery import modules_of
from vdla.compiler.tasks.base import Task
from vdla.compiler.tasks.chain_plan import Chain
from vdla.compiler.tasks.elementwise import Elements
from vdla.compiler.te.operators.narrowing import AddingScale, Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.python_text import expression_of


def _kinds() -> Iterator[type[Task]]:
    """Yield the concrete task classes that the modules of this package declare."""
    for module in modules_of(__name__.rpartition(".")[0]):
        for kind in vars(module).values():
            if isclass(kind) and issubclass(kind, Task) and not isabstract(kind):
                yield kind


TASKS: tuple[type[Task], ...] = tuple(dict.fromkeys(_kinds()))
CLASSES = {
    kind.__name__: kind
    for kind in (*TASKS, Chain, Convolution, Pooling, Transposed, AddingScale, Scale, Shift)
}
LARGEST_NUMBER = 1 << 24
"""Limit of the numbers in a task. Enumerating the choices of a forged task with larger sizes may not end."""
MEMBER = re.compile(r"<(\w+)\.(\w+): '\w+'>")  # repr of an enumeration member


def task_of(text: str) -> Task | None:
    """Return the task with this text; None if there is no such task, for example in the text of another
    version."""
    try:
        task = _value(expression_of(MEMBER.sub(r"\1.\2", text)))
    except (SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError):
        return None
    except VdlaError:  # invalid sizes
        return None
    return task if isinstance(task, TASKS) and str(task) == text else None


def _value(node: ast.expr) -> object:
    match node:
        case ast.Call(ast.Name(name), [], keywords):
            return CLASSES[name](**{str(keyword.arg): _value(keyword.value) for keyword in keywords})
        case ast.Attribute(ast.Name("Elements"), name):
            return Elements[name]
        case ast.Tuple(parts):
            return tuple(map(_value, parts))
    value = ast.literal_eval(node)
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise ValueError(f"{value.bit_length()} bits are too many for a size")
    return value
