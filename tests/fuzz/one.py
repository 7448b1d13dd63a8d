"""`python -m tests.fuzz.one TARGET SECONDS FOLDER`: fuzz one target in this process, which ends with it."""

import os
import sys
from pathlib import Path
from typing import Final

import atheris

with atheris.instrument_imports(include=["capabilities", "execution", "adapters", "server"]):
    from tests.fuzz.targets import TARGETS

from tests.fuzz.mutating import mutated

SLOW_S: Final = 10
"""One input that takes longer is a failure."""
MEMORY_MB: Final = 2_048


def fuzz(name: str, seconds: str, folder: Path) -> None:
    """Never returns: the fuzzer ends the process, with another status than 0 when an input failed."""
    target = TARGETS[name]
    folder.mkdir()
    for number, seed in enumerate(target.seeds):
        (folder / f"seed-{number}").write_bytes(seed)
    os.chdir(folder.parent)
    limits = (f"-max_total_time={seconds}", f"-timeout={SLOW_S}", f"-rss_limit_mb={MEMORY_MB}")
    shown = ("-verbosity=0", "-print_final_stats=1")
    arguments = [sys.argv[0], *limits, *shown, f"-max_len={target.bytes_max}", folder.name]
    atheris.Setup(arguments, target.run, custom_mutator=_mutate)
    atheris.Fuzz()


def _mutate(data: bytes, bytes_max: int, seed: int) -> bytes:
    changed = mutated(data, seed) if seed % 4 else None
    return bytes(atheris.Mutate(data, bytes_max)) if changed is None or len(changed) > bytes_max else changed


if __name__ == "__main__":
    fuzz(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
