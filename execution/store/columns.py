"""Columns as `execution.store.schema` spells them: texts, numbers, and times in Unix milliseconds."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Integer, Text, text

COUNTER: Final = BigInteger().with_variant(Integer(), "sqlite")
"""A number that the database counts up; SQLite counts only in a column of exactly this type."""


def required(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def optional(name: str) -> Column[str]:
    return Column(name, Text)


def number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def millis(name: str) -> Column[int]:
    return Column(name, BigInteger)


def where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
