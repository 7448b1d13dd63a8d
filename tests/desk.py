"""The operators' desk: `remit` commands run in this process, on a home that a test made.

What is printed and how it ends is the same as of a process of its own; only the interpreter's start is saved. In a test
with a running event loop a command runs in a thread, because it has a loop of its own.
"""

import asyncio
import contextlib
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capabilities.jwks import KeySet, write_key_set
from capabilities.keys import generate_signing_key, save_private_key
from server.cli.main import run
from tests.operators import key_of

OPERATOR = "olivia"


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> Any:
        """Code of what a command refused with."""
        return self.document["error"]["code"]


@dataclass(frozen=True, slots=True)
class Desk:
    """A home, and what is done to it."""

    home: Path

    def remit(self, *words: str, as_json: bool = True) -> Finished:
        arguments = [*words, "--home", str(self.home), *(["--json"] if as_json else [])]
        with _captured() as (out, err):
            code = run(arguments)
            out.flush()
            err.flush()
            return Finished(int(code), _text(out), _text(err))

    def checks(self, proof: Path, key: Path) -> Finished:
        """What somebody without a home makes of a proof."""
        with _captured() as (out, err):
            code = run(["checkpoint", "check", str(proof), "--key", str(key), "--json"])
            out.flush()
            err.flush()
            return Finished(int(code), _text(out), _text(err))

    async def asks(self, *words: str, as_json: bool = True) -> Finished:
        """The same from a test that has a running loop."""
        return await asyncio.to_thread(self.remit, *words, as_json=as_json)

    @property
    def settings(self) -> Path:
        return self.home / "remit.toml"

    def staffed(self, name: str) -> str:
        """The public half of that operator's key, which lies in this home from now on."""
        key, path = key_of(name), self.home / "operators" / f"{name}.pem"
        if not path.exists():
            save_private_key(key, path)
        return key.public_key().encode()

    def rewrite(self, before: str, after: str) -> None:
        """Change the configuration."""
        text = self.settings.read_text()
        assert before in text
        self.settings.write_text(text.replace(before, after))


def furnish(home: Path, *, installation: str, url: str, smtp_port: int, user: str = "editor1") -> Desk:
    """Configuration, keys and an operator for a journal and stand-ins that exist already."""
    for folder in ("keys", "operators", "secrets", "tokens"):
        (home / folder).mkdir(mode=0o700)
    signing, key = generate_signing_key("acme-cap-2026-11-a"), key_of(OPERATOR)
    save_private_key(signing, home / "keys" / f"{signing.kid}.pem")
    write_key_set(home / "keys" / "jwks.json", KeySet.of([signing.verification_key()]))
    save_private_key(key, home / "operators" / f"{OPERATOR}.pem")
    password = home / "secrets" / "blog.password"
    password.touch(mode=0o600)
    password.write_text(f"sandbox-{user}\n")
    settings = home / "remit.toml"
    settings.touch(mode=0o600)
    settings.write_text(
        _SETTINGS.format(
            installation=installation,
            url=url,
            smtp_port=smtp_port,
            user=user,
            kid=signing.kid,
            operator=OPERATOR,
            key=key.public_key().encode(),
            home=home,
        )
    )
    home.chmod(0o700)
    return Desk(home)


_SETTINGS = """\
[installation]
id = "{installation}"
[gateway]
issuer = "https://issuer.example"
audience = "https://gateway.example"
tenant = "acme"
[issuer]
key_file = "keys/{kid}.pem"
[operator.{operator}]
key = "{key}"
[site.blog]
url = "{url}"
user = "{user}"
password_file = "secrets/blog.password"
public_url = "{url}/{{slug}}/"
max_run_s = 5
max_run_source = "the stand-in"
[site.shop]
url = "{url}"
user = "{user}"
password_file = "secrets/blog.password"
[publications]
url = "sqlite:///{home}/publications.db"
[mail]
host = "127.0.0.1"
port = {smtp_port}
sender = "remit@remit.invalid"
[notify.team]
recipients = ["team@remit.invalid"]
[notify.board]
recipients = ["board@remit.invalid"]
"""


@contextlib.contextmanager
def _captured() -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    """Both streams, and logging as it was before: a command sets it up for its own process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _text(stream: io.TextIOWrapper) -> str:
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()
