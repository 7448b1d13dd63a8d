"""Real services for tests: a WordPress behind a front with known limits, an SMTP server. Fixtures: `tests/conftest.py`.

One WordPress serves all processes of a test run (`tests/testbeds/keeper.py`). What a test asserts about it is read from
the SQL database with MariaDB's own client, never through the code under test.
"""

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from email.policy import default as default_policy
from pathlib import Path
from typing import Any, Final

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from adapters.wordpress_plugin import PLUGIN

TESTBEDS: Final = Path(__file__).parent / "testbeds"
START_MAX_S: Final = 90.0
SQL_MAX_S: Final = 10.0
REST_MAX_S: Final = 15.0
INCOMPLETE_S: Final = 3  # H: the front drops a request that is not complete after this
RUN_S: Final = 5  # M: a request is killed after this (allow one second more)
POLL_S: Final = 0.05
SLUG_SUFFIX: Final = r"(-\d+)?(__trashed(-\d+)?)?"  # what WordPress appends for duplicates and in the trash
SYSTEM_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PROGRAMS: Final = ("mariadbd", "mariadb", "mariadb-install-db", "nginx", "php8.2", "php-fpm8.2", "curl")
DB_OWNER: Final = pwd.getpwuid(os.geteuid()).pw_name  # the account that the database lets in by its socket
WORDPRESS_SOURCE: Final = Path("/usr/share/wordpress/wp-load.php")


THEME: Final = """\
<!doctype html><title><?php wp_title(); ?></title><?php wp_head(); ?>
<?php while (have_posts()) { the_post(); the_title('<h1>', '</h1>'); the_content(); }
"""


class ServiceDidNotStart(RuntimeError):
    """The test bed's own scripts failed; their output is in the message."""


def missing_services() -> tuple[str, ...]:
    """What `make services` would install: names of absent programs, empty when all is there."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=SYSTEM_PATH) is None]
    return (*absent, *(() if WORDPRESS_SOURCE.exists() else ("wordpress",)))


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    role: str
    login: str
    application_password: str

    @property
    def authorization(self) -> str:
        return "Basic " + base64.b64encode(f"{self.login}:{self.application_password}".encode()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRow:
    """A row of `wp_posts` as the database has it."""

    post_id: int
    status: str
    slug: str
    title: str
    content: str
    author: str
    modified_gmt: str
    date_gmt: str

    @classmethod
    def read(cls, columns: list[str]) -> "PostRow":
        post_id, status, slug, title, content, author, modified_gmt, date_gmt = columns
        return cls(
            post_id=int(post_id),
            status=status,
            slug=_unhex(slug),
            title=_unhex(title),
            content=_unhex(content),
            author=author,
            modified_gmt=modified_gmt,
            date_gmt=date_gmt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    """An image as database and disk have it. sha256: of the file as it was uploaded, empty when there is none."""

    media_id: int
    slug: str
    sha256: str
    alt: str
    processed: bool

    @classmethod
    def read(cls, columns: list[str], uploads: Path) -> "ImageRow":
        media_id, slug, file, alt, processed = columns
        path = uploads / _unhex(file)
        stored = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest()
        return cls(
            media_id=int(media_id), slug=_unhex(slug), sha256=stored or "", alt=_unhex(alt), processed=processed == "1"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPress:
    """A running site. `incomplete_s` and `run_s` are H and M: a request lands within H + M + 1 s or never."""

    url: str
    incomplete_s: int
    run_s: int
    users: Mapping[str, User]  # by role: administrator, editor, author, contributor, subscriber
    db_socket: Path
    directory: Path

    def sql(self, statement: str) -> list[list[str]]:
        """Rows as MariaDB's command line prints them: text, in batch mode's escaping."""
        command = [
            "mariadb",
            "--no-defaults",
            f"--user={DB_OWNER}",
            f"--socket={self.db_socket}",
            "--batch",
            "--skip-column-names",
        ]
        command += ["--default-character-set=utf8mb4", f"--execute={statement}", "wp"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SQL_MAX_S)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def posts(self, slug: str | None = None) -> tuple[PostRow, ...]:
        """Posts by id, without revisions and auto-drafts; of one slug: with its `-2` duplicates and trashed ones."""
        rows = self.sql(
            "SELECT p.ID, post_status, HEX(post_name), HEX(post_title), HEX(post_content), user_login,"
            " post_modified_gmt, post_date_gmt FROM wp_posts p LEFT JOIN wp_users u ON u.ID = p.post_author"
            " WHERE post_type = 'post' AND post_status NOT IN ('auto-draft', 'inherit') ORDER BY p.ID"
        )
        found = tuple(PostRow.read(row) for row in rows)
        if slug is None:
            return found
        same = re.compile(re.escape(slug) + SLUG_SUFFIX)
        return tuple(post for post in found if same.fullmatch(post.slug))

    def count_posts(self, slug: str | None = None, *, status: str | None = None) -> int:
        return sum(1 for post in self.posts(slug) if status is None or post.status == status)

    def images(self, name: str = "remit-") -> tuple[ImageRow, ...]:
        """Images of the library whose slug begins so, by id, with what lies in their files."""
        rows = self.sql(
            "SELECT p.ID, HEX(post_name), HEX(IFNULL(file.meta_value, '')), HEX(IFNULL(alt.meta_value, '')),"
            " data.meta_value IS NOT NULL FROM wp_posts p"
            " LEFT JOIN wp_postmeta file ON file.post_id = p.ID AND file.meta_key = '_wp_attached_file'"
            " LEFT JOIN wp_postmeta alt ON alt.post_id = p.ID AND alt.meta_key = '_wp_attachment_image_alt'"
            " LEFT JOIN wp_postmeta data ON data.post_id = p.ID AND data.meta_key = '_wp_attachment_metadata'"
            f" WHERE post_type = 'attachment' AND post_name LIKE '{name}%' ORDER BY p.ID"
        )
        return tuple(ImageRow.read(row, self.directory / "site/wp-content/uploads") for row in rows)

    def featured_image(self, post_id: int) -> int:
        """Id of the image that the post shows, 0 for none."""
        found = self.sql(f"SELECT meta_value FROM wp_postmeta WHERE post_id = {post_id} AND meta_key = '_thumbnail_id'")
        return int(found[0][0]) if found else 0

    def rest(self, method: str, path: str, body: object = None, *, role: str = "administrator") -> Answer:
        """One REST call by the standard library, as a person's client would make it; `path` is below /wp-json."""
        request = urllib.request.Request(f"{self.url}/wp-json{path}", method=method)
        request.add_header("Authorization", self.users[role].authorization)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=REST_MAX_S) as response:
                return Answer(status=response.status, body=json.load(response))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(status=error.code, body=json.load(error))

    def edit_as_human(self, post_id: int, *, role: str = "editor", **fields: object) -> Answer:
        """What a person would do in the editor: change `fields` (title, content, status, slug …) of one post."""
        answer = self.rest("POST", f"/wp/v2/posts/{post_id}", fields, role=role)
        assert answer.status == 200, answer
        return answer

    def arm_next_write(self, *, before_s: float = 0.0, after_s: float = 0.0, die: str = "") -> None:
        """The next REST write of a post or an image sleeps before or after its row is written, or its process ends
        right after that row: by `exit` (200 and nothing), a `fatal` error (500) or a `kill` (no answer). Once."""
        armed = self.directory / "site/wp-content/uploads/next-write.json"
        fresh = armed.with_suffix(".new")
        fresh.write_text(json.dumps({"before_s": before_s, "after_s": after_s, "die": die}))
        fresh.rename(armed)

    def with_theme(self) -> None:
        """The distribution's WordPress comes without a theme, and shows readers nothing: it gets the plainest one."""
        ((name,),) = self.sql("SELECT option_value FROM wp_options WHERE option_name = 'template'")
        theme = self.directory / "site/wp-content/themes" / name
        theme.mkdir(parents=True, exist_ok=True)
        (theme / "style.css").write_text("/* Theme Name: Plain */")
        (theme / "index.php").write_text(THEME)

    @contextlib.contextmanager
    def on_the_clock_of(self, zone: str) -> Iterator[None]:
        """While it lasts, the site's clock is that zone's."""
        option = "UPDATE wp_options SET option_value = '{}' WHERE option_name = 'timezone_string'"
        self.sql(option.format(zone))
        try:
            yield
        finally:
            self.sql(option.format("UTC"))

    @contextlib.contextmanager
    def key_plugin(self) -> Iterator[None]:
        """While it lasts, the site has the must-use plugin that holds a business key per post."""
        target = self.directory / "site/wp-content/mu-plugins" / PLUGIN.name
        shutil.copyfile(PLUGIN, target)
        try:
            yield
        finally:
            target.unlink()


def _unhex(text: str) -> str:
    return bytes.fromhex(text).decode()


@contextlib.contextmanager
def wordpress_for_run(run_id: str) -> Iterator[WordPress]:
    """The site that all processes of the test run `run_id` share: started by the first, stopped after the last.

    Raises ServiceDidNotStart with the scripts' output.
    """
    place = Path(tempfile.gettempdir()) / f"remit-wordpress-{run_id}"
    with place.with_suffix(".users").open("w") as users, place.with_suffix(".start").open("w") as start:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(start, fcntl.LOCK_EX)  # one starts, the others wait here
        pointer = place.with_suffix(".dir")
        if not _is_up(pointer):
            _start(pointer, Path(users.name))
        fcntl.flock(start, fcntl.LOCK_UN)
        yield _read(Path(pointer.read_text()))


def _is_up(pointer: Path) -> bool:
    return pointer.exists() and (Path(pointer.read_text()) / "env").exists()


def _start(pointer: Path, users: Path) -> None:
    directory = Path(tempfile.mkdtemp(prefix="remit-wordpress-"))
    directory.chmod(0o755)  # the users mysql and www-data must get in
    log = directory / "keeper.out"
    with log.open("w") as output:
        keeper = subprocess.Popen(
            [sys.executable, TESTBEDS / "keeper.py", directory, users, str(INCOMPLETE_S), str(RUN_S)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C in the terminal must not reach it
            env={**os.environ, "PATH": SYSTEM_PATH},
        )
    with log.open() as written:
        wait_until(lambda: (directory / "env").exists() or keeper.poll() is not None, timeout_s=START_MAX_S)
        if keeper.returncode is not None:
            raise ServiceDidNotStart(written.read())
    pointer.write_text(str(directory))
    keeper.returncode = 0  # it outlives us on purpose: nobody waits for it here


def _read(directory: Path) -> WordPress:
    values = dict(line.split("=", 1) for line in (directory / "env").read_text().splitlines())
    users = {}
    for role in ("administrator", "editor", "author", "contributor", "subscriber"):
        login, password = values[role].split(":", 1)
        users[role] = User(role=role, login=login, application_password=password)
    return WordPress(
        url=values["URL"],
        incomplete_s=int(values["H_S"]),
        run_s=int(values["M_S"]),
        users=users,
        db_socket=Path(values["DB_SOCKET"]),
        directory=directory,
    )


class Mailbox:
    """What a real SMTP server on loopback has accepted, in order."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._messages: list[Message] = []
        self.refused: set[str] = set()  # recipients answered with 550
        self.host = "127.0.0.1"
        self.port = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        with self._arrived:
            return tuple(self._messages)

    def wait_for(self, count: int, *, timeout_s: float = 10.0) -> tuple[Message, ...]:
        """At least `count` messages; raises AssertionError when they do not arrive in time."""
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: len(self._messages) >= count, timeout_s)
            assert arrived, f"{len(self._messages)} of {count} messages after {timeout_s} s"
            return tuple(self._messages)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return "550 5.1.1 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        message = BytesParser(policy=default_policy).parsebytes(envelope.content)
        with self._arrived:
            self._messages.append(message)
            self._arrived.notify_all()
        return "250 OK"


@contextlib.contextmanager
def smtp_server() -> Iterator[Mailbox]:
    """A real SMTP server on a free port of loopback."""
    mailbox = Mailbox()
    mailbox.port = free_port()
    controller = Controller(mailbox, hostname=mailbox.host, port=mailbox.port)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> None:
    """Returns as soon as `condition` holds; raises AssertionError when it does not in time. Instead of a sleep."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(POLL_S)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
