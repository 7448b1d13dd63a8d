"""Changing the issuer's key while tokens of the old one are out.

A rotation makes a new private key, adds its public half to the key set, notes what it replaces, and lets
`[issuer] key_file` name it; each of these is one whole step, in an order in which a process that dies between two of
them leaves everything working under the old key or the new one. The old public half stays in the set until no token
that it signed can still be accepted anywhere; then the next rotation, or `retire`, takes it out and destroys the
private half. Keys that no rotation replaced (another issuer's, put there by hand) are never taken out by themselves.

The configuration says which key signs; `rotations.jsonl` beside it says since when an older one does not.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from capabilities.jwks import KeySet, load_key_set, write_key_set
from capabilities.keyfile import PRIVATE_MODE, replace_file, sync
from capabilities.keys import generate_signing_key, load_signing_key, next_kid, save_private_key
from capabilities.token import LIFETIME_S_MAX, SKEW_S
from server.config import CONFIG_NAME, Config, ConfigError, load_config, parse_settings

RELOAD_S: Final = 60
"""Within this a gateway has the newest key set: at once on the issuer's machine, else when whoever copies it has."""
OVERLAP_S: Final = LIFETIME_S_MAX + SKEW_S + RELOAD_S
ROTATIONS_NAME: Final = "rotations.jsonl"
_SECTION: Final = re.compile(r"^\[issuer\][^\n]*\n(?:(?!\[)[^\n]*\n)*", re.MULTILINE)
_KEY_FILE: Final = re.compile(r'^(key_file[ \t]*=[ \t]*)"[^"\n]*"', re.MULTILINE)


class RotationRefused(Exception):
    """Nothing was changed. Codes: unknown_key, key_in_use, overlap_running."""

    def __init__(self, code: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One key of the set. signs: new tokens carry it. replaced_s, leaves_s (epoch seconds): since when it does not,
    and when it may leave the set; None while it signs, and for keys that no rotation replaced."""

    kid: str
    algorithm: str
    signs: bool
    replaced_s: int | None
    leaves_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """What a rotation did. pruned: keys whose overlap was over, out of the set."""

    kid: str
    replaced: str
    leaves_s: int
    pruned: tuple[str, ...]
    key_file: Path


def known_keys(config: Config) -> tuple[KnownKey, ...]:
    """The public set, the key that signs first. Raises KeyFileError."""
    keys, signing, replaced = load_key_set(_set_file(config)), _signing_kid(config), _replaced(config)
    found = [
        KnownKey(
            kid=kid,
            algorithm=keys.by_kid[kid].algorithm.value,
            signs=kid == signing,
            replaced_s=None if kid == signing else replaced.get(kid),
            leaves_s=None if kid == signing or kid not in replaced else replaced[kid] + OVERLAP_S,
        )
        for kid in keys.kids
    ]
    return tuple(sorted(found, key=lambda key: not key.signs))


def key_set_digest(config: Config) -> str:
    """Of the public set as it lies there. Raises KeyFileError."""
    return load_key_set(_set_file(config)).digest


def rotate(home: Path, now_s: int, *, by: str) -> Rotated:
    """Sign with a new key from now on. Raises ConfigError, KeyFileError; then the old key still signs."""
    with _alone(home) as config:
        old, folder = load_signing_key(_key_file(config)), _key_file(config).parent
        keys = load_key_set(_set_file(config))
        kid = next_kid(config.settings.gateway.tenant, now_s, {*keys.kids, *_kids_of_files(folder)})
        new, file = generate_signing_key(kid), folder / f"{kid}.pem"
        text = _renamed(config, file)
        save_private_key(new, file)
        pruned = _over(config, keys, now_s)
        kept = [key for key in keys.by_kid.values() if key.kid not in pruned]
        write_key_set(_set_file(config), KeySet.of([*kept, new.verification_key()]))
        _note(folder, {"at": now_s, "kid": kid, "replaces": old.kid, "by": by})
        replace_file(_config_file(config), text.encode(), mode=_config_file(config).stat().st_mode & 0o777)
        _destroy(folder, pruned)
        return Rotated(kid=kid, replaced=old.kid, leaves_s=now_s + OVERLAP_S, pruned=pruned, key_file=file)


def retire(home: Path, kid: str, now_s: int, *, at_once: bool) -> None:
    """Take a key out of the set: its tokens are refused from now on. Raises RotationRefused, KeyFileError.

    at_once: although tokens that it signed may be out.
    """
    with _alone(home) as config:
        key = next((key for key in known_keys(config) if key.kid == kid), None)
        if key is None:
            raise RotationRefused("unknown_key", "There is no such key in the set.", "See `remit keys ls`.")
        if key.signs:
            raise RotationRefused("key_in_use", "New tokens are signed with it.", "First: `remit keys rotate`.")
        if not at_once and (key.leaves_s is None or now_s < key.leaves_s):
            fix = "Wait for what `remit keys ls` says, or add --now: tokens that it signed then end at once."
            raise RotationRefused("overlap_running", "Tokens that it signed may still be out.", fix)
        left = [found for found in load_key_set(_set_file(config)).by_kid.values() if found.kid != kid]
        write_key_set(_set_file(config), KeySet.of(left))
        _destroy(_key_file(config).parent, (kid,))


def _over(config: Config, keys: KeySet, now_s: int) -> tuple[str, ...]:
    signing = _signing_kid(config)
    return tuple(
        kid
        for kid, replaced_s in sorted(_replaced(config).items())
        if kid in keys.kids and kid != signing and now_s >= replaced_s + OVERLAP_S
    )


def _replaced(config: Config) -> dict[str, int]:
    """When each key was last replaced, in epoch seconds."""
    path = _key_file(config).parent / ROTATIONS_NAME
    if not path.exists():
        return {}
    noted = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {str(row["replaces"]): int(row["at"]) for row in noted}


def _note(folder: Path, row: dict[str, object]) -> None:
    path = folder / ROTATIONS_NAME
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    with os.fdopen(descriptor, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())
    sync(folder)


def _renamed(config: Config, file: Path) -> str:
    """The configuration's text with the new key's file; everything else in it, comments included, stays as it is."""
    where, settings = _config_file(config), config.settings
    named = _key_file(config)
    said = file.relative_to(config.home) if named.is_relative_to(config.home) else file
    text = where.read_text(encoding="utf-8")
    section = _SECTION.search(text)
    lines = _KEY_FILE.findall(section.group()) if section is not None else []
    fix = f'Write the section as [issuer] and a line key_file = "…" in {CONFIG_NAME}, then rotate.'
    if section is None or len(lines) != 1:
        raise ConfigError(f"{where}, issuer.key_file", "the line cannot be found to be changed", fix)
    changed = _KEY_FILE.sub(lambda found: f"{found.group(1)}{json.dumps(str(said))}", section.group())
    text = text[: section.start()] + changed + text[section.end() :]
    assert settings.issuer is not None, "asked for only where the section exists"
    wanted = settings.issuer.model_copy(update={"key_file": str(said)})
    if parse_settings(text, where).issuer != wanted:
        raise ConfigError(f"{where}, issuer.key_file", "the line cannot be changed safely", fix)
    return text


def _destroy(folder: Path, kids: tuple[str, ...]) -> None:
    """The private halves of keys that left the set: they could only sign what nobody accepts."""
    for kid in kids:
        (folder / f"{kid}.pem").unlink(missing_ok=True)


def _kids_of_files(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.pem")}


def _signing_kid(config: Config) -> str | None:
    return None if config.settings.issuer is None else _key_file(config).stem


def _key_file(config: Config) -> Path:
    section = config.settings.issuer
    if section is None:
        fix = "Rotate keys where the issuer's key is, or add [issuer] key_file."
        raise ConfigError(str(config.home), "this home has no issuer key", fix)
    return config.path(section.key_file)


def _set_file(config: Config) -> Path:
    return config.path(config.settings.gateway.jwks)


def _config_file(config: Config) -> Path:
    return (config.home / CONFIG_NAME).resolve()


@contextmanager
def _alone(home: Path) -> Iterator[Config]:
    """The configuration as it is now, for one process at a time (flock(2): it ends with the process)."""
    try:
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(str(home), error.strerror or "unreadable", "Check --home.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield load_config(home)
    finally:
        os.close(descriptor)
