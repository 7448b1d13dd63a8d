"""A support bundle: everything about one command that helps somebody else to understand it, and nothing that is secret.

What goes in is chosen, not filtered: credentials are never read into it, configuration is told by reference, content
and what people wrote into the proposal stay out unless they are asked for. As a second line every text passes a filter
for tokens and for every secret that the configuration names, because a secret may have been pasted where nobody meant
it to be (a reason, an address).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from capabilities.credential import redact
from execution.core.command import Approval, Command, Saga
from execution.core.events import Event
from execution.proposal import CommandView
from execution.store import artifacts, authority
from execution.store.authority import Grant, Restriction
from execution.store.condition import SQLITE_VERSION
from execution.store.connection import Connection
from server.app import Installation
from server.config import Config, ConfigError, Secret
from server.doctor import examine
from server.results import full, moment
from server.telemetry import HIDDEN, SECRET_CHARS_MIN

ROOT: Final = "remit-bundle"
FILE_MODE: Final = 0o600
LEFT_OUT: Final = "[left out: --with-content]"
PACKAGES: Final = ("mcp", "pydantic", "sqlalchemy", "httpx", "aiosmtplib", "pyjwt", "cryptography")
_TELLING: Final = frozenset(
    {
        "article_id",
        "baseline",
        "command_id",
        "content_bytes",
        "content_format",
        "content_sha256",
        "difference",
        "hidden",
        "plan_hash",
        "policy_hash",
        "policy_version",
        "proposal_hash",
        "publish_at",
        "removed",
        "request_digest",
        "site",
        "target",
        "version",
    }
)
"""What an approver was shown that is no content: hashes, places, times."""
_PASSWORD_IN_URL: Final = re.compile(r"(://[^/@:\s]*:)[^/@\s]*(@)")


class BundleExists(Exception):
    """Nothing is ever overwritten."""


async def write_bundle(at: Installation, view: CommandView, why: str, file: Path, *, with_content: bool) -> list[str]:
    """Make the archive (tar, gzip); the names in it. Raises BundleExists, or OSError when it cannot be written."""
    saga, events = await at.status.saga(view.command_id), await at.status.journal(view.command_id)
    assert saga is not None, "the command was found just now"
    clean = cleaner(at.config)

    def read(conn: Connection) -> tuple[Grant | None, tuple[Restriction, ...]]:
        return authority.find_grant(conn, view.command_id), authority.restrictions(conn)

    grant, restrictions = await at.store.read(read)
    report = await examine(at.config.home, offline=True)
    documents: dict[str, Any] = {
        "manifest.json": manifest(at, view, with_content=with_content),
        "status.json": full(view).model_dump(mode="json", exclude_none=True),
        "journal.json": [_event(event, saga) for event in events],
        "registry.json": [_row(row, with_content=with_content) for row in (saga.root, *saga.members)],
        "attempts.json": [asdict(attempt) for attempt in saga.attempts],
        "approvals.json": [_approval(approval, with_content=with_content) for approval in saga.approvals],
        "reviews.json": [asdict(review) for review in saga.reviews],
        "grant.json": None if grant is None else asdict(grant),
        "restrictions.json": [asdict(restriction) for restriction in restrictions],
        "configuration.json": configuration(at.config),
        "doctor.json": report.document(),
    }
    files = {name: clean(_text(document)).encode() for name, document in documents.items()}
    files["why.txt"] = clean(why + "\n").encode()
    if with_content:
        files |= await _contents(at, saga)
    _write(file, files, at.clock.now_ms() // 1000)
    return sorted(files)


def manifest(at: Installation, view: CommandView, *, with_content: bool) -> dict[str, Any]:
    """What it is about, made when, with which versions."""
    return {
        "command_id": view.command_id,
        "made_at": moment(at.clock.now_ms()),
        "with_content": with_content,
        "installation": at.identity.installation,
        "incarnation": at.identity.incarnation,
        "versions": {
            "remit": metadata.version("remit"),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "sqlite": SQLITE_VERSION,
            **{name: metadata.version(name) for name in PACKAGES},
        },
    }


def configuration(config: Config) -> dict[str, Any]:
    """As it is in force. Secrets stand in it by reference only; addresses of people are counted."""
    document: dict[str, Any] = config.settings.model_dump(mode="json")
    for section in document["notify"].values():
        section["recipients"] = f"{len(section['recipients'])} addresses"
    return document


def cleaner(config: Config) -> Callable[[str], str]:
    """Takes tokens, passwords in addresses, and every secret that this user could read out of a text."""
    secrets = sorted({s.value for s in _known(config) if len(s.value) >= SECRET_CHARS_MIN}, key=len, reverse=True)
    forms = [form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])]

    def clean(text: str) -> str:
        for form in forms:
            text = text.replace(form, HIDDEN)
        return redact(_PASSWORD_IN_URL.sub(rf"\1{HIDDEN}\2", text))

    return clean


def _known(config: Config) -> list[Secret]:
    """Each secret of the configuration, as far as this user can read it."""
    found: list[Secret] = []
    for read in config.secret_readers():
        try:
            secret = read()
        except ConfigError:
            continue
        found += [secret] if secret is not None else []
    return found


def _event(event: Event, saga: Saga) -> dict[str, Any]:
    step = saga.member(event.command_id).command_type
    return {**asdict(event), "type": event.type.value, "body": json.loads(event.body), "step": step}


def _row(row: Command, *, with_content: bool) -> dict[str, Any]:
    document = asdict(row)
    if not with_content and row.params:
        document["params"] = f"{LEFT_OUT} sha256:{hashlib.sha256(row.params.encode()).hexdigest()}"
    return document


def _approval(approval: Approval, *, with_content: bool) -> dict[str, Any]:
    subject: Mapping[str, Any] = json.loads(approval.subject)
    told = {name: value if with_content or name in _TELLING else LEFT_OUT for name, value in subject.items()}
    return {**asdict(approval), "subject": told}


async def _contents(at: Installation, saga: Saga) -> dict[str, bytes]:
    """The bytes that the plan names, as far as they were not erased."""
    plan = json.loads(saga.root.params)["plan"]
    digests = sorted({str(value) for name, value in plan.items() if name.endswith("_sha256") and value})
    found: dict[str, bytes] = {}
    for digest in digests:
        stored = await at.store.read(lambda conn, digest=digest: artifacts.get(conn, digest))  # type: ignore[misc]  # a default argument binds the loop's value
        if stored is not None and stored.content is not None:
            found[f"content/{digest}"] = stored.content
    return found


def _text(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=True, default=str) + "\n"


def _write(file: Path, files: Mapping[str, bytes], now_s: int) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{ROOT}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), FILE_MODE, now_s
            archive.addfile(entry, io.BytesIO(content))
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        raise BundleExists(str(file)) from None
    with os.fdopen(descriptor, "wb") as out:
        out.write(packed.getvalue())
