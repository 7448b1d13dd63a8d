"""What a model is told about the tools changes only on purpose: the lists are pinned by their hash."""

import hashlib
import json

import pytest

from server.protocol import listed
from server.tools import PROPOSE, QUERY, ToolText

PINS = {
    "propose_publish": "059c9eec861459f1af044cd5fb408a8ac4fe9b2eb31b060388e87834ba573939",
    "query_command_status": "50178b0c18094ae34df9d614c0b0fcb67c9dfefc05925824249f93939aaa8671",
}


def digest(tool: ToolText) -> str:
    document = listed(tool).model_dump(mode="json", by_alias=True, exclude_none=True)
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize("tool", [PROPOSE, QUERY], ids=lambda tool: tool.name)
def test_a_tool_is_the_one_that_was_reviewed(tool: ToolText) -> None:
    """When this fails on purpose: read the description as a model would, then pin it anew."""
    assert digest(tool) == PINS[tool.name]
