"""A mutator of protocol-buffer messages, by the descriptors of their fields."""

from random import Random

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fuzzing.values import INTEGERS, TEXTS

INT64 = [value for value in INTEGERS if -(1 << 63) <= value < 1 << 63]
FLOATS = (0.0, -1.0, 1e-30, 3e38, float("inf"), float("nan"), 1.5)
LONGEST = 1 << 16  # elements of a field that is repeated


def changed_message(message: Message, rng: Random) -> None:
    """Change one to four fields of a message, at any depth."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        inner = message
        while rng.random() < 0.85:
            deeper = list(_messages(inner))
            if not deeper:
                break
            inner = rng.choice(deeper)
        _change(inner, rng)


def _messages(message: Message):
    """Yield the messages that a message holds."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            yield from [value] if not field.is_repeated else list(value)[:200]


def _change(message: Message, rng: Random) -> None:
    """Change a field, most often a field that is there."""
    there = [field for field, _ in message.ListFields()]
    fields = there if there and rng.random() < 0.8 else list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.1:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_repeated(getattr(message, field.name), field, rng)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(message, field.name).SetInParent()
    else:
        _assign(message, field, rng)


def _assign(message: Message, field: FieldDescriptor, rng: Random) -> None:
    setattr(message, field.name, _value(field, getattr(message, field.name), rng))


def _value(field: FieldDescriptor, old: object, rng: Random) -> object:
    """Return a value that the field can hold."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return rng.choice(
                    (b"", old[:-1], old + b"\0", old * 2 if len(old) < LONGEST else old[:7], rng.randbytes(7))
                )
            return rng.choice((*TEXTS, old + "x", old[:-1]))
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return rng.choice(FLOATS)
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice(field.enum_type.values).number
        case FieldDescriptor.CPPTYPE_INT64:
            return rng.choice((*INT64, max(old - 1, -(1 << 63)), min(old + 1, (1 << 63) - 1)))
    return rng.choice((0, 1, 2, 3, 6, 7, 9, 11, 16, 99, 127))


def _change_repeated(values, field: FieldDescriptor, rng: Random) -> None:
    """Remove, repeat, swap, add or change elements of a field."""
    choice, place = rng.randrange(5), rng.randrange(len(values)) if len(values) else None
    if place is not None and choice == 0:
        del values[place]
    elif place is not None and choice == 1 and len(values) < LONGEST:
        values.append(values[place])
    elif place is not None and choice == 2 and field.type != FieldDescriptor.TYPE_MESSAGE:
        second = rng.randrange(len(values))
        values[place], values[second] = values[second], values[place]
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        values.add()
    elif place is not None:
        values[place] = _value(field, values[place], rng)
    else:
        values.append(
            _value(
                field,
                b""
                if field.type == FieldDescriptor.TYPE_BYTES
                else ""
                if field.cpp_type == FieldDescriptor.CPPTYPE_STRING
                else 0,
                rng,
            )
        )
