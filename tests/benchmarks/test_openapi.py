"""The schema of OpenAI's routes, which tools such as schemathesis read."""

from __future__ import annotations

import json
import re

from benchmarks.openapi import document


def test_the_schema_names_what_it_refers_to() -> None:
    told = document(4104)
    assert {path: list(methods) for path, methods in told["paths"].items()} == {
        "/v1/chat/completions": ["post"], "/v1/completions": ["post"],
        "/v1/models": ["get"], "/v1/models/{name}": ["get"],
    }  # fmt: skip
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)))
    assert {"ChatRequest", "TextRequest", "Completion", "TextCompletion", "Models", "Error"} <= named
    assert named == told["components"]["schemas"].keys()
    assert "/v1/completions" not in document(4104, gateway=True)["paths"]
