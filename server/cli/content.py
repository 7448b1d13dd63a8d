"""`artifact`: content by its hash, so that an agent need not carry it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import HomeOption, JsonOption, with_installation
from server.cli.output import CommandFailed, Exit, Output, line

if TYPE_CHECKING:
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
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store a text or an image; prints the reference for `payload_ref` or `featured_image`."""
    from capabilities.resources import is_resource
    from execution.images import IMAGE_BYTES_MAX, image_type
    from execution.store import artifacts
    from server.arguments import CONTENT_BYTES_MAX

    if name is not None and not (is_resource(name) and not name.startswith("sha256/")):
        fix = "Segments of a-z, 0-9, '.', '_', '-', joined by '/', for example article/0028/v1."
        raise CommandFailed("usage", "That name is not usable.", fix, Exit.USAGE)

    async def work(at: Installation) -> None:
        content, now_ms = file.read_bytes(), at.clock.now_ms()
        image = image_type(content)
        media_type, limit = image or "text/markdown", IMAGE_BYTES_MAX if image else CONTENT_BYTES_MAX
        if len(content) > limit:
            fix = f"At most {limit} bytes of {'an image' if image else 'text'}; this is {len(content)}."
            raise CommandFailed("too_long", "The file is too large.", fix)
        digest = await at.store.transact(
            lambda conn: artifacts.put(conn, content, media_type=media_type, now_ms=now_ms, bytes_max=limit)
        )
        if name is not None:
            await at.store.transact(lambda conn: artifacts.bind(conn, name, digest, now_ms))
        data = {"ref": f"{SCHEME}sha256/{digest}", "sha256": digest, "bytes": len(content), "media_type": media_type}
        data |= {"name": f"{SCHEME}{name}"} if name else {}
        Output(as_json).show(data, *(line(str(data[key])) for key in ("ref", "name") if key in data))

    with_installation(home, work)


@artifact.command("get")
def get(
    ref: Annotated[str, typer.Argument(help="artifact://sha256/…, or artifact://NAME.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of stdout.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read stored content back."""
    from execution.store import artifacts
    from server.gateway import BY_HASH

    async def work(at: Installation) -> None:
        name = ref.removeprefix(SCHEME)
        digest: str | None = ref.removeprefix(BY_HASH)
        if not ref.startswith(BY_HASH):
            digest = await at.store.read(lambda conn: artifacts.resolve(conn, name))
        found = await at.store.read(lambda conn: artifacts.get(conn, digest or ""))
        if found is None or found.content is None:
            raise CommandFailed("artifact_missing", "Nothing is stored under that reference.", "Check the reference.")
        if out is not None:
            out.write_bytes(found.content)
        elif not as_json:
            sys.stdout.buffer.write(found.content)
            return
        data = {"sha256": found.sha256, "bytes": found.size, "media_type": found.media_type, "file": str(out or "")}
        Output(as_json).show(data, line(f"{found.size} bytes written to {out}"))

    with_installation(home, work)
