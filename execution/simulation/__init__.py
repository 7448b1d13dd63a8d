"""The deterministic simulation: the real engine on virtual time, in modelled worlds, under every law."""

from __future__ import annotations

from execution.simulation.report import main

__all__ = ["main"]
