"""Operators are told by the lists that they configured: people by mail, programs by a webhook."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from execution.core.failures import Answer, Landed, Receipt
from execution.core.quiescence import Bounds
from execution.ports import Event, Message, Ports
from execution.ports.notifying import Alert
from server.alerting import Alerts
from server.config import Config, parse_settings

TEXT = """
[installation]
id = "inst_1"
[gateway]
issuer = "https://issuer.example"
audience = "https://gateway.example"
tenant = "acme"
[mail]
host = "127.0.0.1"
sender = "remit@blog.example"
"""


@dataclass
class Told:
    """A prepared request that notes that it was sent, once."""

    what: Message | Event
    sent: list[Message | Event]
    bounds: Bounds = field(default_factory=Bounds)
    request_digest: str = ""

    async def connect(self) -> Answer | None:
        return None

    async def send(self, deadline_s: float) -> Answer:
        self.sent.append(self.what)
        return Landed(receipt=Receipt(resource_id="1"))

    async def close(self) -> None:
        return None


@dataclass
class Sender:
    sent: list[Message | Event] = field(default_factory=list)
    bounds: Bounds = field(default_factory=Bounds)

    def send(self, what: Any) -> Told:
        return Told(what, self.sent)


class Ids:
    def new(self, prefix: str) -> str:
        return f"{prefix}_1"


async def test_people_and_programs_are_told_the_same() -> None:
    mail, hook = Sender(), Sender()
    ports = Ports(
        artifacts=None,  # type: ignore[arg-type]  # nothing is read here
        mail=mail,
        recipients={"team": ("ann@blog.example",)},
        webhooks={"hook": hook},
    )
    settings = parse_settings(TEXT, Path("remit.toml"))
    config = Config(home=Path("home"), settings=settings, log_level="info", token_file=None)
    alerts = Alerts(ports=ports, ids=Ids(), config=config, names=("team", "hook", "nobody"))
    await alerts.alert(Alert(kind="audit.findings", summary="2 findings", lines=("one", "two")))
    (message,), (event,) = mail.sent, hook.sent
    assert isinstance(message, Message)
    assert isinstance(event, Event)
    assert (message.recipients, "one\ntwo" in message.text) == (("ann@blog.example",), True)
    assert (event.kind, event.data) == ("remit.audit.findings", {"summary": "2 findings", "lines": "one\ntwo"})
