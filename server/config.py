"""Configuration: `remit.toml` in the home folder, and the only place that reads the environment.

Every section is a closed, strict model: a key that is not listed is refused, with the nearest one that is. Secrets are
never in the file, only references to them (`…_file`, mode 0600, or `…_env`), and they are read when something needs
them, so that a gateway can run on a machine that holds none. Errors name the file, the key and what to do.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from capabilities.errors import KeyFileError
from capabilities.keyfile import read_private_file
from server.config_rules import problems
from server.private_files import told
from server.settings import LogLevel, MonitoringSection, PublicationsSection, Section, Settings

CONFIG_NAME: Final = "remit.toml"
DATABASE_NAME: Final = "remit.db"
HOME_DEFAULT: Final = "remit-home"
HOME_VARIABLE: Final = "REMIT_HOME"
TOKEN_FILE_VARIABLE: Final = "REMIT_TOKEN_FILE"  # noqa: S105 (the name of a variable)
LOG_LEVEL_VARIABLE: Final = "REMIT_LOG_LEVEL"
OPERATOR_KEY_VARIABLE: Final = "REMIT_OPERATOR_KEY"


class ConfigError(Exception):
    """The configuration cannot be used until a person mends it. `where` is file and key, `fix` what to do."""

    code = "config_invalid"

    def __init__(self, where: str, problem: str, fix: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in memory: it does not show itself in logs, errors or representations."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "[secret]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings with the folder they belong to. Relative paths in the file are relative to the home."""

    home: Path
    settings: Settings
    log_level: LogLevel
    token_file: Path | None

    @property
    def database(self) -> Path:
        """The journal of the embedded engine."""
        return self.home / DATABASE_NAME

    def path(self, text: str) -> Path:
        """A path as the file means it."""
        return self.home / Path(text).expanduser()

    def site_password(self, name: str) -> Secret:
        """The application password of one site."""
        site = self.settings.site[name]
        return self._required(f"site.{name}", "password", site.password_file, site.password_env)

    def github_token(self) -> Secret:
        """The repository's token."""
        section = self.settings.github
        assert section is not None, "asked for only where the section exists"
        return self._required("github", "token", section.token_file, section.token_env)

    def cloudflare_token(self, name: str) -> Secret:
        """The API token of the cache in front of one site."""
        section = self.settings.site[name].cloudflare
        assert section is not None, "asked for only where the section exists"
        return self._required(f"site.{name}.cloudflare", "token", section.token_file, section.token_env)

    def publications_url(self) -> Secret:
        """The URL of the publications database."""
        section = self.settings.publications
        assert section is not None, "asked for only where the section exists"
        return self._database_url("publications", section)

    def monitoring_url(self) -> Secret:
        """The URL of the database of checks, or the address of the service."""
        section = self.settings.monitoring
        assert section is not None, "asked for only where the section exists"
        return self._database_url("monitoring", section)

    def monitoring_key(self) -> Secret | None:
        """The API key of the monitoring service, when there is one."""
        section = self.settings.monitoring
        if section is None or section.kind != "healthchecks":
            return None
        return self._required("monitoring", "api_key", section.api_key_file, section.api_key_env)

    def webhook_secret(self, name: str) -> Secret:
        """What one receiver of webhooks and we know."""
        found = self.settings.notify[name]
        return self._required(f"notify.{name}", "secret", found.secret_file, found.secret_env)

    def mail_password(self) -> Secret | None:
        """The relay's password, when it wants one."""
        section = self.settings.mail
        if section is None or section.user is None:
            return None
        return self._required("mail", "password", section.password_file, section.password_env)

    def secret_readers(self) -> Iterator[Callable[[], Secret | None]]:
        """What reads each secret that the configuration refers to. Each raises ConfigError when this user cannot."""
        settings = self.settings
        yield from (partial(self.site_password, name) for name in settings.site)
        yield from (partial(self.cloudflare_token, name) for name, site in settings.site.items() if site.cloudflare)
        yield from (partial(self.webhook_secret, name) for name, found in settings.notify.items() if found.url)
        yield from (self.mail_password, self.monitoring_key)
        if settings.github is not None:
            yield self.github_token
        if settings.publications is not None and settings.publications.url is None:
            yield self.publications_url
        if settings.monitoring is not None and settings.monitoring.url is None:
            yield self.monitoring_url

    def credential_files(self) -> tuple[Path, ...]:
        """Every file here that holds production authority: for the warning at start."""
        settings = self.settings
        named = [site.password_file for site in settings.site.values()]
        named += [settings.github.token_file] if settings.github else []
        named += [site.cloudflare.token_file for site in settings.site.values() if site.cloudflare]
        named += [settings.mail.password_file] if settings.mail else []
        named += [settings.publications.url_file] if settings.publications else []
        named += [settings.monitoring.url_file, settings.monitoring.api_key_file] if settings.monitoring else []
        named += [found.secret_file for found in settings.notify.values()]
        named += [settings.issuer.key_file] if settings.issuer else []
        keys = sorted((self.home / "operators").glob("*.pem")) if (self.home / "operators").is_dir() else []
        return (*(self.path(name) for name in named if name is not None), *keys)

    def _database_url(self, name: str, section: PublicationsSection | MonitoringSection) -> Secret:
        where = f"{self.home / CONFIG_NAME}, [{name}]"
        if section.url is None:
            found = self._required(name, "url", section.url_file, section.url_env)
        else:
            if "{home}" in section.url and set("?%#") & set(str(self.home)):
                fix = "Move the home to a path without ?, % and #, or write the database's path out."
                raise ConfigError(f"{where}.url", "in an address the home's path would mean another file", fix)
            found = Secret(section.url.replace("{home}", str(self.home)))
        return found

    def _required(self, section: str, key: str, file: str | None, variable: str | None) -> Secret:
        where = f"{self.home / CONFIG_NAME}, [{section}]"
        if (file is None) == (variable is None):
            fix = f"Set exactly one of {key}_file (a file of mode 0600) and {key}_env (the name of a variable)."
            raise ConfigError(where, f"it is not said where the {key} is", fix)
        if variable is not None:
            return _from_environment(where, f"{key}_env", variable)
        return _from_file(where, f"{key}_file", self.path(file or ""))


def find_home(option: Path | None) -> Path:
    """`--home`, else REMIT_HOME, else ./remit-home."""
    return (option or Path(os.environ.get(HOME_VARIABLE) or HOME_DEFAULT)).absolute()


def load_config(
    option: Path | None = None,
    *,
    token_file: Path | None = None,
    http_host: str | None = None,
    http_port: int | None = None,
) -> Config:
    """Read the home's configuration, with what the command line says instead. Raises ConfigError."""
    home = find_home(option)
    settings = parse_settings(_read(home / CONFIG_NAME), home / CONFIG_NAME)
    instead = {name: value for name, value in (("host", http_host), ("port", http_port)) if value is not None}
    if instead:
        settings = settings.model_copy(update={"http": settings.http.model_copy(update=instead)})
        _check(settings, home / CONFIG_NAME)
    named, own = token_file or os.environ.get(TOKEN_FILE_VARIABLE), settings.gateway.token_file
    return Config(
        home=home,
        settings=settings,
        log_level=_log_level(settings),
        token_file=_absolute(named) if named else None if own is None else home / own,
    )


def operator_key_from_environment() -> Path | None:
    """REMIT_OPERATOR_KEY: the path of an operator's key file."""
    return _absolute(os.environ.get(OPERATOR_KEY_VARIABLE))


def own_command() -> tuple[str, ...]:
    """How this very installation is called, wherever the caller's folder and PATH are."""
    script = Path(sys.executable).with_name("remit")
    return (str(script),) if script.exists() else (sys.executable, "-m", "server")


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a process of our own inherits: enough to find Python and its packages, no token and no secret."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "TZ")
    return {name: os.environ[name] for name in kept if name in os.environ} | dict(extra or {})


def parse_settings(text: str, file: Path) -> Settings:
    """Check the file's text. Raises ConfigError about the first thing that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(file), f"not valid TOML: {error}", "Correct the line that is named.") from None
    try:
        settings = Settings.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        raise _explain(error, file) from None
    _check(settings, file)
    return settings


def _check(settings: Settings, file: Path) -> None:
    for found in problems(settings):
        raise ConfigError(f"{file}, {found.where}", found.problem, found.fix)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        fix = f"Run `remit init --home {file.parent}`, or name another home with --home or {HOME_VARIABLE}."
        raise ConfigError(str(file), "there is no such file", fix) from None
    except UnicodeDecodeError:
        raise ConfigError(str(file), "not UTF-8", "Save the file as UTF-8.") from None
    except OSError as error:
        raise ConfigError(str(file), error.strerror or "unreadable", "Make the file readable for this user.") from None


def _log_level(settings: Settings) -> LogLevel:
    named = os.environ.get(LOG_LEVEL_VARIABLE)
    if not named:
        return settings.log.level
    level = next((level for level in get_args(LogLevel) if level == named.lower()), None)
    if level is None:
        fix = f"Use one of {', '.join(get_args(LogLevel))}."
        raise ConfigError(f"environment, {LOG_LEVEL_VARIABLE}", "no such log level", fix)
    found: LogLevel = level
    return found


def _absolute(named: str | Path | None) -> Path | None:
    return None if not named else Path(named).expanduser().absolute()


def _from_environment(where: str, key: str, variable: str) -> Secret:
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(
            f"{where}, {key}", f"the variable {variable} is not set", f"Export {variable}, or use a file."
        )
    return Secret(value)


def _from_file(where: str, key: str, path: Path) -> Secret:
    try:
        raw = read_private_file(path)
        value = raw.decode("utf-8").strip()
    except KeyFileError as error:
        problem, fix = told(error)
        raise ConfigError(f"{where}, {key}", problem, fix) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}, {key}", f"{path} is not UTF-8", "Save the secret as plain text.") from None
    if not value:
        raise ConfigError(f"{where}, {key}", f"{path} is empty", "Write the secret into it.")
    return Secret(value)


def _explain(error: ValidationError, file: Path) -> ConfigError:
    every = error.errors(include_input=False, include_url=False, include_context=True)
    first = next((found for found in every if found["type"] == "extra_forbidden"), every[0])  # a typo explains the rest
    location = tuple(str(part) for part in first["loc"])
    where = f"{file}, {'.'.join(location)}"
    if first["type"] == "extra_forbidden":
        known = _keys_at(location[:-1])
        near = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.5)
        fix = f"Did you mean `{near[0]}`?" if near else f"Known here: {', '.join(known)}."
        return ConfigError(where, "there is no such key", fix)
    if first["type"] == "missing":
        return ConfigError(where, "this key is missing", f"Add `{location[-1]}` to the section.")
    return ConfigError(where, first["msg"], "Correct the value.")


def _keys_at(location: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the section at that place of the file."""
    model: type[BaseModel] = Settings
    path = iter(location)
    for part in path:
        annotation = model.model_fields[part].annotation
        if getattr(annotation, "__origin__", None) is dict:
            next(path, None)  # a section's own name: [site.NAME]
        model = next(section for section in (annotation, *get_args(annotation)) if _is_section(section))
    return tuple(sorted(model.model_fields))


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)
