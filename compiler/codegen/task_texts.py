"""Tasks read back from their texts."""

import ast
import re
from typing import cast, get_args

from vdla.compiler.codegen.tasks import Elements, Task
from vdla.compiler.te.operators.narrowing import AddingScale, Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.python_text import expression_of

TASKS: tuple[type, ...] = get_args(Task)
CLASSES = {
    kind.__name__: kind for kind in (*TASKS, Convolution, Pooling, Transposed, AddingScale, Scale, Shift)
}
LARGEST_NUMBER = 1 << 24
"""In a task: a greater one is that of a forged text, and to list its choices may not end."""
MEMBER = re.compile(r"<(\w+)\.(\w+): '\w+'>")  # as Python shows a member of an enumeration


def task_of(text: str) -> Task | None:
    """Return the task whose text this is; None where it is no task's, as that of another version may be."""
    try:
        found = _value(expression_of(MEMBER.sub(r"\1.\2", text)))
    except (SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError):
        return None
    except VdlaError:  # sizes that are none
        return None
    return cast(Task, found) if isinstance(found, TASKS) and str(found) == text else None


def _value(node: ast.expr) -> object:
    match node:
        case ast.Call(ast.Name(name), [], keywords):
            return CLASSES[name](**{str(one.arg): _value(one.value) for one in keywords})
        case ast.Attribute(ast.Name("Elements"), name):
            return Elements[name]
        case ast.Tuple(parts):
            return tuple(map(_value, parts))
    value = ast.literal_eval(node)
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise ValueError(f"{value.bit_length()} bits are too many for a size")
    return value
