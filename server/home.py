"""Making a home: configuration, keys, an operator, an empty journal; ready against the sandbox.

Everything is made in a folder beside the home and renamed into place, so that a home is whole or not there, also
after a power cut. Nothing is ever overwritten. Files are for this user alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.wordpress_plugin import PLUGIN
from capabilities.errors import KeyFileError
from capabilities.identifiers import is_segment
from capabilities.jwks import KeySet, write_key_set
from capabilities.keyfile import create_private_file, sync
from capabilities.keys import generate_operator_key, generate_signing_key, next_kid, save_private_key
from execution.ports import Clock, Ids
from execution.store import meta
from execution.store.errors import StoreError
from execution.store.opening import open_store
from server.checkpoints import make_key
from server.config import CONFIG_NAME, DATABASE_NAME

UMASK: Final = 0o077
TENANT_DEFAULT: Final = "local"
SANDBOX_USER: Final = "editor1"
SANDBOX_SECRET: Final = "sandbox-editor1"  # noqa: S105 (protects nothing: the stand-in listens on loopback)
SANDBOX_TOKENS: Final = {"cloudflare": "sandbox-cloudflare", "github": "sandbox-github"}
SANDBOX_WEBHOOK: Final = "whsec_c2FuZGJveC13ZWJob29rLXNlY3JldC0wMDAx"
SANDBOX_ZONE: Final = "023e105f4ecef8ad9ca31a8372d0c353"


class HomeExists(Exception):
    """The folder holds something already; it was not touched."""


class HomeUnusable(Exception):
    """The folder cannot be made there; nothing of it was left. Carries the reason."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a home's configuration calls things."""

    tenant: str
    operator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHome:
    """What was made."""

    home: Path
    installation_id: str
    tenant: str
    operator: str
    operator_key: Path
    issuer_key: Path


def create_home(
    home: Path, *, clock: Clock, ids: Ids, tenant: str = TENANT_DEFAULT, operator: str | None = None
) -> NewHome:
    """Make a home. Raises HomeExists, or HomeUnusable when the folder cannot be made."""
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise HomeExists(str(home))
    before = os.umask(UMASK)
    try:
        return _make(home, clock, ids, Names(tenant, operator or login_name()))
    except OSError as error:
        raise HomeUnusable(error.strerror or "failed") from None
    except (KeyFileError, StoreError) as error:
        raise HomeUnusable(str(error.code)) from None
    finally:
        os.umask(before)


def _make(home: Path, clock: Clock, ids: Ids, names: Names) -> NewHome:
    unmade = [folder for folder in home.absolute().parents if not folder.exists()]
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        new = _fill(made, home, clock, ids, names)
        for path in (made, *made.rglob("*")):
            sync(path)
        made.rename(home)
        for folder in (home, *unmade):
            sync(folder.parent)
    finally:
        shutil.rmtree(made, ignore_errors=True)  # what was renamed is not there any more
    return new


def login_name() -> str:
    """The name of the person at this machine, when it is usable as an operator's name."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name.lower()
    except KeyError:
        return "operator"
    return name if is_segment(name) else "operator"


def _fill(made: Path, home: Path, clock: Clock, ids: Ids, names: Names) -> NewHome:
    tenant, operator = names.tenant, names.operator
    for folder in ("keys", "operators", "secrets", "sandbox", "tokens", "wordpress"):
        (made / folder).mkdir()
    shutil.copyfile(PLUGIN, made / "wordpress" / PLUGIN.name)
    kid = next_kid(tenant, clock.now_ms() // 1000, ())
    signing = generate_signing_key(kid)
    save_private_key(signing, made / "keys" / f"{kid}.pem")
    write_key_set(made / "keys" / "jwks.json", KeySet.of([signing.verification_key()]))
    key = generate_operator_key(operator)
    save_private_key(key, made / "operators" / f"{operator}.pem")
    create_private_file(made / "secrets" / "blog.password", f"{SANDBOX_SECRET}\n".encode())
    for system, token in SANDBOX_TOKENS.items():
        create_private_file(made / "secrets" / f"{system}.token", f"{token}\n".encode())
    create_private_file(made / "secrets" / "hook.secret", f"{SANDBOX_WEBHOOK}\n".encode())
    installation_id = ids.new("inst")
    make_key(made / "secrets" / "checkpoint.pem", made / "checkpoints" / "journal.pub", installation_id)
    text = _TEMPLATE.format(
        installation_id=installation_id,
        tenant=tenant,
        kid=kid,
        operator=operator,
        operator_key=key.public_key().encode(),
        user=SANDBOX_USER,
        zone=SANDBOX_ZONE,
        **_free_ports(),
    )
    (made / CONFIG_NAME).write_text(text, encoding="utf-8")
    _create_journal(made, installation_id, ids.new("inc"), clock.now_ms())
    return NewHome(
        home=home,
        installation_id=installation_id,
        tenant=tenant,
        operator=operator,
        operator_key=home / "operators" / f"{operator}.pem",
        issuer_key=home / "keys" / f"{kid}.pem",
    )


def _create_journal(made: Path, installation: str, incarnation: str, now_ms: int) -> None:
    async def create() -> None:
        store = open_store(made / DATABASE_NAME)
        try:
            await meta.establish(store, installation=installation, incarnation=incarnation, now_ms=now_ms)
        finally:
            await store.close()

    asyncio.run(create())


def _free_ports() -> dict[str, int]:
    """Loopback ports that are free now. The sandbox keeps its two, because addresses are part of business keys."""
    names = ("http_port", "smtp_port", "gateway_port", "metrics_port")
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in names]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return {name: probe.getsockname()[1] for name, probe in zip(names, probes, strict=True)}


_TEMPLATE: Final = """\
# Remit's configuration. As it stands everything runs against the sandbox on this machine.
# For real systems fill in the lines marked with "real:", and set [sandbox] start = false.
# Secrets are never written here: name a file of mode 0600 (…_file) or a variable (…_env).

[installation]
# This journal's identity; it is part of every marker left in other systems. Never change or copy it.
id = "{installation_id}"

[gateway]
issuer = "https://issuer.remit.invalid/{tenant}"
audience = "https://gateway.remit.invalid/{tenant}"
tenant = "{tenant}"
jwks = "keys/jwks.json"

[http]
# `remit serve --http` listens here; with enabled = true `remit serve` does too, instead of stdin and stdout.
enabled = false
host = "127.0.0.1"
port = {gateway_port}
# real: behind a front with TLS, the address that agents use and the host that the front passes on.
# public_url = "https://remit.example.org/mcp"
# allowed_hosts = ["remit.example.org"]

[metrics]
# With enabled = true `remit serve --http` answers Prometheus here, at /metrics.
enabled = false
host = "127.0.0.1"
port = {metrics_port}

[issuer]
# Who holds this file can issue tokens. real: keep it on another machine or under another user.
key_file = "keys/{kid}.pem"

[operator.{operator}]
# Public half of operators/{operator}.pem. real: keep that file where no agent's process can read it.
key = "{operator_key}"
# What this operator may do. real: where there are several people, to each their own.
roles = ["issue", "approve", "repair", "audit"]

[site.blog]
# real: address of your WordPress, a user with the role Editor, and an application password of that user.
url = "http://127.0.0.1:{http_port}"
user = "{user}"
password_file = "secrets/blog.password"
# real: "plugin" once wordpress/remit-business-key.php of this home lies in the site's wp-content/mu-plugins: the site
# then makes each post once, refuses to write over what it does not expect, and keeps meta descriptions.
key_strategy = "slug"
# real: where an article appears, for example "https://blog.example.org/{{slug}}/".
public_url = "http://127.0.0.1:{http_port}/{{slug}}/"
# In which zone people there read times, shown beside UTC:
# timezone = "Europe/Berlin"
# real: how long a request may run on that server, and who enforces it; while this is not known a lost answer always
# needs a person. For example 30 and "php-fpm request_terminate_timeout".
max_run_s = 5
max_run_source = "the sandbox ends requests after this"
# real: how long the server waits for the rest of a request, for example nginx client_body_timeout.
incomplete_s = 3
incomplete_source = "the sandbox drops incomplete requests after this"
transit_s = 1
stale_s = 0
clock_s = 0.5
pause_s = 1

[site.blog.require]
# What the validation gate insists on.
title = true

[site.blog.cloudflare]
# The cache in front of the site. real: the zone's id, a token with the permission Cache Purge for it, and no url.
zone = "{zone}"
token_file = "secrets/cloudflare.token"
url = "http://127.0.0.1:{http_port}/cloudflare"
# What it is to forget after a publication; "{{url}}" is the article's own address. real: also pages that list articles.
purge = ["{{url}}", "http://127.0.0.1:{http_port}/"]
# Whether this machine can open the public pages, to see what is served.
verify = true
# real: remove these lines.
max_run_s = 5
max_run_source = "the sandbox ends requests after this"
incomplete_s = 3
incomplete_source = "the sandbox drops incomplete requests after this"
transit_s = 1
stale_s = 0
clock_s = 0.5
pause_s = 1

[github]
# Every version is kept on a branch of its own, and only there; without this section none is.
# real: your repository, and a fine-grained token for it alone: Contents read and write, and Pull requests read and
# write where pull_request = true. Remove the line with the url.
url = "http://127.0.0.1:{http_port}/github"
owner = "remit"
repo = "archive"
token_file = "secrets/github.token"
base_branch = "main"
folder = "remit"
pull_request = false
# real: from whom the commits are.
author_name = "Remit"
author_email = "remit@remit.invalid"
# real: max_run_s = 10, max_run_source = "GitHub's documentation: Troubleshooting the REST API, Timeouts".
max_run_s = 5
max_run_source = "the sandbox ends requests after this"
# real: remove these five: what holds without them suits a service far away.
within_s = 2
transit_s = 1
stale_s = 0
clock_s = 0.5
pause_s = 1

[mail]
# real: your relay; with a login: user, password_file, tls = "starttls".
host = "127.0.0.1"
port = {smtp_port}
sender = "remit@remit.invalid"
max_run_s = 5
max_run_source = "the sandbox ends conversations after this"

[notify.team]
# Proposals name this list, never an address. real: your addresses.
recipients = ["team@remit.invalid"]

[notify.hook]
# A list can be a program instead: it gets a signed request (Standard Webhooks). real: its https address, and the secret
# "whsec_…" that it gave you, in the file.
url = "http://127.0.0.1:{http_port}/webhooks/hook"
secret_file = "secrets/hook.secret"
max_run_s = 5
max_run_source = "the sandbox ends deliveries after this"

[publications]
# A table of publications in your own database. real: url_file = "secrets/publications.url"
url = "sqlite:///{{home}}/sandbox/publications.db"

[monitoring]
# What watches published pages: a table of checks in your own database. Or kind = "healthchecks": then url is the
# service's address, and api_key_file = "secrets/monitoring.key" holds a project's read-write key.
kind = "sql"
url = "sqlite:///{{home}}/sandbox/monitoring.db"

[audit]
# What the journal calls done is compared with what is really there by `remit audit`; real: let the worker do it too.
# every_h = 24
# notify = ["team"]

[checkpoints]
# How many events the journal has and the root of a hash tree over them, signed, every few seconds: `remit verify` then
# also shows that nothing was cut off, put back or written anew. real: a file on another machine that can only grow, and
# checkpoints/journal.pub for whoever is to check.
file = "checkpoints/journal.notes"

[sandbox]
# Stand-ins for WordPress, its cache, GitHub and the mail relay; `remit serve` starts them and ends them with itself.
start = true
http_port = {http_port}
smtp_port = {smtp_port}
state = "sandbox/state.db"

[log]
# debug, info, warning or error
level = "info"
"""
