"""The port `Mail`, over the stand-in and an independent SMTP server; faults on the stand-in."""

import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from adapters.mail import Security, SmtpMail
from adapters.sandbox.faults import parse_fault
from adapters.sandbox.running import Sandbox
from execution.core.failures import Answer, FailureClass, Landed, Lost, Refused, Unprepared, Unsent
from execution.ports import Message
from tests.conformance.beds import PLENTY, carry_out
from tests.services import Mailbox, free_port

SENDER = "remit@example.test"
DEADLINE_S = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """A relay, and what it accepted as (Message-ID, subject, text)."""

    port: int
    accepted: Callable[[], list[tuple[str, str, str]]]
    refuse: Callable[[str], None]

    @property
    def mail(self) -> SmtpMail:
        return SmtpMail("127.0.0.1", self.port, SENDER, security=Security.NONE)


def read(message: Any) -> tuple[str, str, str]:
    return str(message["Message-ID"]), str(message["Subject"]), str(message.get_content()).replace("\r\n", "\n")


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    running = Sandbox(tmp_path / "sandbox.db", time.time, PLENTY)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture(params=["sandbox", "real"])
def relay(request: pytest.FixtureRequest) -> Relay:
    if request.param == "real":
        mailbox: Mailbox = request.getfixturevalue("smtp")
        return Relay(
            port=mailbox.port,
            accepted=lambda: [read(message) for message in mailbox.messages],
            refuse=lambda address: mailbox.refused.add(address),
        )
    sandbox: Sandbox = request.getfixturevalue("sandbox")
    return Relay(
        port=sandbox.smtp_port,
        accepted=lambda: [
            read(BytesParser(policy=default).parsebytes(message["content"].encode())) for message in messages(sandbox)
        ],
        refuse=lambda address: arm(sandbox, match=f"SMTP RCPT {address}", kind="status_before", status=550),
    )


def messages(sandbox: Sandbox) -> list[dict[str, Any]]:
    found = sandbox.effects()["messages"]
    assert isinstance(found, list)
    return found


def arm(sandbox: Sandbox, **fault: Any) -> None:
    sandbox.faults.arm(parse_fault(json.dumps(fault).encode()))


def message(**fields: Any) -> Message:
    known = {
        "message_id": "<n1@remit.test>",
        "recipients": ("a@example.test",),
        "subject": "Published",
        "text": "Hello\n",
    }
    return Message(**{**known, **fields})


async def test_a_message_arrives_with_its_id_and_its_text(relay: Relay) -> None:
    answer = await carry_out(relay.mail.send(message(subject="Veröffentlicht: 日本", text="Grüße\n.\nend\n")))
    assert isinstance(answer, Landed)
    assert (answer.receipt.resource_id, answer.receipt.data["accepted"]) == ("<n1@remit.test>", 1)
    assert relay.accepted() == [("<n1@remit.test>", "Veröffentlicht: 日本", "Grüße\n.\nend\n")]


async def test_a_mailbox_named_twice_in_different_case_gets_one_message(relay: Relay) -> None:
    answer = await carry_out(relay.mail.send(message(recipients=("A@example.test", "a@EXAMPLE.test"))))
    assert isinstance(answer, Landed)
    assert (answer.receipt.data["accepted"], len(relay.accepted())) == (1, 1)


async def test_one_refused_recipient_of_two_is_named_and_the_other_is_served(relay: Relay) -> None:
    relay.refuse("b@example.test")
    answer = await carry_out(relay.mail.send(message(recipients=("a@example.test", "b@example.test"))))
    assert isinstance(answer, Landed)
    assert answer.receipt.data == {"accepted": 1, "refused": 1, "refused_recipients": "b@example.test"}
    assert len(relay.accepted()) == 1


async def test_a_message_that_nobody_may_receive_is_refused_for_good(relay: Relay) -> None:
    relay.refuse("a@example.test")
    answer = await carry_out(relay.mail.send(message()))
    assert answer == Refused(failure=FailureClass.PERMANENT, code="recipients_refused")
    assert relay.accepted() == []


async def test_a_relay_that_is_not_there_is_unsent() -> None:
    mail = SmtpMail("127.0.0.1", free_port(), SENDER, security=Security.NONE)
    assert await carry_out(mail.send(message())) == Unsent(code="connect_failed")


async def test_a_message_without_an_opened_connection_is_unsent(relay: Relay) -> None:
    assert await relay.mail.send(message()).send(DEADLINE_S) == Unsent(code="no_connection")


TRANSIENT, PERMANENT = FailureClass.TRANSIENT, FailureClass.PERMANENT


def refused(failure: FailureClass, code: str) -> Refused:
    return Refused(failure=failure, code=code)


@pytest.mark.parametrize(
    ("fault", "answer", "stored"),
    [
        ({"match": "SMTP MAIL", "kind": "status_before", "status": 451}, refused(TRANSIENT, "sender_refused"), 0),
        ({"match": "SMTP MAIL", "kind": "status_before", "status": 550}, refused(PERMANENT, "sender_refused"), 0),
        ({"match": "SMTP MAIL", "kind": "drop_before"}, Unsent(code="lost_before_data"), 0),
        ({"match": "SMTP RCPT", "kind": "status_before", "status": 450}, refused(TRANSIENT, "recipient_deferred"), 0),
        ({"match": "SMTP RCPT", "kind": "hang"}, Unsent(code="lost_before_data"), 0),
        ({"match": "SMTP DATA", "kind": "status_before", "status": 452}, refused(TRANSIENT, "message_refused"), 0),
        ({"match": "SMTP DATA", "kind": "status_before", "status": 554}, refused(PERMANENT, "message_refused"), 0),
        ({"match": "SMTP DATA", "kind": "status_before", "status": 421}, Lost(code="unexpected_answer"), 0),
        ({"match": "SMTP DATA", "kind": "drop_before"}, Lost(code="no_answer_after_data"), 0),
        ({"match": "SMTP DATA", "kind": "drop_after"}, Lost(code="no_answer_after_data"), 1),
        ({"match": "SMTP DATA", "kind": "hang_after"}, Lost(code="no_answer_after_data"), 1),
    ],
)
async def test_each_step_of_the_conversation_proves_what_it_proves(
    sandbox: Sandbox, fault: dict[str, Any], answer: Answer, stored: int
) -> None:
    arm(sandbox, **fault)
    mail = SmtpMail("127.0.0.1", sandbox.smtp_port, SENDER, security=Security.NONE)
    assert await carry_out(mail.send(message()), DEADLINE_S) == answer
    assert len(messages(sandbox)) == stored
    assert isinstance(await carry_out(mail.send(message())), Landed)


async def test_a_relay_that_offers_no_tls_gets_nothing_when_tls_is_asked_for(sandbox: Sandbox) -> None:
    mail = SmtpMail("127.0.0.1", sandbox.smtp_port, SENDER, security=Security.STARTTLS)
    answer = await carry_out(mail.send(message()))
    assert answer == Refused(failure=FailureClass.PERMANENT, code="tls_or_login_not_offered")
    assert messages(sandbox) == []


@pytest.mark.behaviour("threat.23")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"subject": "a\r\nBcc: x@example.test"}, "malformed_header"),
        ({"subject": "a\nb"}, "malformed_header"),
        ({"subject": "a\x00b"}, "malformed_header"),
        ({"message_id": "<a@b>\r\nX: y"}, "malformed_header"),
        ({"message_id": "no brackets"}, "malformed_header"),
        ({"recipients": ("a@example.test\r\nRCPT TO:<b@example.test>",)}, "malformed_recipient"),
        ({"recipients": ("not an address",)}, "malformed_recipient"),
        ({"recipients": ()}, "no_or_too_many_recipients"),
        ({"text": "x" * 2_000_000}, "message_too_long"),
    ],
)
def test_what_is_no_header_and_no_address_is_never_sent(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Unprepared, match=code):
        SmtpMail("127.0.0.1", 1, SENDER, security=Security.NONE).send(message(**fields))


def test_the_same_message_is_the_same_bytes() -> None:
    mail = SmtpMail("127.0.0.1", 1, SENDER, security=Security.NONE)
    one, two = [mail.send(message(date_ms=1_796_000_000_000)).request_digest for _ in range(2)]
    other = mail.send(message(date_ms=1_796_000_000_000, text="Hello!\n")).request_digest
    assert one == two != other


def test_mail_leaves_the_machine_only_protected() -> None:
    with pytest.raises(ValueError, match="starttls or tls"):
        SmtpMail("mail.example.test", 25, SENDER, security=Security.NONE)
