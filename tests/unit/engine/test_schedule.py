"""A scheduled pivot: never early, and after its lateness only with a person's word."""

from dataclasses import replace
from typing import Any

import pytest

from execution.core.draft import Draft
from execution.core.horizon import Execute, Wait
from execution.core.progress import advance
from execution.core.states import Blocker, ReviewKind, State
