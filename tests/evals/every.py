"""All situations, in the order in which they are told."""

from tests.evals import asked, decided, in_trouble, under_way
from tests.evals.situations import SITUATIONS

__all__ = ["SITUATIONS", "asked", "decided", "in_trouble", "under_way"]
