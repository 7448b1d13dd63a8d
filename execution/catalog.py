"""Which intents this installation offers and how each becomes a saga.

An `Intent` joins a saga definition with a planner: the pure function that turns a proposal into the frozen parameters
that every forward function reads. Older definition versions stay in the catalog as long as commands may be running on
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from execution.core.command import Command
from execution.core.definition import SagaDefinition
from execution.ports import Ports
from execution.proposal import Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """What our own journal knows about the object: the newest version that was published.

    `version` 0 means none; `generation` is the one of that publication. post_id and external_version are of our last
    verified write, url, slug and plan (what was frozen) of the publication; `live` is False after a withdrawal. steps:
    names of those of its steps that succeeded, when they were asked for.
    """

    version: int = 0
    generation: str = ""
    post_id: str | None = None
    external_version: str | None = None
    url: str | None = None
    slug: str | None = None
    live: bool = False
    command_id: str | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The frozen parameters (JSON values only), and the resources that the saga locks.

    artifacts: bytes that forward functions will read, by reference (`artifact://sha256/<64 hex>`); they are stored
    before the command is acknowledged. notes: what whoever proposes should know of it beforehand, in fixed words.
    """

    params: Mapping[str, Any]
    resources: tuple[str, ...]
    not_before_ms: int | None = None
    base_version: str | None = None
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def _indifferent(params: Mapping[str, Any]) -> str:
    """Nothing that is configured concerns it."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One intent: its definition in force, and `plan`, which raises `IntakeRefused` for what our database alone can
    tell is wrong. `plan(proposal, content_sha256, previous)` is pure; configuration is bound when the catalog is
    composed. stored: arguments that name stored bytes, which the plan must know something of. policy: the hash of what
    the configuration says about such a plan; where it changes, effects wait for an operator."""

    name: str
    operation: str
    system: str
    object_kind: str
    definition: SagaDefinition[Ports]
    plan: Callable[[Proposal, str, Previous], Plan]
    stored: tuple[str, ...] = ()
    policy: Callable[[Mapping[str, Any]], str] = _indifferent


class Catalog:
    """Definitions by (name, version) and intents by name."""

    def __init__(self, intents: Iterable[Intent], older: Iterable[SagaDefinition[Ports]] = ()) -> None:
        self.intents = {intent.name: intent for intent in intents}
        every = [intent.definition for intent in self.intents.values()] + list(older)
        self._definitions = {(definition.name, definition.version): definition for definition in every}

    @property
    def known(self) -> frozenset[tuple[str, int]]:
        """The definitions that this process can execute."""
        return frozenset(self._definitions)

    def find(self, name: str, version: int) -> SagaDefinition[Ports] | None:
        """The definition, None when this process does not have it."""
        return self._definitions.get((name, version))

    @property
    def systems(self) -> frozenset[str]:
        """The external systems that some definition writes to."""
        definitions = self._definitions.values()
        return frozenset(action.system for definition in definitions for action in definition.actions)

    def policy_hash(self, root: Command) -> str:
        """Of the configuration of this process, as far as it concerns that command."""
        definition = self.find(root.command_type, root.definition_version)
        intent = None if definition is None else self.intents.get(definition.intent)
        return "" if intent is None else intent.policy(json.loads(root.params)["plan"])

    def definition(self, name: str, version: int) -> SagaDefinition[Ports]:
        """The definition; KeyError when this process does not have it (the command is left to one that does)."""
        return self._definitions[name, version]
