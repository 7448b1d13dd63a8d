"""`artifact`: content by its hash, so that an agent need not carry it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import HomeOption, JsonOption, OperatorOption, ReasonOption, acting, with_installation
from server.cli.output import CommandFailed, Exit, Output, line, on_terminal
from server.roles import Verb

if TYPE_CHECKING:
    from execution.store.connection import Connection
    from server.app import Installation

SCHEME = "artifact://"
artifact = typer.Typer(help="Stored content.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(artifact, name="artifact")


@artifact.command("put")
def put(
    file: Annotated[Path, typer.Argument(help="The file to store.", exists=True, dir_okay=False)],
    name: Annotated[
        str | None, typer.Option("--name", help="Bind a name to it for good, e.g. article/0028/v1.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="What a text is: markdown, html or blocks. Images are recognised.")
    ] = "markdown",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store a text or an image; prints the reference for `payload_ref` or `featured_image`."""
    from capabilities.resources import is_resource
    from execution.images import IMAGE_BYTES_MAX
    from execution.store import artifacts
    from server.gateway import MEDIA_TYPES

    if name is not None and not (is_resource(name) and not name.startswith("sha256/")):
        fix = "Segments of a-z, 0-9, '.', '_', '-', joined by '/', for example article/0028/v1."
        raise CommandFailed("usage", "That name is not usable.", fix, Exit.USAGE)
    if format_ not in MEDIA_TYPES:
        fix = f"Use one of: {', '.join(MEDIA_TYPES)}."
        raise CommandFailed("usage", "There is no such format.", fix, Exit.USAGE)
    if file.stat().st_size > IMAGE_BYTES_MAX:  # whatever it is; nothing larger need be read to say so
        raise _too_large(file.stat().st_size, IMAGE_BYTES_MAX)

    async def work(at: Installation) -> None:
        who = acting(at, operator, Verb.ARTIFACT_PUT)
        content, now_ms = file.read_bytes(), at.clock.now_ms()
        media_type, limit = _kind(content, MEDIA_TYPES[format_])
        await who.signs(hashlib.sha256(content).hexdigest(), name=name)

        def store(conn: Connection) -> str:
            stored = artifacts.put(conn, content, media_type=media_type, now_ms=now_ms, bytes_max=limit)
            if name is not None:
                artifacts.bind(conn, name, stored, now_ms)
            return stored

        digest = await at.store.transact(store)
        data = {"ref": f"{SCHEME}sha256/{digest}", "sha256": digest, "bytes": len(content), "media_type": media_type}
        data |= {"name": f"{SCHEME}{name}"} if name else {}
        Output(as_json).show(data, *(line(str(data[key])) for key in ("ref", "name") if key in data))

    with_installation(home, work)


def _kind(content: bytes, text_type: str) -> tuple[str, int]:
    """The media type, and how many bytes of it are taken."""
    from execution.images import IMAGE_BYTES_MAX, image_type
    from server.arguments import CONTENT_BYTES_MAX

    image = image_type(content)
    limit = IMAGE_BYTES_MAX if image else CONTENT_BYTES_MAX
    if len(content) > limit:
        raise _too_large(len(content), limit)
    if image is None:
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            fix = "Save the text as UTF-8. Images that are taken: PNG, JPEG, GIF, WebP."
            raise CommandFailed("not_text", "That is neither text nor an image that is taken.", fix) from None
    return image or text_type, limit


def _too_large(actual: int, limit: int) -> CommandFailed:
    return CommandFailed("too_long", "The file is too large.", f"At most {limit} bytes; this is {actual}.")


@artifact.command("get")
def get(
    ref: Annotated[str, typer.Argument(help="artifact://sha256/…, or artifact://NAME.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of stdout.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read stored content back."""
    from execution.store import artifacts

    async def work(at: Installation) -> None:
        digest = await _digest(at, ref)
        found = await at.store.read(lambda conn: artifacts.get(conn, digest))
        if found is None:
            raise CommandFailed("artifact_missing", "Nothing is stored under that reference.", "Check the reference.")
        if found.content is None:
            raise CommandFailed(
                "artifact_erased", "It was erased; its hash alone is kept.", "Store it again if you must."
            )
        if out is not None:
            out.write_bytes(found.content)
        elif not as_json:
            sys.stdout.buffer.write(found.content)
            return
        data = {"sha256": found.sha256, "bytes": found.size, "media_type": found.media_type, "file": str(out or "")}
        Output(as_json).show(data, line(f"{found.size} bytes written to {out}"))

    with_installation(home, work)


@artifact.command("erase")
def erase(
    ref: Annotated[str, typer.Argument(help="artifact://sha256/…, or artifact://NAME.")],
    reason: ReasonOption = "erased by an operator",
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove stored content for good. Its hash stays, so that the journal's chains stay whole."""

    async def work(at: Installation) -> None:
        from execution.erasing import erase as erase_content
        from execution.store.condition import empty_log
        from server.approving import operating

        who, digest = acting(at, operator, Verb.ARTIFACT_ERASE), await _digest(at, ref)
        _confirm(digest, yes=yes, as_json=as_json)
        by = await who.signs(digest, reason=reason)
        async with operating():
            concerned = await erase_content(at.store, at.clock, digest, operator=by, reason=reason)
        emptied = empty_log(at.config.database)
        data = {"sha256": digest, "erased": True, "commands": list(concerned), "log_emptied": emptied}
        rest = "" if emptied else " A reader holds the write-ahead log: a copy stays in it until that ends."
        Output(as_json).show(data, line(f"{digest} is erased; {len(concerned)} commands say so.{rest}"))

    with_installation(home, work)


def _confirm(digest: str, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not on_terminal():
        raise CommandFailed("confirmation_needed", "Nothing was erased.", "Add --yes.", Exit.USAGE)
    if typer.prompt("It cannot be brought back. Type the first eight digits of its hash") != digest[:8]:
        raise CommandFailed("not_confirmed", "Nothing was erased.")


async def _digest(at: Installation, ref: str) -> str:
    """The SHA-256 that a reference means."""
    from execution.store import artifacts
    from server.gateway import BY_HASH

    if ref.startswith(BY_HASH):
        return ref.removeprefix(BY_HASH)
    name = ref.removeprefix(SCHEME)
    found = await at.store.read(lambda conn: artifacts.resolve(conn, name))
    if found is None:
        raise CommandFailed("artifact_missing", "Nothing is stored under that reference.", "Check the reference.")
    return found
