"""Does our own code run, and can others change it? The packages have plain names, which something else may shadow."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Final

from execution.ports import Severity, Symptom

PACKAGES: Final = ("server", "adapters", "execution", "capabilities")
MIXED: Final = "packages_mixed"
"""With this one nothing else can be looked at: it is not our code that would look."""
_WRITABLE_BY_OTHERS: Final = 0o022
LISTED_MAX: Final = 3


def symptoms() -> tuple[Symptom, ...]:
    """Of the four packages as this process would load them."""
    places = {name: found for name in PACKAGES if (found := _place(name)) is not None}
    return (_origin(places), _writers(places))


def _place(name: str) -> Path | None:
    spec = util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve().parent


def _origin(places: dict[str, Path]) -> Symptom:
    parents = {place.parent for place in places.values()}
    if len(places) != len(PACKAGES) or len(parents) != 1:
        detail = ", ".join(f"{name} from {place.parent}" for name, place in places.items())
        fix = "Something of the same name stands in the way: start `remit` elsewhere and clear PYTHONPATH."
        return Symptom(code=MIXED, severity=Severity.PROBLEM, detail=detail, fix=fix)
    (parent,) = parents
    if parent in _installed_places():
        return Symptom(code="packages_as_installed", detail=str(parent))
    how = "the folder where you are" if parent == Path.cwd() else "PYTHONPATH"
    fix = "Run the installed command `remit` from a folder without packages of these names, with PYTHONPATH empty."
    detail = f"{parent}, by way of {how}; the installed release lies elsewhere"
    return Symptom(code="packages_shadowed", severity=Severity.WARNING, detail=detail, fix=fix)


def _installed_places() -> frozenset[Path]:
    """Where the installed distribution keeps its packages; an editable one keeps them where its source is."""
    try:
        found = metadata.distribution("remit")
    except metadata.PackageNotFoundError:
        return frozenset()
    named = [Path(str(found.locate_file(""))), *(Path(line) for line in _path_files(found))]
    return frozenset(place.resolve() for place in named)


def _path_files(found: metadata.Distribution) -> Iterator[str]:
    """Folders that the distribution's own .pth file puts on the path (site, "path configuration files")."""
    for file in found.files or ():
        if file.name.endswith(".pth"):
            yield from (line.strip() for line in file.read_text().splitlines() if line.strip().startswith("/"))


def _writers(places: dict[str, Path]) -> Symptom:
    open_ = sorted({str(path) for place in places.values() for path in _changeable(place)})
    if not open_:
        return Symptom(code="packages_protected", detail="only their owner and root can change them")
    more = f" and {len(open_) - LISTED_MAX} more" if len(open_) > LISTED_MAX else ""
    detail = ", ".join(open_[:LISTED_MAX]) + more
    fix = "Take the right to write from group and others (chmod -R go-w): who changes this code has every credential."
    return Symptom(code="packages_writable", severity=Severity.WARNING, detail=detail, fix=fix)


def _changeable(place: Path) -> Iterator[Path]:
    """Modules that somebody else may change, and folders above in which they could be exchanged."""
    for path in (*place.rglob("*.py"), *place.rglob("*/"), place, *place.parents):
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if mode & _WRITABLE_BY_OTHERS and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX) and not stat.S_ISLNK(mode):
            yield path
