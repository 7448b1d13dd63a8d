"""The connection that functions of the store take: the engine names its type without importing SQLAlchemy."""

from __future__ import annotations

from sqlalchemy import Connection

__all__ = ["Connection"]
