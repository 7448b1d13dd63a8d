"""The ports as configured: the only place that joins adapters with credentials. Imported by workers alone."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from adapters.database import SqlPublications
from adapters.github import Archive, GitHubRepository
from adapters.mail import Login, Security, SmtpMail
from adapters.wordpress import WordPressSite
from execution.core.failures import FailureClass, Unprepared
from execution.core.quiescence import Bounds
from execution.ports import Ports
from execution.store import artifacts
from execution.store.writer import Store
from server.app import Installation
from server.config import CONFIG_NAME, Config, ConfigError, Secret
from server.settings import Timed

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


@dataclass(frozen=True, slots=True)
class Outside:
    """The ports, and what has to be closed with them."""

    ports: Ports
    sites: tuple[WordPressSite, ...]
    repository: GitHubRepository | None
    publications: SqlPublications | None

    async def aclose(self) -> None:
        """Let every connection go."""
        for site in self.sites:
            await site.aclose()
        if self.repository is not None:
            await self.repository.aclose()
        if self.publications is not None:
            await self.publications.aclose()


def outside_of(at: Installation) -> Outside:
    """Connect the configuration to the world, and make the sandbox's own table where it is missing.

    Raises ConfigError, also for a missing or open password file.
    """
    if at.config.settings.sandbox.start:
        make_publications_table(at.config)
    return adapters_of(at)


def adapters_of(at: Installation) -> Outside:
    """The same for looking alone: nothing is made. Raises ConfigError."""
    config = at.config
    sites = {name: _site(config, name) for name in config.settings.site}
    repository = repository_of(config)
    publications = _publications(config)
    ports = Ports(
        artifacts=StoredArtifacts(at.store),
        wordpress=MappingProxyType(sites),
        repository=repository,
        publications=publications,
        mail=_mail(config),
        recipients=MappingProxyType({name: found.recipients for name, found in config.settings.notify.items()}),
    )
    return Outside(ports, tuple(sites.values()), repository, publications)


def secrets_of(config: Config) -> tuple[Secret, ...]:
    """Every secret that this process is about to hold: logs must never show one."""
    passwords = [config.site_password(name) for name in config.settings.site]
    token = [config.github_token()] if config.settings.github is not None else []
    relay = config.mail_password()
    section = config.settings.publications
    url = [config.publications_url()] if section is not None and section.url is None else []
    return (*passwords, *token, *([relay] if relay else []), *url)


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


def make_publications_table(config: Config) -> None:
    """Make the table in the customer's database where it is missing; for setting up."""
    if config.settings.publications is None:
        return
    try:
        SqlPublications(config.publications_url().value).create_table()
    except Unprepared:
        where = f"{config.home / CONFIG_NAME}, [publications]"
        fix = "Check the address, and that its user may create tables; or create it with another user."
        raise ConfigError(where, "the table could not be made", fix) from None


def _publications(config: Config) -> SqlPublications | None:
    section = config.settings.publications
    if section is None:
        return None
    bounds = None if section.max_run_s is None else bounds_of(section, config.settings.engine.time_scale)
    return SqlPublications(config.publications_url().value, bounds=bounds)


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
