"""Alerts to operators: always a line in the log, and a message to the lists that the configuration names.

One message per list, sent at most once. A relay that takes no message is told in the log with a code: the alert says
what anybody can look up, so nothing is lost with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from execution.core.definition import Prepared
from execution.core.failures import Landed, Unprepared
from execution.ports import Event, Ids, Message, Ports
from execution.ports.notifying import Alert
from server.config import Config

DEADLINE_S: Final = 20.0
LINES_MAX: Final = 100
log = logging.getLogger("remit.alert")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """`execution.ports.notifying.Notifier` over the log and the configured lists `names`."""

    ports: Ports
    ids: Ids
    config: Config
    names: tuple[str, ...]

    async def alert(self, alert: Alert) -> None:
        log.warning("%s: %s", alert.kind, alert.summary, extra={"lines": " | ".join(alert.lines[:LINES_MAX])})
        for name in self.names:
            try:
                for prepared in self._messages(name, alert):
                    await self._deliver(name, prepared)
            except Unprepared as error:
                log.warning("the list %s was not told: %s", name, error.code)

    def _messages(self, name: str, alert: Alert) -> Iterator[Prepared]:
        recipients = self.ports.recipients.get(name, ())
        if self.ports.mail is not None and recipients:
            yield self.ports.mail.send(self._mail(alert, recipients))
        receiver = self.ports.webhooks.get(name)
        if receiver is not None:
            told = {"summary": alert.summary, "lines": "\n".join(alert.lines[:LINES_MAX])}
            yield receiver.send(Event(event_id=self.ids.new("alert"), kind=f"remit.{alert.kind}", data=told))

    def _mail(self, alert: Alert, recipients: tuple[str, ...]) -> Message:
        section = self.config.settings.mail
        domain = (section.sender if section else "").rpartition("@")[2]
        more = len(alert.lines) - LINES_MAX
        lines = [*alert.lines[:LINES_MAX], *([f"... and {more} more"] if more > 0 else [])]
        home = f"Tenant {self.config.settings.gateway.tenant}, home {self.config.home}."
        return Message(
            message_id=f"<remit.{self.ids.new('alert')}@{domain}>",
            recipients=recipients,
            subject=f"Remit: {alert.summary}",
            text="\n".join([alert.summary, "", *lines, "", home, "Look at `remit review ls`.", ""]),
        )

    async def _deliver(self, name: str, prepared: Prepared) -> None:
        try:
            answer = await prepared.connect() or await prepared.send(DEADLINE_S)
        finally:
            await prepared.close()
        if not isinstance(answer, Landed):
            log.warning("the list %s was not told: %s", name, answer.code)
