"""What a well-formed configuration can still have wrong: rules between its parts. Pure; `server.config` tells people.

Only what concerns every process is checked here. What an adapter alone knows (a secret's form, a reachable address) is
refused where the adapter is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from capabilities.identifiers import is_segment
from execution.moments import NotAMoment, zone_named
from execution.sagas.purging import BATCHES_MAX, LIVE, batches_at_most, is_entry
from server.settings import LOOPBACK, CloudflareSection, HttpSection, ListenerSection, NotifyList, Settings, Timed

_PASSWORD_IN_URL: Final = re.compile(r"://[^/@:\s]*:[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `where` is the key, `fix` what to do."""

    where: str
    problem: str
    fix: str


def problems(settings: Settings) -> Iterator[Problem]:
    """Everything wrong, the most general first."""
    yield from _names(settings)
    for name, site in settings.site.items():
        if site.timezone:
            yield from _zone(site.timezone, f"site.{name}.timezone")
    if settings.engine.time_scale != 1.0 and not settings.sandbox.start:
        fix = "Remove time_scale, or set [sandbox] start = true: it is for demonstrations only."
        yield Problem("engine.time_scale", "real systems cannot be hurried", fix)
    if settings.engine.renew_s >= settings.engine.lease_s:
        yield Problem("engine.renew_s", "a lease must outlast its renewal", "Set it to a third of lease_s.")
    for name, site in settings.site.items():
        if site.public_url and "{slug}" not in site.public_url:
            fix = "Write {slug} where an article's own part stands, or leave public_url out."
            yield Problem(f"site.{name}.public_url", "every article would have the same address", fix)
    yield from _http(settings.http)
    yield from _listener(settings.metrics, "metrics")
    if settings.token_endpoint.enabled:
        yield from _token_endpoint(settings)
    for name, site in settings.site.items():
        if site.cloudflare is not None:
            yield from _purge(site.cloudflare, f"site.{name}.cloudflare")
    for name, found in settings.notify.items():
        yield from _list(found, f"notify.{name}")
    yield from _audit(settings)
    yield from _passwords(settings)
    for where, timed in _timed(settings):
        yield from _limits(timed, where)


def _names(settings: Settings) -> Iterator[Problem]:
    named = [("gateway.tenant", settings.gateway.tenant)]
    named += [(f"site.{name}", name) for name in settings.site]
    named += [(f"notify.{name}", name) for name in settings.notify]
    named += [(f"operator.{name}", name) for name in settings.operator]
    named += [(f"client.{name}", name) for name in settings.client]
    fix = "Use 1 to 64 characters out of a-z, 0-9, '.', '_' and '-', the first a letter or digit."
    yield from (Problem(where, "not a usable name", fix) for where, name in named if not is_segment(name))


def _audit(settings: Settings) -> Iterator[Problem]:
    lists = ", ".join(sorted(settings.notify)) or "(none is configured)"
    for name in sorted(set(settings.audit.notify) - set(settings.notify)):
        yield Problem("audit.notify", f"there is no list {name}", f"Add [notify.{name}], or use one of: {lists}.")


def _passwords(settings: Settings) -> Iterator[Problem]:
    fix = "Put the whole URL into a file of mode 0600 and name it: url_file."
    for where, section in (("publications", settings.publications), ("monitoring", settings.monitoring)):
        if section is not None and _PASSWORD_IN_URL.search(section.url or ""):
            yield Problem(f"{where}.url", "a password has no place in the configuration", fix)


def _zone(name: str, where: str) -> Iterator[Problem]:
    try:
        zone_named(name)
    except NotAMoment as error:
        yield Problem(where, str(error), "Use a name of the IANA time zone database.")


def _listener(section: ListenerSection, where: str) -> Iterator[Problem]:
    if not section.local and not section.allowed_hosts:
        fix = 'List under which names clients reach it, for example allowed_hosts = ["remit.example.org"].'
        yield Problem(f"{where}.allowed_hosts", "missing for an address that others can reach", fix)
    if any("*" in entry.removesuffix(":*") for entry in (*section.allowed_hosts, *section.allowed_origins)):
        fix = "Spell every host and origin out; only a port may be any (:*)."
        yield Problem(f"{where}.allowed_hosts", "a wildcard", fix)


def _http(section: HttpSection) -> Iterator[Problem]:
    yield from _listener(section, "http")
    if section.public_url is not None and not is_safe_url(section.public_url):
        fix = "Use https://…; http:// only for a loopback address."
        yield Problem("http.public_url", "not an address to send a token to", fix)


def _token_endpoint(settings: Settings) -> Iterator[Problem]:
    """A client compares the names that it is told with the addresses that it used."""
    section, gateway = settings.token_endpoint, settings.gateway
    yield from _listener(section, "token_endpoint")
    if not is_safe_url(section.url()) or urlsplit(section.url()).path:
        fix = "Use https://host or https://host:port; http:// only for a loopback address."
        yield Problem("token_endpoint.public_url", "not an address to fetch tokens from", fix)
    if gateway.issuer != section.url():
        fix = f'Set [gateway] issuer = "{section.url()}"; tokens of the old name are refused from then on.'
        yield Problem("gateway.issuer", "not the address of the token endpoint", fix)
    if gateway.audience != settings.http.url():
        fix = f'Set [gateway] audience = "{settings.http.url() or "https://… (as in [http] public_url)"}".'
        yield Problem("gateway.audience", "not the address under which clients reach this gateway", fix)


def is_safe_url(url: str) -> bool:
    """Whether a token may be sent there: over TLS, or within this machine; no password, query or fragment in it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None and not parts.query and not parts.fragment
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    return plain and secure and bool(parts.hostname) and url.isascii() and url.isprintable() and " " not in url


def _purge(section: CloudflareSection, where: str) -> Iterator[Problem]:
    """What could only fail once an article is out is refused here."""
    for entry in section.purge:
        if not is_entry(entry):
            fix = f"Write whole http(s) addresses, or {LIVE} with what may follow it."
            yield Problem(f"{where}.purge", "not an address", fix)
    if section.batch > section.plan_limit:
        fix = "Lower batch, or raise plan_limit to what one request may name on your plan."
        yield Problem(f"{where}.batch", f"the plan allows {section.plan_limit} addresses in one request", fix)
    wanted = batches_at_most(section.purge, section.batch)
    if wanted > BATCHES_MAX:
        fix = f"Name fewer addresses, or raise batch: an entry with {LIVE} counts twice, for the version before."
        yield Problem(f"{where}.purge", f"{wanted} requests, and a publication makes at most {BATCHES_MAX}", fix)


def _list(found: NotifyList, where: str) -> Iterator[Problem]:
    if bool(found.recipients) == (found.url is not None):
        fix = "Give it recipients (addresses of people), or a url with a secret_file (a receiver of webhooks)."
        yield Problem(where, "not one kind of list", fix)


def _limits(timed: Timed, where: str) -> Iterator[Problem]:
    for key in ("max_run", "incomplete"):
        if getattr(timed, f"{key}_s") is not None and not getattr(timed, f"{key}_source"):
            fix = f'Say in {key}_source who enforces that limit, for example "php-fpm request_terminate_timeout".'
            yield Problem(f"{where}.{key}_s", "a limit without a source", fix)


def _timed(settings: Settings) -> Iterator[tuple[str, Timed]]:
    yield from ((f"site.{name}", site) for name, site in settings.site.items())
    yield from ((f"site.{name}.cloudflare", site.cloudflare) for name, site in settings.site.items() if site.cloudflare)
    single: dict[str, Timed | None] = {
        "github": settings.github,
        "publications": settings.publications,
        "monitoring": settings.monitoring,
        "mail": settings.mail,
    }
    yield from ((name, section) for name, section in single.items() if section is not None)
    yield from ((f"notify.{name}", found) for name, found in settings.notify.items())
