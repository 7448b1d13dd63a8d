"""What an image file says about itself in its first bytes. Nothing is decompressed.

Four formats are taken, each told by its signature. SVG is not an image here: it is a document that can carry scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

IMAGE_BYTES_MAX: Final = 25 * 1024 * 1024
EXTENSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
)
"""Every type that is taken, and how its files are named."""


def image_type(head: bytes) -> str | None:
    """The media type that the signature proves (W3C PNG §5.2, ITU-T T.81 §B.1, GIF89a §17, RFC 9649 §2); else None."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head.startswith(b"RIFF") and head[8:12] == b"WEBP" else None
