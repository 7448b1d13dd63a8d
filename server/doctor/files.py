"""Who can read or write what the home holds? Keys, tokens and credentials belong to one user alone."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from execution.ports import Severity, Symptom
from server.config import CONFIG_NAME, DATABASE_NAME, Config

_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022
LISTED_MAX: Final = 5


def symptoms(config: Config) -> tuple[Symptom, ...]:
    """Of everything that a home keeps for itself."""
    return (_owner(config.home), *_modes(config), _readable(config))


def _owner(home: Path) -> Symptom:
    owner, me = home.stat().st_uid, os.geteuid()
    if owner == me:
        return Symptom(code="home_is_ours", detail=f"user {_name(me)}")
    detail = f"the home belongs to {_name(owner)}, this is {_name(me)}"
    fix = f"Run remit as {_name(owner)}: files that another user writes there could not be read by it."
    return Symptom(code="home_of_another_user", severity=Severity.WARNING, detail=detail, fix=fix)


def _modes(config: Config) -> Iterator[Symptom]:
    private = [*_private(config)]
    opened = [path for path in private if _mode(path) & _OTHERS]
    linked = [path for path in config.credential_files() if path.is_symlink()]
    foreign = [path for path in private if path.lstat().st_uid != config.home.stat().st_uid]
    settings = config.home / CONFIG_NAME
    if opened:
        fix = f"chmod go= {' '.join(map(str, opened[:LISTED_MAX]))}"
        yield Symptom(code="open_permissions", severity=Severity.PROBLEM, detail=_listed(opened, config), fix=fix)
    if foreign:
        fix = "Give them to the user who owns the home (chown)."
        yield Symptom(code="foreign_owner", severity=Severity.PROBLEM, detail=_listed(foreign, config), fix=fix)
    if linked:
        fix = "Put the secret into a regular file: links are not followed."
        yield Symptom(code="secret_is_a_link", severity=Severity.PROBLEM, detail=_listed(linked, config), fix=fix)
    if _mode(settings) & _OTHERS_WRITE:
        fix = f"chmod go-w {settings}: it says where credentials are sent to."
        yield Symptom(code="configuration_writable", severity=Severity.PROBLEM, detail=CONFIG_NAME, fix=fix)
    if not (opened or foreign or linked or _mode(settings) & _OTHERS_WRITE):
        yield Symptom(code="files_private", detail=f"{len(private)} files and folders")


def _private(config: Config) -> Iterator[Path]:
    """What nobody but the owner of the home may open. Whoever cannot enter the home opens nothing in it."""
    yield config.home
    outside = (path for path in config.credential_files() if not path.is_relative_to(config.home))
    yield from (path for path in outside if path.exists())
    yield from config.home.glob(DATABASE_NAME + "*")
    for folder in ("keys", "operators", "secrets", "tokens"):
        yield from (path for path in (config.home / folder).glob("*") if path.name != "jwks.json")


def _readable(config: Config) -> Symptom:
    """What the agent's own user could read, the agent could read."""
    readable = [path for path in config.credential_files() if os.access(path, os.R_OK)]
    if not readable:
        return Symptom(code="credentials_kept_away", detail="this user can read no credential and no key")
    return Symptom(
        code="credentials_readable",
        severity=Severity.WARNING,
        detail=f"{_listed(readable, config)}: if the agent's host runs under this user, an agent with a shell could "
        "use them",
        fix="In production run `remit serve --no-worker` where the agent is and `remit worker` under another user, and "
        "keep the keys of issuer and operators from both.",
    )


def _listed(paths: list[Path], config: Config) -> str:
    named = [str(path.relative_to(config.home)) if path.is_relative_to(config.home) else str(path) for path in paths]
    more = f" and {len(named) - LISTED_MAX} more" if len(named) > LISTED_MAX else ""
    return ", ".join(named[:LISTED_MAX]) + more


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode) if not path.is_symlink() else 0


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
