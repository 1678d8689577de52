"""States of a module: inputs that have, in each run, the value of an output of the run before."""

from collections.abc import Mapping

import numpy as np

from vdla.runtime.exchange import array_of
from vdla.runtime.module.plan import ModuleError, Plan, State, type_text

Values = dict[str, np.ndarray]


def first_states(plan: Plan) -> Values:
    """Return the states before the first run, by the name of the input: each stands for zeros."""
    return {
        name: np.full(plan.inputs[name].shape, state.zero, plan.inputs[name].dtype)
        for name, state in plan.states.items()
    }


def next_states(plan: Plan, outputs: Mapping[str, np.ndarray]) -> Values:
    """Return the states after a run, of its outputs."""
    return {name: outputs[state.output] for name, state in plan.states.items()}


def real_states(plan: Plan, states: Mapping[str, np.ndarray]) -> Values:
    """Return the numbers that states stand for: float32 arrays for states of int8, else copies."""
    return {
        name: _real(states[name], state) if states[name].dtype == np.int8 else states[name].copy()
        for name, state in plan.states.items()
    }


def states_of(plan: Plan, numbers: Mapping[str, object]) -> Values:
    """Return the states that stand for numbers: the nearest that they can hold.

    Args:
        numbers: an array of any library for each state that is not zero.

    Raises:
        ModuleError: a name is no state, or an array has another shape, or holds what is not finite.
    """
    unknown = [name for name in numbers if name not in plan.states]
    if unknown:
        known = ", ".join(plan.states) or "none"
        raise ModuleError(f"{unknown[0]} is no state of {plan.name}; its states are {known}")
    return first_states(plan) | {name: _nearest(plan, name, given) for name, given in numbers.items()}


def _real(stored: np.ndarray, state: State) -> np.ndarray:
    real: np.ndarray = (stored.astype(np.float32) - np.float32(state.zero)) * np.float32(state.scale)
    return real


def _nearest(plan: Plan, name: str, given: object) -> np.ndarray:
    value, state = plan.inputs[name], plan.states[name]
    try:
        numbers = array_of(given)
    except ValueError as error:
        raise ModuleError(f"state {name} {error}") from error
    if numbers.shape != value.shape or not np.isfinite(numbers).all():
        given_type = type_text(numbers.shape, numbers.dtype)
        raise ModuleError(f"state {name} takes finite numbers as {value}, and was given {given_type}")
    if value.dtype != "int8":
        return numbers.astype(value.dtype)
    limits = np.iinfo(np.int8)
    stored: np.ndarray = np.rint(numbers.astype(np.float64) / state.scale) + state.zero
    nearest: np.ndarray = np.clip(stored, limits.min, limits.max).astype(np.int8)
    return nearest
