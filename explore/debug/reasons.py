"""Why an event of a run waits for its cause."""

from enum import IntEnum


class Reason(IntEnum):
    """Why an event waits for its cause."""

    ROOT = 0
    ORDER = 1
    PLACE = 2
    FETCH = 3
    DISPATCH = 4
    TOKEN = 5
    ROOM = 6
    UNIT = 7
    ISSUE = 8
    ENGINE = 9
    REQUESTS = 10
    WORK = 11
    DATA = 12
    PIPELINE = 13
    ASKS = 14
    FETCHED_AHEAD = 15
    OTHERS = 16
    IN_FLIGHT = 17
    ACCEPTS = 18
    LATENCY = 19
    DATA_PATH = 20
    BEATS = 21
    BACK_PRESSURE = 22
    CONTROL = 23
    ENDED = 24
    BEFORE = 25
    LENT = 26


TEXTS = {
    Reason.ROOT: "nothing comes before it",
    Reason.ORDER: "dispatch moves instructions in order",
    Reason.PLACE: "a place in the queue of its unit",
    Reason.FETCH: "fetch of the instruction",
    Reason.DISPATCH: "its dispatch",
    Reason.TOKEN: "a token",
    Reason.ROOM: "room for a token",
    Reason.UNIT: "the unit takes one instruction at a time",
    Reason.ISSUE: "the slots of the instruction before",
    Reason.ENGINE: "the load engine",
    Reason.REQUESTS: "the requests of the instruction before",
    Reason.WORK: "its execution",
    Reason.DATA: "its data",
    Reason.PIPELINE: "the pipeline has to be empty",
    Reason.ASKS: "the request is made",
    Reason.FETCHED_AHEAD: "fetch is far enough ahead",
    Reason.OTHERS: "the DMA holds the request before",
    Reason.IN_FLIGHT: "the requests in flight are as many as there may be",
    Reason.ACCEPTS: "memory accepts the request",
    Reason.LATENCY: "the latency of memory",
    Reason.DATA_PATH: "the data path of memory is busy",
    Reason.BEATS: "the beats of the burst",
    Reason.BACK_PRESSURE: "the beats before are not taken",
    Reason.CONTROL: "run control begins or ends the run",
    Reason.ENDED: "the run ends before",
    Reason.BEFORE: "instructions retire in order",
    Reason.LENT: "its slots and the slots that the store unit takes",
}
"""What an event waits for, by reason."""

BLAMED = (Reason.UNIT, Reason.ISSUE, Reason.ENGINE, Reason.LENT)
"""Reasons whose cost belongs to the instruction of the cause, not to the instruction that waits."""
