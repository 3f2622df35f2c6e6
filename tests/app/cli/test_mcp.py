"""`outrider mcp`: servers are added, tested, imported from other clients' files, and removed with their tokens."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
import urllib.request
from pathlib import Path

import pytest

from app.config import Folders
from app.tools.servers import Servers
from tests.support.commands import Outrider
from tests.support.mcp_process import over_http
from tests.support.patience import PATIENCE_SECONDS

VS_CODE = """\
{ // as VS Code writes it
  "inputs": [{"id": "github-token", "type": "promptString"}],
  "servers": {
    "My GitHub": {"type": "http", "url": "https://api.example/mcp", "headers": {"Authorization": "Bearer ${input:github-token}"}},
    "old": {"type": "sse", "url": "https://old.example/sse"},
    "files": {"command": "files // not a comment", "args": ["${HOME},}"]}, /* and a comma too many: */
  },
}
"""  # noqa: E501


def test_a_server_is_added_tested_listed_and_removed(
    outrider: Outrider, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tools.servers.START_SECONDS", PATIENCE_SECONDS)
    assert outrider("mcp").says(0, "no MCP servers; add one: outrider mcp add NAME -- COMMAND…")
    command = [sys.executable, "-m", "tests.support.mcp_server", str(tmp_path)]
    added = outrider("mcp", "add", "t", "--env", "TOKEN", "--env", "A=b=c", "--", *command)
    assert added.says(0, "outrider mcp test t")
    file = home / "config" / "mcp.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = json.loads(file.read_text())["mcpServers"]["t"]
    assert kept == {"command": command[0], "args": command[1:], "env": {"TOKEN": "${TOKEN}", "A": "b=c"}}
    assert outrider("mcp", "test", "t").says(3, "the variable TOKEN is not set")
    assert outrider("mcp", "add", "t", "--", "x").says(2, "--replace replaces it")
    assert outrider("mcp", "add", "t", "--replace", "--", *command).code == 0
    tested = outrider("mcp", "test", "t")
    assert tested.says(0, "t answered in ") and tested.says(0, "has 8 tools")
    assert tested.out.splitlines()[0] == "write_file  (writes, destructive)  Write a file."
    assert outrider("mcp", "list", "--json").json == {"name": "t", "command": command[0], "args": command[1:]}
    assert outrider("mcp", "rm", "t").code == 0 and outrider("mcp", "list").out == ""
    assert outrider("mcp", "test", "t").says(2, "there is no MCP server 't'")


@pytest.mark.usefixtures("no_ring")
def test_a_token_belongs_to_its_address_and_goes_with_the_server(outrider: Outrider, home: Path) -> None:
    add = ("mcp", "add", "wiki", "https://wiki.example/mcp")
    assert outrider(*add, "--token-stdin", stdin="sesame-123").code == 0
    assert "sesame" not in (home / "config" / "mcp.json").read_text()
    tokens = home / "config" / "tokens.json"
    assert json.loads(tokens.read_text()) == {"mcp:wiki https://wiki.example:443": "sesame-123"}
    moved = (*add[:-1], f"{add[-1]}/2", "--replace", "--token-stdin")
    assert outrider(*moved, stdin="sesame-456").code == 0
    assert json.loads(tokens.read_text()) == {"mcp:wiki https://wiki.example:443": "sesame-456"}
    assert outrider(*add, "--replace", "--token-env", "WIKI").code == 0 and json.loads(tokens.read_text()) == {}
    assert outrider("mcp", "list").out == "wiki  https://wiki.example/mcp  Authorization\n"
    assert outrider(*add, "--replace", "--token-stdin", stdin="sesame-123").code == 0
    assert outrider("mcp", "rm", "wiki").code == 0 and json.loads(tokens.read_text()) == {}


@pytest.mark.usefixtures("no_ring")
def test_one_signs_in_with_the_browser_and_stays_signed_in_until_the_server_forgets(
    outrider: Outrider, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tools.servers.START_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr("app.tools.sign_in.has_browser", lambda environment: True)
    monkeypatch.setattr("webbrowser.open", lambda address: urllib.request.urlopen(address).read())
    tokens = home / "config" / "tokens.json"
    with over_http(tmp_path, "--login") as port:
        assert outrider("mcp", "add", "wiki", f"http://127.0.0.1:{port}/mcp").code == 0
        assert outrider("mcp", "test", "wiki").says(3, "outrider mcp login wiki")
        (tmp_path / "refused").touch()
        assert outrider("mcp", "login", "wiki").says(3, "the sign-in was refused: the person said no")
        (tmp_path / "refused").unlink()
        assert outrider("mcp", "login", "wiki").says(0, "signed in to wiki")
        assert outrider("mcp", "test", "wiki").says(0, "has 1 tool")
        [(account, kept)] = json.loads(tokens.read_text()).items()
        assert account == f"mcp-login:wiki http://127.0.0.1:{port}" and not (tmp_path / "calls").exists()
        tokens.write_text(json.dumps({account: json.dumps(json.loads(kept) | {"expires": 1.0})}))
        assert outrider("mcp", "test", "wiki").code == 0 and (tmp_path / "calls").read_text() == "refresh\n"
        assert outrider("mcp", "test", "wiki").code == 0 and (tmp_path / "calls").read_text() == "refresh\n"
        kept = json.loads(tokens.read_text())[account]
        tokens.write_text(json.dumps({account: json.dumps(json.loads(kept) | {"expires": 1.0})}))
        asyncio.run(_two_windows(Folders(home / "config", tmp_path, tmp_path)))
        assert (tmp_path / "calls").read_text() == "refresh\n" * 2
    with over_http(tmp_path, "--login", port):  # It knows nobody any more.
        assert outrider("mcp", "test", "wiki").says(
            3, "sign-in to wiki has expired, or cannot be renewed now: outrider mcp login wiki"
        )
    assert outrider("mcp", "rm", "wiki").code == 0 and json.loads(tokens.read_text()) == {}


async def _two_windows(folders: Folders) -> None:
    """Both renew the same tokens, each of which the server takes once."""
    windows = [Servers(folders), Servers(folders)]
    try:
        found = await asyncio.gather(*(window.offered(["wiki"]) for window in windows))
        assert [len(tools) for tools in found] == [1, 1]
    finally:
        await asyncio.gather(*(window.aclose() for window in windows))


@pytest.mark.parametrize("kept", [False, True])
def test_the_servers_of_another_client_are_imported(outrider: Outrider, home: Path, tmp_path: Path, kept: bool) -> None:
    file, other = home / "config" / "mcp.json", tmp_path / "other.json"
    if kept:
        file.parent.mkdir(parents=True)
        file.write_text('{"mine": 1, "mcpServers": {"files": {"command": "a", "disabled": true}}}')
    other.write_text(VS_CODE)
    done = outrider("mcp", "import", str(other))
    assert done.out.split() == ["My-GitHub"] + ["files"] * (not kept)
    assert done.says(1, "left out old: it is reached over SSE") and done.says(1, "My-GitHub needs GITHUB_TOKEN in the")
    content = json.loads(file.read_text())
    assert content["mcpServers"]["My-GitHub"]["headers"] == {"Authorization": "Bearer ${GITHUB_TOKEN}"}
    files = {"command": "files // not a comment", "args": ["${HOME},}"]}
    assert content["mcpServers"]["files"] == ({"command": "a", "disabled": True} if kept else files)
    assert content.get("mine") == (1 if kept else None)
    broken = '{"mcpServers": {"x": {}}}'
    file.write_text(broken)
    assert outrider("mcp", "import", str(other)).says(2, "the MCP server x cannot be read: it needs either a command")
    assert file.read_text() == broken
