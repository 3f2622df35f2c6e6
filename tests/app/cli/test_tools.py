"""`outrider ask --tools`: a real MCP server is called as far as `--allow` says, once, and what was refused is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.serving import REPOSITORY

CALL = {"name": "files__write_file", "arguments": '{"name": "note", "text": "hello"}'}
WANTS = Script(
    [{"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": CALL}]}], reason="tool_calls"
)


def test_only_what_is_allowed_is_called(outrider: Outrider, server: ChatServer, tmp_path: Path) -> None:
    server.scripts = [WANTS, Script(["Refused."]), WANTS, Script(["Written."])]
    words = (sys.executable, "-m", "tests.support.mcp_server", str(tmp_path))
    path = f"PYTHONPATH={os.pathsep.join([str(REPOSITORY), *sys.path])}"
    assert outrider("mcp", "add", "files", "--env", path, "--", *words).code == 0
    refused = outrider("ask", "--tools", "files", "write", "a", "note")
    assert refused.out == "Refused.\n" and "To allow it: --allow write_file" in refused.err
    assert not (tmp_path / "note").exists()
    assert outrider("ask", "-c", "--allow", "write_file", "now").out == "Written.\n"
    assert (tmp_path / "note").read_text() == "hello"
    assert (tmp_path / "calls").read_text().splitlines() == ["write_file"]
    exported = outrider("export").out
    assert "Tool call, refused" in exported and '"text": "hello"' in exported
    (told,) = outrider("export", "--format", "json").json["conversations"]
    assert [call["state"] for one in told["messages"] for call in one.get("calls", ())] == ["refused", "done"]
