"""The SMTP test bed is a real server: what it holds arrived over a socket."""

import smtplib
from email.message import EmailMessage

import pytest

from tests.services import Mailbox


def letter(recipient: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "remit@example.test", recipient, "published"
    message.set_content("It is live.")
    return message


def test_a_message_sent_over_the_socket_is_in_the_mailbox(smtp: Mailbox) -> None:
    with smtplib.SMTP(smtp.host, smtp.port, timeout=5) as client:
        client.send_message(letter("a@example.test"))
    (message,) = smtp.wait_for(1)
    assert message["Subject"] == "published"


def test_a_refused_recipient_gets_no_message(smtp: Mailbox) -> None:
    smtp.refused.add("gone@example.test")
    with smtplib.SMTP(smtp.host, smtp.port, timeout=5) as client, pytest.raises(smtplib.SMTPRecipientsRefused):
        client.send_message(letter("gone@example.test"))
    assert smtp.messages == ()
