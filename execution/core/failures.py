"""What an exchange with an external system proves, and the failure classes that decide what may follow.

    Landed      it happened, and here is the receipt
    Unsent      it provably did not leave: refused connect, DNS, pool, no connection opened before the fence; of several
                requests in turn, the one that makes the effect
    Refused     it arrived and was refused with a documented answer: nothing changed
    Lost        anything else: the effect may exist

Classed by what is known about the *effect*, never by an exception's type or a status code alone
(a reset before and a drop after the commit look the same to a client).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class FailureClass(StrEnum):
    """What the caller may do next.

    TRANSIENT: the same again, later. PERMANENT: stop. BUSINESS: a person or the agent must change something.
    CONFLICT: reality differs from what was expected (version, foreign object). UNKNOWN: find out first.
    """

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"
    BUSINESS = "BUSINESS"
    CONFLICT = "CONFLICT"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the external system gave back.

    resource_id: its id for the object. version: its opaque version, to be expected at our next write. reference: a
    place for people (URL). data: further columns that later steps and people read (strings, numbers, booleans).
    """

    resource_id: str
    version: str = ""
    reference: str = ""
    data: Mapping[str, str | int | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The effect exists."""

    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """Proven: no byte of the request that makes the effect reached the system."""

    code: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A documented refusal: the system answered, and nothing changed."""

    failure: FailureClass
    code: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The outcome is not known."""

    code: str


Answer = Landed | Unsent | Refused | Lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Our effect exists. `rows` counts the objects that carry our marker: more than one is a duplicate.

    `complete` is false when the object is ours but not (yet) the whole state that was asked for; `difference` then
    names the fields that differ. `mendable`: what is missing can be added to this very object, over nobody's change.
    `seen` is false when the receipt is all that anybody can know from here: the success stays unverified.
    """

    receipt: Receipt
    rows: int = 1
    complete: bool = True
    mendable: bool = False
    difference: tuple[str, ...] = ()
    seen: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Not there, according to a read that proved its authority and bypassed caches.

    Whether that is conclusive depends on quiescence, which the engine judges by when the read began.
    `receipt` may carry what the read saw of the object before the effect (its version and status).
    """

    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Something else holds the place, or a person changed our object: neither adopt nor delete."""

    code: str
    receipt: Receipt | None = None
    difference: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotTell:
    """The read failed, lacked authority, or the system cannot answer such a question (`hopeless`: it never will).
    unasked: nobody was asked, because something of ours that the question needs is not there."""

    code: str
    hopeless: bool = False
    unasked: bool = False
    retry_after_s: float | None = None


Sighting = Present | Absent | Foreign | CannotTell


class Unprepared(Exception):
    """A request could not be built, or a precondition known to us does not hold: nothing was sent, nothing will be."""

    def __init__(self, failure: FailureClass, code: str, retry_after_s: float | None = None) -> None:
        super().__init__(code)
        self.failure = failure
        self.code = code
        self.retry_after_s = retry_after_s
