"""The ports as configured: the only place that joins adapters with credentials. Imported by workers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from adapters.cloudflare import CloudflareCache
from adapters.database import SqlPublications
from adapters.database_checks import SqlMonitoring
from adapters.github import Archive, GitHubRepository
from adapters.mail import Login, Security, SmtpMail
from adapters.monitoring import Healthchecks
from adapters.public_pages import PublicPages
from adapters.webhook import WebhookEndpoint
from adapters.wordpress import WordPressSite
from execution.core.failures import FailureClass, Unprepared
from execution.core.quiescence import Bounds
from execution.ports import Ports
from execution.sagas.purging import LIVE
from execution.store import artifacts
from execution.store.writer import Store
from server.app import Installation
from server.config import CONFIG_NAME, Config, ConfigError, Secret
from server.settings import CloudflareSection, Timed

Sql = TypeVar("Sql", SqlPublications, SqlMonitoring)

BY_HASH: Final = "artifact://sha256/"


class StoredArtifacts:
    """`execution.ports.Artifacts` over the journal's own store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, ref: str) -> bytes:
        """The bytes; raises Unprepared when they are not there (any more)."""
        digest = ref.removeprefix(BY_HASH)
        found = await self._store.read(lambda conn: artifacts.get(conn, digest))
        if found is None or found.content is None:
            raise Unprepared(FailureClass.PERMANENT, "artifact_missing")
        return found.content


class Closing(Protocol):
    """An adapter that keeps connections."""

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outside:
    """The ports, and what has to be closed with them."""

    ports: Ports
    connected: tuple[Closing, ...]

    async def aclose(self) -> None:
        """Let every connection go."""
        for system in self.connected:
            await system.aclose()


def outside_of(at: Installation) -> Outside:
    """Connect the configuration to the world, and make the sandbox's own tables where they are missing.

    Raises ConfigError, also for a missing or open password file.
    """
    if at.config.settings.sandbox.start:
        make_tables(at.config)
    return adapters_of(at)


def adapters_of(at: Installation) -> Outside:
    """The same for looking alone: nothing is made. Raises ConfigError."""
    config, notify = at.config, at.config.settings.notify
    sites = {name: _site(config, name) for name in config.settings.site}
    caches = {
        name: _cache(config, name, site.cloudflare) for name, site in config.settings.site.items() if site.cloudflare
    }
    webhooks = {name: _webhook(at, name, found.url) for name, found in notify.items() if found.url}
    repository, publications, monitoring = repository_of(config), _publications(config), _monitoring(config)
    ports = Ports(
        artifacts=StoredArtifacts(at.store),
        wordpress=MappingProxyType(sites),
        caches=MappingProxyType(caches),
        media=MappingProxyType({name: site.media for name, site in sites.items()}),
        repository=repository,
        publications=publications,
        monitoring=monitoring,
        mail=_mail(config),
        recipients=MappingProxyType({name: found.recipients for name, found in notify.items() if found.recipients}),
        webhooks=MappingProxyType(webhooks),
    )
    single = [system for system in (repository, publications, monitoring) if system is not None]
    return Outside(ports, (*sites.values(), *caches.values(), *webhooks.values(), *single))


def secrets_of(config: Config) -> tuple[Secret, ...]:
    """Every secret that this process is about to hold: logs must never show one. Raises ConfigError."""
    return tuple(secret for read in config.secret_readers() if (secret := read()) is not None)


def bounds_of(timed: Timed, scale: float = 1.0) -> Bounds:
    """What is declared about how late a request can take effect. `scale` is 1 unless the sandbox stands in."""
    return Bounds(
        max_run_s=None if timed.max_run_s is None else timed.max_run_s * scale,
        max_run_source=timed.max_run_source,
        incomplete_s=None if timed.incomplete_s is None else timed.incomplete_s * scale,
        incomplete_source=timed.incomplete_source,
        transit_s=timed.transit_s * scale,
        pause_s=timed.pause_s * scale,
        stale_s=timed.stale_s * scale,
        clock_s=timed.clock_s * scale,
    )


def _site(config: Config, name: str) -> WordPressSite:
    site = config.settings.site[name]
    password = config.site_password(name).value
    plugin = site.key_strategy == "plugin"
    bounds = bounds_of(site, config.settings.engine.time_scale)
    try:
        return WordPressSite(site.url, site.user, password, bounds, plugin=plugin)
    except ValueError as error:
        where = f"{config.home / CONFIG_NAME}, [site.{name}]"
        raise ConfigError(where, str(error), "Correct the address.") from None


def repository_of(config: Config) -> GitHubRepository | None:
    """The repository that keeps versions, where one is configured. Raises ConfigError."""
    section = config.settings.github
    if section is None:
        return None
    scale = config.settings.engine.time_scale
    token = config.github_token().value
    try:
        archive = Archive(
            owner=section.owner,
            repo=section.repo,
            base_branch=section.base_branch,
            folder=section.folder,
            author_name=section.author_name,
            author_email=section.author_email,
        )
        within_s = section.within_s * scale
        return GitHubRepository(section.url, token, archive, bounds_of(section, scale), within_s=within_s)
    except ValueError as error:
        raise ConfigError(f"{config.home / CONFIG_NAME}, [github]", str(error), "Correct the value.") from None


def _cache(config: Config, name: str, section: CloudflareSection) -> CloudflareCache:
    """Readers' pages are looked at where the configuration says that they are, and nowhere else."""
    site, token = config.settings.site[name], config.cloudflare_token(name).value
    known = (site.url, site.public_url, *(entry for entry in section.purge if not entry.startswith(LIVE)))
    try:
        return CloudflareCache(
            section.zone,
            token,
            bounds_of(section, config.settings.engine.time_scale),
            pages=PublicPages(tuple(filter(None, known))) if section.verify else None,
            url=section.url,
        )
    except ValueError as error:
        where = f"{config.home / CONFIG_NAME}, [site.{name}.cloudflare]"
        raise ConfigError(where, str(error), "Correct the address.") from None


def make_tables(config: Config) -> None:
    """Make the tables in the customer's databases where they are missing; for setting up."""
    settings = config.settings
    if settings.publications is not None:
        _make(config, "publications", _sql(config, "publications", SqlPublications, None))
    if settings.monitoring is not None and settings.monitoring.kind == "sql":
        _make(config, "monitoring", _sql(config, "monitoring", SqlMonitoring, None))


def _make(config: Config, section: str, table: SqlPublications | SqlMonitoring) -> None:
    try:
        table.create_table()
    except Unprepared:
        where = f"{config.home / CONFIG_NAME}, [{section}]"
        fix = "Check the address, and that its user may create tables; or create it with another user."
        raise ConfigError(where, "the table could not be made", fix) from None


def _sql(config: Config, section: str, made: Callable[..., Sql], bounds: Bounds | None) -> Sql:
    """A table in a customer's database. Raises ConfigError when its address is none."""
    url = config.publications_url() if section == "publications" else config.monitoring_url()
    try:
        return made(url.value, bounds=bounds)
    except ValueError as error:
        fix = "Use SQLAlchemy's form: sqlite:////path/to/file.db, or postgresql+psycopg://user@host/database."
        raise ConfigError(f"{config.home / CONFIG_NAME}, [{section}].url", str(error), fix) from None


def _publications(config: Config) -> SqlPublications | None:
    section = config.settings.publications
    if section is None:
        return None
    bounds = None if section.max_run_s is None else bounds_of(section, config.settings.engine.time_scale)
    return _sql(config, "publications", SqlPublications, bounds)


def _monitoring(config: Config) -> SqlMonitoring | Healthchecks | None:
    section = config.settings.monitoring
    if section is None:
        return None
    bounds = bounds_of(section, config.settings.engine.time_scale)
    key = config.monitoring_key()
    if key is None:
        return _sql(config, "monitoring", SqlMonitoring, None if section.max_run_s is None else bounds)
    try:
        return Healthchecks(config.monitoring_url().value, key.value, bounds)
    except ValueError as error:
        raise ConfigError(f"{config.home / CONFIG_NAME}, [monitoring]", str(error), "Correct the address.") from None


def _webhook(at: Installation, name: str, url: str) -> WebhookEndpoint:
    config, section = at.config, at.config.settings.notify[name]
    bounds, secret = bounds_of(section, config.settings.engine.time_scale), config.webhook_secret(name).value
    try:
        return WebhookEndpoint(url, secret, bounds, lambda: at.clock.now_ms() / 1000, private=section.private)
    except ValueError as error:
        raise ConfigError(f"{config.home / CONFIG_NAME}, [notify.{name}]", str(error), "Correct the value.") from None


def _mail(config: Config) -> SmtpMail | None:
    section = config.settings.mail
    if section is None:
        return None
    password = config.mail_password()
    login = Login(username=section.user, password=password.value) if section.user and password else None
    bounds = bounds_of(section, config.settings.engine.time_scale)
    try:
        return SmtpMail(
            section.host, section.port, section.sender, bounds=bounds, security=Security(section.tls), login=login
        )
    except ValueError as error:
        raise ConfigError(f"{config.home / CONFIG_NAME}, [mail]", str(error), "Correct the value.") from None
