"""The must-use plugin for owners of WordPress sites: see remit-business-key.php beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PLUGIN: Final = Path(__file__).parent / "remit-business-key.php"
