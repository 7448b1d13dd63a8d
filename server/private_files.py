"""What is wrong with a file of keys, a token or a secret, in words, and what mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from capabilities.errors import KeyFileCode, KeyFileError

_WORDS: Final = {
    KeyFileCode.NOT_REGULAR: ("is no regular file", "Name the file itself: links and folders are not followed."),
    KeyFileCode.FOREIGN_OWNER: ("belongs to another user", "It must belong to the user that runs remit: `chown` it."),
    KeyFileCode.OPEN_PERMISSIONS: ("is open to others", "Take the rights of others away: `chmod 600` it."),
    KeyFileCode.TOO_LARGE: ("is too large", "It should hold one key, token or secret and nothing else."),
    KeyFileCode.EXISTS: ("is there already", "Name another file: nothing is overwritten."),
    KeyFileCode.MALFORMED_KEY: (
        "holds no private key",
        "It must be Ed25519 in PKCS #8 PEM, as `remit init` writes it.",
    ),
    KeyFileCode.UNSUPPORTED_KEY: ("holds a key of another kind", "It must be Ed25519, as `remit init` writes it."),
    KeyFileCode.MALFORMED_KEY_SET: ("is no key set", "It must be a JWK set, as `remit init` writes it."),
}


def told(error: KeyFileError) -> tuple[str, str]:
    """A sentence without its full stop, and a fix."""
    if error.code is KeyFileCode.UNREADABLE:
        missing = not Path(error.path).exists()
        fix = "Check the path." if missing else "Let this user read it: look at its owner and mode."
        return f"{error.path} {'is not there' if missing else 'cannot be read'}", fix
    unknown = (f"is unusable ({error})", "Look at the file.")
    words, fix = _WORDS.get(error.code, unknown)
    return f"{error.path} {words}", fix
