"""What a hurried reader takes from a sentence: that it is published, that it is not, or neither.

Each clause is read by itself. A word that claims publication claims it, unless a negation stands before it in the same
clause (then it denies it) or the clause leaves it open (whether, until, would, to be …). "What was published" and "the
live one" name a thing and say nothing. Words that tell of failure deny. This reads what Remit writes; it is no
parser of English.
"""

import re
from enum import StrEnum
from typing import Final


class Reading(StrEnum):
    """What a clause tells about the publication."""

    CLAIMS = "claims"
    DENIES = "denies"


_CLAUSES: Final = re.compile(r"[.;:!?](?:\s+|$)|,?\s+(?:and|but)\s+", re.IGNORECASE)
_A_THING: Final = re.compile(
    r"\b(?:what (?:is|was|were|had been|has been) \w+|the live (?:one|version))\b", re.IGNORECASE
)
_CLAIMS: Final = re.compile(
    r"\b(?:published|live|online|public|posted|visible to|readers (?:can )?see|went out|gone out|goes live|went live"
    r"|done|succeeded|is up|is out|on the site|took its place|has replaced)\b",
    re.IGNORECASE,
)
_FAILURE: Final = re.compile(
    r"\b(?:failed|did not happen|has not happened|nothing (?:has )?happened|nothing exists|there is nothing"
    r"|could not be published)\b",
    re.IGNORECASE,
)
_NOT: Final = re.compile(
    r"\b(?:not|never|no longer|nothing|nobody|none|no|without|neither|nor|cannot|isn't|wasn't|hasn't)\b", re.IGNORECASE
)
_OPEN: Final = re.compile(
    r"\b(?:whether|if|unless|until|once|when|before|would|will|can|could|may|might|should|must|to be|to publish|preview"
    r"|propose[ds]?|proposing|frozen|waits?|unknown|not known)\b",
    re.IGNORECASE,
)


def readings(text: str) -> frozenset[Reading]:
    """Everything that can be read out of it."""
    return frozenset(reading for clause in _CLAUSES.split(text) if (reading := _read(clause)) is not None)


def _read(clause: str) -> Reading | None:
    plain = _A_THING.sub("that", clause)
    if _FAILURE.search(plain) and not re.search(r"\b(?:do not say|whether|if)\b", plain, re.IGNORECASE):
        return Reading.DENIES
    claim = _CLAIMS.search(plain)
    if claim is None:
        return None
    before = plain[: claim.start()]
    if _OPEN.search(before):
        return None
    return Reading.DENIES if _NOT.search(before) else Reading.CLAIMS
