"""Where an adapter's attempt turns into an answer. This is the one broad handler of the program.

Whatever an adapter, a library or a saga's function raises becomes a value with a stable code here, judged by when it
happened: before a byte could leave it is proof that nothing was sent, afterwards it is doubt. The text of the exception
goes no further than a log line with its type, because it may carry what a provider or an agent wrote.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from execution.core.command import Context
from execution.core.definition import (
    Action,
    ApprovalGate,
    CheckGate,
    Compare,
    Finding,
    Forward,
    Prepared,
    ThreeWay,
)
from execution.core.failures import (
    Answer,
    CannotTell,
    FailureClass,
    Lost,
    Receipt,
    Refused,
    Sighting,
    Unprepared,
    Unsent,
)
from execution.ports import Ports, Probed, Severity, Symptom

T = TypeVar("T")
_LOG: Final = logging.getLogger("remit.performer")
GRACE_S: Final = 1.0
"""How much longer than its own deadline an exchange may take before it is cut off here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raised:
    code: str


async def _guarded(what: str, work: Awaitable[T], deadline_s: float) -> T | _Raised | Unprepared:
    try:
        async with asyncio.timeout(deadline_s):
            return await work
    except Unprepared as error:
        return error
    except TimeoutError:
        return _Raised(code="deadline")
    except Exception as error:  # noqa: BLE001  # the one place where anything an adapter raises becomes an answer
        _LOG.warning("adapter_raised", extra={"what": what, "error": type(error).__name__})
        return _Raised(code="adapter_error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """Runs the functions of definitions over the ports; never raises for what they do."""

    ports: Ports
    observe_deadline_s: float

    async def prepare(self, forward: Forward[Ports], context: Context) -> Prepared | Refused:
        """The request's exact bytes; a failure here is certain: nothing was sent."""
        made = await _guarded("prepare", forward(self.ports, context), self.observe_deadline_s)
        if isinstance(made, Unprepared):
            return Refused(failure=made.failure, code=made.code, retry_after_s=made.retry_after_s)
        if isinstance(made, _Raised):
            failure = FailureClass.TRANSIENT if made.code == "deadline" else FailureClass.PERMANENT
            return Refused(failure=failure, code=f"prepare_{made.code}")
        return made

    async def connect(self, prepared: Prepared, deadline_s: float) -> Unsent | Refused | None:
        """None when the connection is open."""
        answer = await _guarded("connect", prepared.connect(), deadline_s + GRACE_S)
        if isinstance(answer, Unprepared):
            return Refused(failure=answer.failure, code=answer.code)
        if isinstance(answer, _Raised):
            return Unsent(code=f"connect_{answer.code}")
        return answer if isinstance(answer, Unsent | Refused) else None

    async def send(self, prepared: Prepared, deadline_s: float) -> Answer:
        """The one write. From here on, what cannot be explained is doubt."""
        answer = await _guarded("send", prepared.send(deadline_s), deadline_s + GRACE_S)
        if isinstance(answer, Unprepared):
            return Lost(code="send_raised")
        if isinstance(answer, _Raised):
            return Lost(code=answer.code)
        return answer

    async def close(self, prepared: Prepared) -> None:
        """Release the connection; what goes wrong here changes nothing that is known."""
        await _guarded("close", prepared.close(), GRACE_S * 5)

    async def observe(self, action: Action[Ports], context: Context) -> Sighting | None:
        """The read-back; None when the system cannot be asked."""
        if action.observe is None:
            return None
        return _sighting(await _guarded("observe", action.observe(self.ports, context), self.observe_deadline_s))

    async def verify(self, action: Action[Ports], context: Context, receipt: Receipt) -> Sighting:
        """The read-back after success."""
        assert action.verify is not None
        return _sighting(await _guarded("verify", action.verify(self.ports, context, receipt), self.observe_deadline_s))

    async def compare(self, compare: Compare[Ports], context: Context) -> ThreeWay | CannotTell:
        """What a person is to compare."""
        made = await _guarded("compare", compare(self.ports, context), self.observe_deadline_s)
        return CannotTell(code=made.code) if isinstance(made, Unprepared | _Raised) else made

    async def check(self, gate: CheckGate[Ports], context: Context) -> tuple[Finding, ...] | CannotTell:
        """A check gate's findings."""
        found = await _guarded("check", gate.check(self.ports, context), self.observe_deadline_s)
        if isinstance(found, Unprepared):
            return CannotTell(code=found.code)
        return CannotTell(code=f"check_{found.code}") if isinstance(found, _Raised) else found

    async def subject(self, gate: ApprovalGate[Ports], context: Context) -> dict[str, Any] | CannotTell:
        """What a person is shown and asked to approve."""
        made = await _guarded("subject", gate.subject(self.ports, context), self.observe_deadline_s)
        if isinstance(made, Unprepared | _Raised):
            return CannotTell(code=f"subject_{made.code}")
        return made if isinstance(made, CannotTell) else dict(made)

    async def probe(self, system: Probed) -> tuple[Symptom, ...]:
        """Whether an adapter could do its work."""
        found = await _guarded("probe", system.probe(), self.observe_deadline_s)
        if isinstance(found, Unprepared | _Raised):
            fix = "Look at its address in remit.toml, and whether it can be reached from this machine."
            return (Symptom(code="probe_failed", severity=Severity.PROBLEM, detail=found.code, fix=fix),)
        return found


def _sighting(seen: Sighting | _Raised | Unprepared) -> Sighting:
    if isinstance(seen, Unprepared):
        return CannotTell(code=seen.code, unasked=seen.failure is FailureClass.PERMANENT)
    return CannotTell(code=f"observe_{seen.code}") if isinstance(seen, _Raised) else seen
