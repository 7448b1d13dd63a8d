"""The operators of a home: who is meant, is it really them, may they do that, and whose yes a worker believes.

A name is no proof: whatever an operator does is done with their key. It is looked for where `--operator` or
REMIT_OPERATOR_KEY says, else in the home's folder `operators`, where `init` puts it; where operators keep their keys
elsewhere, nobody acts by a name alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from capabilities.keys import OperatorKey, decode_operator_key, load_operator_key
from execution.approvers import Approver, Approvers
from server.cli.output import CommandFailed, Exit
from server.config import OPERATOR_KEY_VARIABLE, Config, operator_key_from_environment
from server.roles import ROLES, Role, Verb
from server.settings import Settings

KEYS_FOLDER: Final = "operators"
KEY_SUFFIX: Final = ".pem"


def named_operator(settings: Settings, named: str | None) -> str:
    """The name that is meant, else the only one that this home knows. Raises CommandFailed."""
    known = sorted(settings.operator)
    name = (named or "").removeprefix("operator:") or (known[0] if len(known) == 1 else "")
    if name not in known:
        fix = f"Use --operator with one of: {', '.join(known) or '(none is configured: add [operator.NAME])'}."
        raise CommandFailed("unknown_operator", "It is not clear who acts.", fix, Exit.AUTH)
    return name


def proven_operator(config: Config, wanted: str | None) -> OperatorKey:
    """The key that is there, under the name of whoever the configuration says it is. `wanted`: a name, or the path of
    a key file.

    Raises CommandFailed (unknown_operator, operator_key_needed, operator_key_differs), KeyFileError.
    """
    settings = config.settings
    by_path = wanted is not None and (os.sep in wanted or wanted.endswith(KEY_SUFFIX))
    named = operator_key_from_environment()
    path = Path(wanted).expanduser().absolute() if by_path and wanted else named
    if path is None:
        name = named_operator(settings, wanted)
        path = config.home / KEYS_FOLDER / f"{name}{KEY_SUFFIX}"
        if not path.exists():
            fix = f"Name it: --operator FILE, or {OPERATOR_KEY_VARIABLE}=FILE."
            raise CommandFailed("operator_key_needed", f"The key of {name} is not here.", fix, Exit.AUTH)
    key = load_operator_key(path)
    held = key.public_key().encode()
    candidates = sorted(settings.operator) if by_path or wanted is None else [named_operator(settings, wanted)]
    owners = [known for known in candidates if settings.operator[known].key == held]
    if not owners:
        fix = "Use the key that belongs to the public half in [operator.NAME]."
        raise CommandFailed("operator_key_differs", "That is not the key of that operator.", fix, Exit.AUTH)
    return replace(key, name=owners[0])


def check_role(settings: Settings, name: str, verb: Verb) -> None:
    """Raises CommandFailed (role_missing) when that operator may not do that."""
    role = ROLES[verb]
    if role not in settings.operator[name].roles:
        others = ", ".join(who for who in sorted(settings.operator) if role in settings.operator[who].roles)
        fix = f"Let one of these do it: {others}." if others else f'Give somebody the role: roles = ["{role}", …].'
        raise CommandFailed("role_missing", f"{name} may not {verb}: that needs the role {role}.", fix, Exit.AUTH)


def having(settings: Settings, role: Role) -> tuple[str, ...]:
    """The names of operators with that role."""
    return tuple(name for name in sorted(settings.operator) if role in settings.operator[name].roles)


def approvers_of(settings: Settings) -> Approvers:
    """Whose yes a worker believes. A key that cannot be read approves nothing; `remit doctor` names it."""
    return _believed(settings, having(settings, Role.APPROVE))


def known_operators(settings: Settings) -> Approvers:
    """Everybody, whatever they may do."""
    return _believed(settings, tuple(sorted(settings.operator)))


def rulers_of(settings: Settings) -> Approvers:
    """Whose rulings a worker believes."""
    return _believed(settings, having(settings, ROLES[Verb.REVIEW_RULE]))


def _believed(settings: Settings, names: Iterable[str]) -> Approvers:
    found = {}
    for name in names:
        section = settings.operator[name]
        try:
            key = decode_operator_key(name, section.key)
        except ValueError:
            continue
        found[f"operator:{name}"] = Approver(key=key, aliases=section.aliases)
    return MappingProxyType(found)
