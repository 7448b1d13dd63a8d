"""`keys`: the issuer's keys, and changing the one that signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import HomeOption, JsonOption, OperatorOption, acting, with_installation
from server.cli.output import CommandFailed, Exit, Output, fields, line, table
from server.roles import Verb

if TYPE_CHECKING:
    from server.app import Installation
    from server.config import Config
    from server.rotating import KnownKey

keys = typer.Typer(help="The keys that tokens are signed with.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(keys, name="keys")


@keys.command("ls")
def list_keys(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """The public key set: which key signs, and until when older ones are accepted. Its digest stands in the journal
    with every command that was accepted under it."""
    from server.results import moment
    from server.rotating import key_set_digest

    async def work(at: Installation) -> None:
        found = [await _shown(at, key) for key in _known(at.config)]
        rows = [
            (key["kid"], key["algorithm"], key["standing"], *(moment(s * 1000) if s else None for s in times))
            for key in found
            for times in [(key["replaced"], key["leaves"])]
        ]
        digest = key_set_digest(at.config)
        Output(as_json).show(
            {"keys": found, "digest": digest},
            table(["key", "algorithm", "standing", "replaced", "leaves the set after"], rows),
            line(f"The set is {digest}."),
        )

    with_installation(home, work)


@keys.command("rotate")
def rotate(operator: OperatorOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Sign with a new key from now on. Tokens of the old one are accepted until they have expired."""
    from server import rotating
    from server.results import moment

    async def work(at: Installation) -> None:
        by, now_s = await acting(at, operator, Verb.KEYS_ROTATE).signs("keys"), at.clock.now_ms() // 1000
        done = rotating.rotate(at.config.home, now_s, by=by)
        data = {
            "kid": done.kid,
            "replaced": done.replaced,
            "replaced_leaves": done.leaves_s,
            "pruned": list(done.pruned),
            "key_file": str(done.key_file),
        }
        told = data | {"replaced_leaves": moment(done.leaves_s * 1000), "pruned": ", ".join(done.pruned) or None}
        output = Output(as_json)
        output.show(data, line(f"{done.kid} signs from now on.", "bold green"), fields([*told.items()]))
        output.note(
            f"Gateways on other machines need the new {at.config.settings.gateway.jwks} before its first token."
        )

    with_installation(home, work)


@keys.command("retire")
def retire(
    kid: Annotated[str, typer.Argument(help="See `remit keys ls`.")],
    now: Annotated[bool, typer.Option("--now", help="Although tokens that it signed may still be out.")] = False,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an old key out of the set. After a compromise also: `remit revoke key`, which holds what it allowed."""
    from server import rotating

    async def work(at: Installation) -> None:
        await acting(at, operator, Verb.KEYS_RETIRE).signs(kid, at_once=now)
        try:
            rotating.retire(at.config.home, kid, at.clock.now_ms() // 1000, at_once=now)
        except rotating.RotationRefused as error:
            raise CommandFailed(error.code, error.message, error.fix, Exit.AUTH) from None
        Output(as_json).show({"kid": kid, "retired": True}, line(f"{kid} is not accepted any more."))

    with_installation(home, work)


def _known(config: Config) -> tuple[KnownKey, ...]:
    from server.rotating import known_keys

    return known_keys(config)


async def _shown(at: Installation, key: KnownKey) -> dict[str, Any]:
    from capabilities.revocation import RevocationKind, RevocationScope
    from execution.store import authority

    name = authority.revocation(RevocationScope(tenant=at.tenant, kind=RevocationKind.KEY, value=key.kid))
    revoked = bool(await at.store.read(lambda conn: authority.in_force(conn, (name,))))
    standing = "revoked" if revoked else "signs" if key.signs else "accepted"
    return {
        "kid": key.kid,
        "algorithm": key.algorithm,
        "standing": standing,
        "signs": key.signs,
        "revoked": revoked,
        "replaced": key.replaced_s,
        "leaves": key.leaves_s,
    }
