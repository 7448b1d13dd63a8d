"""Judging requests and answers by an OpenAPI document, with a validator that other people keep."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openapi_schema_validator import OAS30StrictValidator, oas30_strict_format_checker
from referencing import Registry
from referencing.jsonschema import DRAFT4


@dataclass(frozen=True, slots=True)
class Contract:
    """One document, version 3.0. What is wrong comes as words; empty is right."""

    document: Mapping[str, Any]

    @classmethod
    def of(cls, name: str) -> "Contract":
        """The document of that name beside this file."""
        return cls(json.loads(Path(__file__).with_name(name).read_text()))

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> list[str]:
        """What is wrong with a request; `path` is below the server's address, header names are lower case."""
        found = self._operation(method, path)
        if found is None:
            return [f"no operation {method} {path}"]
        operation, named = found
        wrong = []
        for parameter in operation.get("parameters", ()):
            wrong += self._errors(parameter["schema"], named[parameter["name"]])
        if not headers.get("authorization", "").startswith("Bearer "):
            wrong.append("no bearer token")
        content = operation["requestBody"]["content"].get(headers.get("content-type", ""))
        if content is None:
            return [*wrong, f"content type {headers.get('content-type')}"]
        return wrong + self._errors(content["schema"], json.loads(body))

    def answer(self, method: str, path: str, status: int, body: bytes) -> list[str]:
        """What is wrong with an answer."""
        found = self._operation(method, path)
        assert found is not None
        response = found[0]["responses"].get(str(status))
        if response is None:
            return [f"no answer {status}"]
        return self._errors(response["content"]["application/json"]["schema"], json.loads(body))

    def _operation(self, method: str, path: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        base = urlsplit(self.document["servers"][0]["url"]).path
        for template, operations in self.document["paths"].items():
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", base + template)
            match = re.fullmatch(pattern, path)
            if match and method.lower() in operations:
                return operations[method.lower()], match.groupdict()
        return None

    def _errors(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        registry = Registry().with_resource("urn:contract", DRAFT4.create_resource(dict(self.document)))
        full = json.loads(json.dumps(schema).replace('"#/', '"urn:contract#/'))
        validator = OAS30StrictValidator(full, registry=registry, format_checker=oas30_strict_format_checker)
        return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(value)]
