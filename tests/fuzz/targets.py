"""What strangers may send, each as a function of bytes that takes it, refuses it by its documented error, or fails.

A failure is any other exception, a broken invariant of what was taken, or time: the fuzzer's own limit for one input.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from adapters.answers import Unreadable
from adapters.answers import parse as parse_answer
from capabilities.assertion import AssertionVerifier
from capabilities.errors import CredentialError, KeyFileError, NoteError
from capabilities.jwks import parse_key_set
from capabilities.note import decode_note_key, generate_note_key, open_note, sign_note
from capabilities.token import LIFETIME_S_MAX, Capability
from execution.content import ContentRefused, render
from execution.inclusion import ProofRefused, check
from execution.moments import NotAMoment, instant
from server.errors import GatewayRefused
from server.protocol import parse_message
from tests.security.forge import ISSUER, KEY, KEYS, KID, NOW_S, claims, header, token, verifier

VERIFIER: Final = verifier()
CLIENTS: Final = AssertionVerifier(clients={KID: KEY.verification_key()}, issuer=ISSUER)
NOTE_KEY: Final = generate_note_key("fuzz.example/journal")
NOTE: Final = sign_note(NOTE_KEY, "fuzz.example/journal\n0\n" + base64.b64encode(bytes(32)).decode() + "\ntime 1\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """run: takes any bytes. seeds: where the fuzzer starts. bytes_max: longer inputs teach nothing new."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    bytes_max: int = 4_096


def _presented(raw: str) -> None:
    with suppress(CredentialError):
        _lawful(VERIFIER.verify(raw, NOW_S))


def _lawful(capability: Capability) -> None:
    said = capability.claims
    assert 0 < said.exp - said.iat <= LIFETIME_S_MAX
    assert said.details
    again = VERIFIER.verify(token(said.encode()), NOW_S)
    assert again.claims == said, "what was taken is not what would be issued"


def _token(data: bytes) -> None:
    _presented(data.decode("latin-1"))


def _claims(data: bytes) -> None:
    """Signed by our own key, so that everything behind the signature is reached."""
    _presented(token(data))


def _header(data: bytes) -> None:
    _presented(token(claims(), data))


def _assertion(data: bytes) -> None:
    """What a client signs, properly signed."""
    with suppress(CredentialError):
        assert CLIENTS.verify(token(data, {"alg": "EdDSA"}), NOW_S).client_id == KID


def _key_set(data: bytes) -> None:
    with suppress(KeyFileError):
        assert parse_key_set(data, path="keys.json").kids


def _message(data: bytes) -> None:
    with suppress(GatewayRefused):
        parse_message(data)


def _answer(data: bytes) -> None:
    with suppress(Unreadable):
        parse_answer(data)


def _moment(data: bytes) -> None:
    with suppress(NotAMoment):
        assert instant(data.decode("utf-8", "replace")).tzinfo is not None


def _article(data: bytes) -> None:
    with suppress(ContentRefused):
        html = render(data, "markdown").html
        assert "<script" not in html.lower()


def _note(data: bytes) -> None:
    with suppress(NoteError):
        assert open_note(NOTE_KEY.public_key(), data.decode("latin-1"))
    with suppress(NoteError):
        decode_note_key(data.decode("latin-1"))


def _proof(data: bytes) -> None:
    with suppress(ProofRefused, NoteError):
        check(data, NOTE_KEY.public_key())


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


_ASSERTION: Final = {"iss": KID, "sub": KID, "aud": ISSUER, "iat": NOW_S, "exp": NOW_S + 60, "jti": "a"}
_EVENT: Final = {
    "command_id": "cmd_1",
    "seq": 1,
    "type": "received",
    "actor": "remit",
    "at_ms": 1,
    "body": "{}",
    "prev_hash": "0" * 64,
    "hash": "0" * 64,
}
_CALL: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "propose_publish", "arguments": {"site": "blog", "title": "Tea", "content": "# Tea"}},
}

TARGETS: Final[dict[str, Target]] = {
    "token": Target(run=_token, seeds=(token().encode(),)),
    "claims": Target(run=_claims, seeds=(_json(claims()),)),
    "header": Target(run=_header, seeds=(_json(header()), _json(header(alg="ES256"))), bytes_max=400),
    "assertion": Target(run=_assertion, seeds=(_json(_ASSERTION),), bytes_max=1_000),
    "key set": Target(run=_key_set, seeds=(KEYS.encode(),)),
    "message": Target(run=_message, seeds=(_json(_CALL), _json({"jsonrpc": "2.0", "method": "ping", "id": "a"}))),
    "answer": Target(run=_answer, seeds=(b'[{"id": 1, "title": {"raw": "Tea"}, "x": 1.5}]',)),
    "moment": Target(run=_moment, seeds=(b"2027-03-28T09:00:00[Europe/Berlin]", b"2027-03-28T09:00:00+02:00")),
    "article": Target(run=_article, seeds=(b"# Tea\n\n<script>x</script> **b** [l](javascript:x)\n\n|a|\n|-|\n",)),
    "note": Target(run=_note, seeds=(NOTE.encode(),)),
    "proof": Target(
        run=_proof,
        seeds=(
            _json(
                {
                    "format": "remit-inclusion-v1",
                    "checkpoint": NOTE,
                    "events": [{"index": 0, "event": _EVENT, "proof": [base64.b64encode(bytes(32)).decode()]}],
                }
            ),
        ),
    ),
}
