"""OpenAI's own client at a real server, and what the benchmark of clients calls exact."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.clients import CASES, TOKEN, asked, expected, judged
from benchmarks.fault_tables import clients_table
from benchmarks.hostile import attacked
from benchmarks.openapi import below, document
from tests.support.serving import VerifierProcess

pytestmark = [pytest.mark.benchmarks, pytest.mark.bundled]


def test_openais_client_gets_what_plain_requests_get(tmp_path: Path) -> None:
    (tmp_path / "target").symlink_to(BUNDLED_TARGET)
    (tmp_path / "drafter").symlink_to(BUNDLED_DRAFTER)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with VerifierProcess(tmp_path, token_file=token) as server:
        wanted = asyncio.run(expected(f"{server.url}/v1"))
        options = argparse.Namespace(python=sys.executable, node_modules=None)
        got = asked("python", "openai_python.py", f"{server.url}/v1", options)
    assert got is not None
    assert {name: judged(wanted[name], got.get(name)) for name in CASES} == dict.fromkeys(CASES, "exact")
    assert {wanted[name]["status"] for name in CASES if "status" in wanted[name]} == {400, 401, 404}


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (None, "–"),
        ({"unsupported": True}, "–"),
        ({"texts": ["ls"], "tokens": 2}, "exact"),
        ({"texts": ["ls"]}, "exact"),
        ({"texts": ["ls "], "tokens": 2}, 'other text: ["ls "]'),
        ({"texts": ["ls"], "tokens": 3}, "other tokens: 3"),
        ({"message": "refused"}, 'other text: {"message": "refused"}'),
    ],
)
def test_only_equal_answers_are_exact(got: dict[str, object] | None, said: str) -> None:
    assert judged({"texts": ["ls"], "tokens": 2}, got) == said


def test_only_the_servers_own_error_is_exact() -> None:
    wanted = {"status": 404, "message": "There is no model"}
    assert judged(wanted, {"status": 404, "message": "Error 404: There is no model"}) == "exact"
    assert judged(wanted, {"status": 500, "message": "There is no model"}) == "status 500"
    assert judged(wanted, {"texts": ["ls"]}) == "no error"
    assert judged(wanted, {"status": 404, "message": "gone"}) == "said: gone"


def test_the_table_has_a_column_for_each_client() -> None:
    rows = [{"client": "one", "version": "1.0", "results": {"chat": "exact", "n": "–"}}]
    table = clients_table({"clients": {"machine": {"processor": "one", "cores": 2, "system": "Linux"}, "rows": rows}})
    assert "| one 1.0 |" in table and "| n | – |" in table


def test_hostile_requests_are_stood() -> None:
    found = asyncio.run(attacked(300, 5))
    assert not found["faults"] and found["same_answer"] and not found["running_sessions"]
    assert found["statuses"]["200"] > 30 and found["statuses"]["400"] > 30


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


@pytest.mark.parametrize("bound", [1, 2, 7, 10, 11, 64, 100, 999, 1000, 4104])
def test_the_numbers_below_a_bound_have_a_pattern(bound: int) -> None:
    pattern = re.compile(f"^({below(bound)})$")
    assert [number for number in range(10 * bound + 20) if pattern.match(str(number))] == list(range(bound))
    assert not pattern.match("00") and not pattern.match("01")
