"""The rule of caches: kernels, each of which makes one tensor in DRAM of others that stand there.

What an instruction computes lies in one memory. A tensor in DRAM that an instruction wants on chip gets a
copy there, and a tensor on chip belongs to the kernels that read it, to each its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from vdla.compiler.codegen.derived.parts import in_order, in_parts, reading
from vdla.compiler.codegen.derived.units import UnderivableError, Unit, in_dram, load_of, text_of, units_of
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.ir.nodes import Scope
from vdla.compiler.te.tensor import Axis, Tensor
from vdla.hw.spec.config import AcceleratorConfig

Scopes = dict[str, frozenset[Scope]]  # the memories in which a tensor is wanted, by name


@dataclass(frozen=True, eq=False)
class Kernel:
    """What one loop nest over tiles of a tensor in DRAM computes.

    Attributes:
        output: that tensor.
        units: what computes each stage, by name.
    """

    output: Tensor
    units: dict[str, Unit]
    config: AcceleratorConfig

    @cached_property
    def stages(self) -> tuple[Tensor, ...]:
        """The tensors that are computed, producers first, the output last."""
        return tuple(tensor for tensor in in_order(self.output) if tensor.value is not None)

    @cached_property
    def placeholders(self) -> tuple[Tensor, ...]:
        """The tensors in DRAM that are read."""
        return tuple(tensor for tensor in in_order(self.output) if tensor.value is None)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The loops of the output around an element."""
        return self.output.axes[:-TILE_RANK]

    def readers(self, tensor: Tensor) -> list[Tensor]:
        """Return the stages that read one."""
        return [stage for stage in self.stages if any(one.name == tensor.name for one in stage.inputs)]

    def sums(self, tensor: Tensor) -> list[Axis]:
        """Return the reduction axes of a stage that are not its instruction's own."""
        inner = self.units[tensor.name].inner
        return [axis for axis in tensor.reduce_axes if axis.name not in inner]

    def __str__(self) -> str:
        return "\n".join(
            f"{stage.name}: {stage.dtype}{list(stage.shape)} in {self.units[stage.name].scope.value} = "
            f"{text_of(stage.value)}"
            for stage in self.stages
            if stage.value is not None
        )


def kernels_of(output: Tensor, config: AcceleratorConfig) -> list[Kernel]:
    """Return the kernels that compute `output` one after another.

    Raises:
        UnderivableError: instructions do not compute it.
    """
    tensors = in_order(in_parts(output, config))
    wanted: Scopes = {tensors[-1].name: frozenset({Scope.DRAM})}
    units = _chosen(tensors[::-1], wanted, config)
    if units is None:
        raise UnderivableError(
            f"{output.name}: instructions of {config.name} compute each of its parts, but in memories where "
            "others cannot read them; narrow to int8 between sums of products"
        )
    made = [tensor for tensor in tensors if tensor.name in units and units[tensor.name].scope is Scope.DRAM]
    return [_Kernels(units, config).kernel(tensor) for tensor in made]


def _chosen(
    consumers_first: Sequence[Tensor], wanted: Scopes, config: AcceleratorConfig
) -> dict[str, Unit] | None:
    """Return a unit for each tensor, so that all lie where they are wanted or can be copied there; None where
    there are none."""
    if not consumers_first:
        return {}
    tensor, rest = consumers_first[0], consumers_first[1:]
    places = wanted[tensor.name]
    loadable = all(
        scope is Scope.DRAM or load_of(tensor, scope, f"{tensor.name}_copy", config) for scope in places
    )
    if tensor.value is None:
        return _chosen(rest, wanted, config) if loadable else None
    for unit in units_of(tensor, config):
        if places == {unit.scope} or (unit.scope is Scope.DRAM and loadable):
            more = {name: wanted.get(name, frozenset()) | {scope} for name, scope in unit.operands}
            found = _chosen(rest, wanted | more, config)
            if found is not None:
                return {tensor.name: unit, **found}
    return None


class _Kernels:
    """The stages of one kernel, made from its output backwards."""

    def __init__(self, units: dict[str, Unit], config: AcceleratorConfig) -> None:
        self.all, self.config = units, config
        self.units: dict[str, Unit] = {}
        self.made: dict[tuple[str, Scope], Tensor] = {}

    def kernel(self, output: Tensor) -> Kernel:
        return Kernel(self._own(output), self.units, self.config)

    def _own(self, tensor: Tensor) -> Tensor:
        """Return a stage that reads this kernel's."""
        unit = self.all[tensor.name]
        scopes = dict(unit.operands)
        sources = {source.name: self._source(source, scopes[source.name]) for source in tensor.inputs}
        self.units[tensor.name] = unit
        return reading(tensor, sources)

    def _source(self, tensor: Tensor, scope: Scope) -> Tensor:
        key = tensor.name, scope
        if key not in self.made:
            self.made[key] = self._found(tensor, scope)
        return self.made[key]

    def _found(self, tensor: Tensor, scope: Scope) -> Tensor:
        if tensor.name in self.all and self.all[tensor.name].scope is not Scope.DRAM:
            return self._own(tensor)
        if scope is Scope.DRAM:
            return in_dram(tensor.buffer)
        found = load_of(in_dram(tensor.buffer), scope, f"{tensor.name}_{scope.value}", self.config)
        assert found is not None, "units are chosen so that copies can be made"
        copy, unit = found
        self.units[copy.name] = unit
        return copy
