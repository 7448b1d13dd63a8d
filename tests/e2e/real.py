"""Remit against a real WordPress, a real SMTP server and a customer's SQL table: homes, worker processes, evidence.

Everything goes through processes, files and sockets, as in `tests.e2e.world`. What a test asserts about the site is
read from the site's own database or as an anonymous reader, never through the code under test.
"""

import contextlib
import hashlib
import secrets
import signal
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from adapters.database import SqlPublications
from tests.e2e.world import COMMAND_MAX_S, REMIT, Home, environment
from tests.services import Mailbox, PostRow, WordPress, wait_until

UP_MAX_S: Final = 60.0
TAKEN_MAX_S: Final = 60.0
PAGE_MAX_S: Final = 15.0
GRANULARITY_S: Final = 1.0  # how late php-fpm notices that a request has run too long
TRANSIT_S: Final = 0.2
PAUSE_S: Final = 0.2
CLOCK_S: Final = 0.3
REAL_PARTS: Final = """\
[mail]
host = "{mail_host}"
port = {mail_port}
sender = "remit@remit.invalid"
max_run_s = 5
max_run_source = "the relay ends conversations after this"

[notify.team]
recipients = ["team@remit.invalid"]

[publications]
url_file = "secrets/publications.url"

[engine]
lease_s = 3.0
renew_s = 1.0
sweep_s = 0.2
"""
REAL_SITE: Final = """\
[site.{name}]
url = "{url}"
user = "{user}"
password_file = "secrets/site.password"
public_url = "{url}/{{slug}}/"
max_run_s = {max_run_s}
key_strategy = "{key_strategy}"
max_run_source = "php-fpm request_terminate_timeout"
incomplete_s = {incomplete_s}
incomplete_source = "nginx client_body_timeout"
transit_s = {transit_s}
pause_s = {pause_s}
stale_s = 0
clock_s = {clock_s}
"""


def quiescence_s(site: WordPress) -> float:
    """H + M + granularity + S + J: earlier than this after a fence nothing that is in doubt may be sent again."""
    return site.incomplete_s + site.run_s + GRANULARITY_S + CLOCK_S


@dataclass(frozen=True, slots=True)
class RealHome(Home):
    """A home made by `remit init` whose lines marked "real:" are filled in. `holder`: whose token file is used."""

    holder: str = "writer"

    @property
    def token(self) -> Path:
        return self.path / "tokens" / self.holder

    @property
    def customer_database(self) -> Path:
        return self.path.parent / "customer.db"

    def publications(self) -> list[dict[str, Any]]:
        """The customer's table, oldest version first."""
        with contextlib.closing(sqlite3.connect(self.customer_database)) as database:
            database.row_factory = sqlite3.Row
            rows = database.execute("SELECT * FROM remit_publications ORDER BY article_id, version").fetchall()
        return [dict(row) for row in rows]

    def fences(self, command_id: str, step: str) -> list[int]:
        """When the step's attempts were committed (Unix ms), from the journal."""
        known = [event for event in self.events(command_id) if event["step"] == step]
        return [event["at_ms"] for event in known if event["type"] == "FENCED"]

    def events(self, command_id: str) -> list[dict[str, Any]]:
        """The journal of a command and its steps."""
        written: list[dict[str, Any]] = self.remit("journal", command_id).document["events"]
        return written

    def approve_by_hash(self, command_id: str, content_hash: str) -> None:
        """A person says yes to what the status names, with the operator's key."""
        with self.approving(command_id, content_hash):
            pass

    @contextlib.contextmanager
    def approving(self, command_id: str, content_hash: str) -> Iterator[None]:
        """The same; an approval is in force before its process ends, and the block runs meanwhile."""
        words = [*REMIT, "approve", command_id, "--hash", content_hash, "--operator-key", str(self.operator_key)]
        with subprocess.Popen(
            [*words, "--home", str(self.path), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment(),
        ) as process:
            yield
            said, _ = process.communicate(timeout=COMMAND_MAX_S)
        assert process.returncode == 0, said.decode()


def real_home(
    folder: Path,
    site: WordPress,
    mailbox: Mailbox,
    urls: Mapping[str, str] | None = None,
    *,
    key_strategy: str = "slug",
) -> RealHome:
    """A home for the real site; `urls` names several roads to it (a proxy each) as sites of their own."""
    home = RealHome(folder / "home")
    made = home.remit("init", "--operator", "olivia")
    assert made.code == 0, made.stdout
    config = home.path / "remit.toml"
    kept = config.read_text().partition("[site.blog]")[0]
    editor = site.users["editor"]
    sites = [
        REAL_SITE.format(
            name=name,
            url=url,
            user=editor.login,
            key_strategy=key_strategy,
            max_run_s=site.run_s + GRANULARITY_S,
            incomplete_s=site.incomplete_s,
            transit_s=TRANSIT_S,
            pause_s=PAUSE_S,
            clock_s=CLOCK_S,
        )
        for name, url in (urls or {"blog": site.url}).items()
    ]
    parts = REAL_PARTS.format(mail_host=mailbox.host, mail_port=mailbox.port)
    config.write_text("\n".join([kept, *sites, parts]))
    customer = f"sqlite:///{home.customer_database}"
    SqlPublications(customer).create_table()
    site.with_theme()
    for name, secret in (("site.password", editor.application_password), ("publications.url", customer)):
        file = home.path / "secrets" / name
        file.touch(mode=0o600)
        file.write_text(secret + "\n")
    return home


class WorkerProcess:
    """`remit worker`, a process of its own that is killed and started again."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._log = home.path.parent / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "WorkerProcess":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if kind is not None:
            print(self.log)

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def start(self) -> None:
        assert self._process is None
        before = self.log.count("worker is up")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*REMIT, "worker", "--home", str(self._home.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
            )
        wait_until(lambda: self._has_ended or self.log.count("worker is up") > before, timeout_s=UP_MAX_S)
        assert not self._has_ended, self.log

    @property
    def _has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL: no handler, no goodbye."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=10)

    def kill_after(self, seconds: float) -> None:
        """At an instant that nothing in the program chose."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        assert not self._has_ended, self.log
        self.kill()

    def restart(self) -> None:
        self.kill()
        self.start()


@contextlib.contextmanager
def working(home: Home) -> Iterator[WorkerProcess]:
    with WorkerProcess(home) as worker:
        yield worker


def fresh_name() -> str:
    """Tells the posts of one test from those of every other."""
    return f"real{secrets.token_hex(4)}"


def rows_of(site: WordPress, name: str) -> tuple[PostRow, ...]:
    """Every post of the site whose title has that name, trash included."""
    return tuple(row for row in site.posts() if name in row.title)


def statuses_of(site: WordPress, name: str) -> list[str]:
    return sorted(row.status for row in rows_of(site, name))


def mails_of(mailbox: Mailbox, name: str) -> int:
    return sum(1 for message in mailbox.messages if name in str(message["Subject"]))


def page(url: str) -> tuple[int, str]:
    """What an anonymous reader gets."""
    try:
        with urllib.request.urlopen(url, timeout=PAGE_MAX_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def wait_until_taken(site: WordPress) -> None:
    """The armed write has reached the site and is being executed there."""
    armed = site.directory / "site/wp-content/uploads/next-write.json"
    wait_until(lambda: not armed.exists(), timeout_s=TAKEN_MAX_S)
