"""The operators of a home: who is meant, may they do that, and whose yes a worker believes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from capabilities.keys import decode_operator_key
from execution.approvers import Approver
from server.cli.output import CommandFailed, Exit
from server.roles import ROLES, Role, Verb
from server.settings import Settings


def named_operator(settings: Settings, named: str | None) -> str:
    """The name that is meant, else the only one that this home knows. Raises CommandFailed."""
    known = sorted(settings.operator)
    name = (named or "").removeprefix("operator:") or (known[0] if len(known) == 1 else "")
    if name not in known:
        fix = f"Use --operator with one of: {', '.join(known) or '(none is configured: add [operator.NAME])'}."
        raise CommandFailed("unknown_operator", "It is not clear who acts.", fix, Exit.AUTH)
    return name


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


def approvers_of(settings: Settings) -> Mapping[str, Approver]:
    """Whose signature a worker believes. A key that cannot be read approves nothing; `remit doctor` names it."""
    found = {}
    for name in having(settings, Role.APPROVE):
        section = settings.operator[name]
        try:
            key = decode_operator_key(name, section.key)
        except ValueError:
            continue
        found[f"operator:{name}"] = Approver(key=key, aliases=section.aliases)
    return MappingProxyType(found)
