"""The behaviours that Remit must show: id → sentence → source. A test that shows one is marked with its id:

    @pytest.mark.behaviour("publish.once")
    def test_...

`tests/repo/test_behaviours.py` holds the tie in both directions: no id without a test, no mark without an id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    sentence: str  # what somebody can observe
    source: str  # the law, RFC or vendor page that demands it


BEHAVIOURS: Final[Mapping[str, Behaviour]] = MappingProxyType({})
