"""Tools of real MCP servers: they are called once, whatever breaks, and nothing of a server stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.uri_template import UriTemplate

from app.config import Folders
from app.tools import servers as module
from app.tools.servers import MOST_TEXT, Servers
from app.tools.tool import ServerResource, Tool, ToolGone, form_of
from tests.remote.toy_verifier import http, listening, request_of
from tests.support.conversing import until
from tests.support.mcp_process import SERVER, over_http
from tests.support.patience import PATIENCE_SECONDS

HOSTILE = """
import json, sys

many = [{"name": str(at)} for at in range(1000)]
contents = {
    "x://letters": {"blob": "na\\u00efve"},
    "x://huge": {"text": "\\x1b[m" * 1_000_000},
    "x://bytes": {"blob": "AP8="},
}
written = {"huge": "\\x1b[m" * 100_000, "empty": "\\x1b[m"}
for line in sys.stdin:
    asked = json.loads(line)
    about = asked.get("params") or {}
    match asked["method"]:
        case "initialize":
            can = {"prompts": {}, "resources": {}}
            about = {"name": "hostile", "version": "0"}
            answer = {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": about}
        case "prompts/list":
            names = [*written, "x" * 501]
            answer = {"prompts": [{"name": "many", "arguments": many}, *({"name": name} for name in names)]}
        case "resources/list":
            answer = {"resources": [{"name": uri, "uri": uri} for uri in [*contents, "x://" + "x" * 500]]}
        case "prompts/get":
            text = {"type": "text", "text": written[about["name"]]}
            answer = {"messages": [{"role": "user", "content": text}]}
        case "resources/read":
            answer = {"contents": [{"uri": about["uri"], **contents[about["uri"]]}]}
        case _:
            answer = None
    if "id" in asked:
        said = {"error": {"code": -32601, "message": "no"}} if answer is None else {"result": answer}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""
"""A server without tools, whose prompts and resources are too long, too many or not what they should be."""


class Place:
    """A settings folder with an `mcp.json`, and what the test server notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folders = Folders(folder / "config", folder / "data", folder / "logs")
        self.folders.config.mkdir()
        self.environment = dict(os.environ)

    def servers(self, **servers: dict[str, Any]) -> Servers:
        (self.folders.config / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        return Servers(self.folders, self.environment)

    def local(self) -> dict[str, Any]:
        return {"command": sys.executable, "args": [*SERVER, str(self.folder)], "env": {"SECRET": "${SECRET}"}}

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().split() if (self.folder / "calls").exists() else []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for limit in ("START_SECONDS", "LIST_SECONDS", "CONNECT_SECONDS"):
        monkeypatch.setattr(module, limit, PATIENCE_SECONDS)
    place = Place(tmp_path)
    place.environment["SECRET"] = "open sesame"
    return place


@pytest.fixture
async def close() -> AsyncIterator[Callable[[Servers], Servers]]:
    opened: list[Servers] = []
    yield lambda servers: opened.append(servers) or servers  # type: ignore[func-returns-value]
    for servers in opened:
        await servers.aclose()


async def named(servers: Servers, name: str) -> dict[str, Tool]:
    return {tool.name: tool for tool in await servers.offered([name])}


def alive(process: int) -> bool:
    """Whether it runs. One that has ended may wait for a parent that never asks."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


async def test_calls_give_bounded_text_run_at_once_and_are_not_repeated_if_the_server_ends(
    place: Place, close: Callable[[Servers], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = close(place.servers(t=place.local()))
    tools = await named(servers, "t")
    assert tools["write_file"].full_name == "t__write_file" and tools["write_file"].said == ("writes", "destructive")
    assert tools["write_file"].schema["required"] == ["name", "text"] and tools["slow"].said == ()
    assert (await servers.call(tools["write_file"], {"name": "a", "text": "hello"})).text == "wrote 5 characters"
    assert (place.folder / "a").read_text() == "hello"
    seen = set((await servers.call(tools["environment"], {})).text.split())
    assert {"HOME", "PATH", "SECRET"} <= seen and not {"USER", "PYTEST_CURRENT_TEST"} & seen
    met = await asyncio.gather(*(servers.call(tools["meet"], {"name": name}) for name in ("a", "b")))
    assert [one.text for one in met] == ["a met somebody", "b met somebody"]
    huge = await servers.call(tools["huge"], {})
    assert (len(huge.text), huge.cut) == (MOST_TEXT, 1_000_000 - MOST_TEXT)
    assert (await servers.call(tools["picture"], {})).text == "a picture\n[image/png of 300 bytes, left out]"
    wrong = await servers.call(tools["wrong"], {})
    assert wrong.failed and "wrong" in wrong.text

    (place.folder / "calls").unlink()
    other = asyncio.create_task(servers.call(tools["slow"], {}))
    await until(lambda: place.calls == ["slow"])
    with pytest.raises(ToolGone, match=r"exit code 7.*the roof is on fire.*carried out is unknown") as gone:
        await servers.call(tools["die"], {})
    assert gone.value.begun
    with pytest.raises(ToolGone) as gone:
        await other
    assert gone.value.begun and place.calls == ["slow", "die"]
    both = (servers.call(tools["write_file"], {"name": name, "text": ""}) for name in "ab")
    await asyncio.gather(*both)  # One of them starts it.
    link = servers._servers["t"]._link
    assert link is not None and link.child is not None
    os.kill(link.child._process.pid, signal.SIGKILL)
    await until(lambda: link.ended)
    assert (await servers.call(tools["write_file"], {"name": "c", "text": ""})).text
    assert place.calls == ["slow", "die", *["write_file"] * 3]
    monkeypatch.setattr(module, "CALL_SECONDS", 0.1)
    with pytest.raises(
        ToolGone, match="did not answer within 0 s; whether the call was carried out is unknown"
    ) as gone:
        await servers.call(tools["slow"], {})
    assert gone.value.begun


async def test_prompts_and_resources_are_bounded_before_they_are_cleaned(
    place: Place, close: Callable[[Servers], Servers]
) -> None:
    servers = close(place.servers(h={"command": sys.executable, "args": ["-c", HOSTILE]}))
    assert await servers.offered(["h"]) == ()
    prompts = {one.name: one for one in await servers.prompts("h")}
    assert list(prompts) == ["huge", "empty"]
    assert [one.uri for one in await servers.resources("h")] == ["x://letters", "x://huge", "x://bytes"]
    with pytest.raises(ToolGone, match="300,000 characters"):
        await servers.fill(prompts["huge"], {})
    with pytest.raises(ToolGone, match="h writes nothing for empty"):
        await servers.fill(prompts["empty"], {})
    with pytest.raises(ToolGone, match="not base64"):
        await servers.read("h", "x://letters")
    with pytest.raises(ToolGone, match=r"more than 1\.0 MB"):
        await servers.read("h", "x://huge")
    assert await servers.read("h", "x://bytes") == b"\0\xff"


async def test_what_does_not_start_is_explained_and_leaves_nothing_behind(
    place: Place, close: Callable[[Servers], Servers], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stubborn = (
        f"trap '' TERM; (trap '' TERM; echo > {tmp_path}/up; while :; do sleep 1; done)& echo $! > {tmp_path}/pid; wait"
    )
    servers = close(
        place.servers(
            none={"command": "no-such-command"},
            ended={"command": "sh", "args": ["-c", 'echo "no key: $KEY" >&2; exit 3'], "env": {"KEY": "${SECRET}"}},
            echo={"command": "cat"},
            chat={"command": "echo", "args": ["Hello!"]},
            stubborn={"command": "sh", "args": ["-c", stubborn]},
            variable={"command": "${NOWHERE}"},
            closed={"url": "http://127.0.0.1:1/mcp"},
        )
    )
    wanted = {
        "none": "there is no command no-such-command; install it",
        "ended": r"ended \(exit code 3\). Its last lines: no key: \[hidden\]",
        "echo": "does not follow the MCP protocol",
        "chat": "other than MCP to its output: Hello!",
        "variable": "NOWHERE is not set",
        "closed": "http://127.0.0.1:1/mcp cannot be reached",
        "unknown": "there is no MCP server 'unknown'; yours: none, ended",
    }
    for name, words in wanted.items():
        with pytest.raises(ToolGone, match=words) as gone:
            await servers.offered([name])
        assert not gone.value.begun
    monkeypatch.setattr("app.tools.child.GRACE_SECONDS", 0.2)
    given_up = asyncio.create_task(servers.offered(["stubborn"]))
    noted = tmp_path / "pid"
    await until(lambda: (tmp_path / "up").exists() and noted.exists() and bool(noted.read_text()))
    given_up.cancel()
    await asyncio.wait([given_up])
    process = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(process))


async def test_closing_ends_a_server_that_is_starting_and_starts_none_for_those_who_wait(
    place: Place, close: Callable[[Servers], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 1e9)
    monkeypatch.setattr("app.tools.child.GRACE_SECONDS", 0.2)
    stubborn = f"trap '' TERM; echo $$ >> {place.folder}/calls; while :; do sleep 1; done"
    servers = close(place.servers(s={"command": "sh", "args": ["-c", stubborn]}))
    asked = [asyncio.create_task(servers.offered(["s"])) for _ in range(2)]
    await until(lambda: len(place.calls) == 1)
    link = servers._servers["s"]._link
    assert link is not None and link._task is not None and (child := link.child) is not None
    await until(lambda: bool(child._tasks))
    asked[0].cancel()
    await until(lambda: child._process.stdin is not None and child._process.stdin.is_closing())
    link._task.cancel()  # As `asyncio.run` does, once the window has ended.
    async with asyncio.timeout(PATIENCE_SECONDS):
        await servers.aclose()
        with pytest.raises(ToolGone, match="about to end"):
            await asked[1]
    assert child.exit_code == -signal.SIGKILL and len(place.calls) == 1
    assert not alive(int(place.calls[0]))


async def test_a_server_over_http_takes_its_token_and_may_be_restarted_between_calls(
    place: Place, close: Callable[[Servers], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    with over_http(place.folder) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        servers = close(
            place.servers(
                right={"url": url, "headers": {"Authorization": "Bearer ${SECRET}"}},
                wrong={"url": url, "headers": {"Authorization": "Bearer no"}},
                nothing={"url": url + "/x", "headers": {"Authorization": "Bearer ${SECRET}"}},
            )
        )
        tools = await named(servers, "right")
        assert (await servers.call(tools["write_file"], {"name": "a", "text": ""})).text
        with pytest.raises(ToolGone, match="right refuses it: .*memo://gone"):
            await servers.read("right", "memo://gone")
        with pytest.raises(ToolGone, match=r"rejects this token, or requires one \(HTTP status 401\)"):
            await servers.offered(["wrong"])
        with pytest.raises(ToolGone, match="no MCP server at"):
            await servers.offered(["nothing"])
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    with pytest.raises(ToolGone) as gone:
        await servers.call(tools["write_file"], {"name": "b", "text": ""})
    assert not gone.value.begun  # It was tried before the call.
    with over_http(place.folder, port=port):
        assert (await servers.call(tools["write_file"], {"name": "b", "text": ""})).text
        monkeypatch.setattr(module, "IDLE_SECONDS", 1e9)
        with pytest.raises(ToolGone, match="unknown") as gone:
            await servers.call(tools["die"], {})
        assert gone.value.begun
    assert place.calls == ["write_file", "write_file", "die"]


@pytest.mark.parametrize(
    ("encoding", "said"), [("identity", "sent a message of more than 1 MB"), ("gzip", "compresses its answers")]
)
async def test_an_answer_over_http_is_not_read_beyond_the_longest_message(
    encoding: str, said: str, place: Place, close: Callable[[Servers], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, left = 0, asyncio.Event()

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        asked = json.loads((await request_of(reader))[1] or b"{}")
        result: dict[str, Any] = {}
        if asked.get("method") == "initialize":
            about = {"protocolVersion": asked["params"]["protocolVersion"], "serverInfo": {"name": "s", "version": "1"}}
            result = {**about, "capabilities": {"tools": {}}}
        elif asked.get("method") == "tools/list":
            result = {"tools": [{"name": "long", "inputSchema": {"type": "object"}}]}
        elif asked.get("method") == "tools/call":
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: {encoding}\r\n"
            writer.write(f"{head}connection: close\r\n\r\n".encode())
            with contextlib.suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b" " * 65536)
                    await writer.drain()
                    sent += 65536
            left.set()
            return
        if "id" not in asked:
            writer.write(http(b"", status="202 Accepted"))
        else:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
            writer.write(http(json.dumps(answer).encode(), content_type="application/json"))
        await writer.drain()

    monkeypatch.setattr(module, "MOST_LINE", 1 << 20)
    async with listening(serve) as port:
        servers = close(place.servers(far={"url": f"http://127.0.0.1:{port}/mcp"}))
        tools = await named(servers, "far")
        with pytest.raises(ToolGone, match=f"{said}.*unknown") as gone:
            await servers.call(tools["long"], {})
        assert gone.value.begun
        async with asyncio.timeout(PATIENCE_SECONDS):
            await left.wait()
        assert sent < 32 << 20


async def test_a_server_ends_with_the_program_even_if_it_is_killed(place: Place) -> None:
    place.servers(t={"command": sys.executable, "args": ["-c", HOSTILE]})
    program = (
        "import asyncio, pathlib, sys\n"
        "from app.config import Folders\nfrom app.tools import servers as module\n"
        "from app.tools.servers import Servers\n"
        "async def main():\n"
        "    folder = pathlib.Path(sys.argv[1])\n"
        "    module.START_SECONDS = 90\n"
        "    servers = Servers(Folders(folder / 'config', folder / 'data', folder / 'logs'))\n"
        "    await servers.offered(['t'])\n"
        "    print(servers._servers['t']._link.child._process.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(place.folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    server = int(process.stdout.readline())
    process.kill()
    process.communicate()
    await until(lambda: not alive(server))


@pytest.mark.parametrize(
    "template",
    [
        "note://{shelf}/{title}", "file:///{+path}", "s://all{?q,lang}", "repo://{owner}/{+path}{?rev}", "x://{a,b}",
        "x{/a,b}{#f}", "x?y=1{&q,r}", "x{?a}{&b}", "{+uri}", "x{;a,b}", "name{.ext}", "x://{a}?",
    ],
)  # fmt: skip
def test_a_template_that_is_filled_in_is_what_the_sdk_makes_of_its_variables(template: str) -> None:
    resource, values = ServerResource("t", template, "", template=True), dict[str, str]()
    typed, form = resource.start, form_of(template)
    while form and (blank := resource.blank(typed)) and (blank.names or blank.name not in ("", *values)):
        if blank.name:
            assert list(blank.known) == list(values)
            values[blank.name] = "ä b%41%,x" if blank.safe else "ä b/?#&=%41%,x"
            typed = blank.filled(values[blank.name])
            typed += "&" if blank.name in form.query else "?" * bool(form.query and blank.name == form.slots[-1].name)
        else:
            typed = f"{blank.before}{blank.names[0]}="
    parsed = UriTemplate.parse(template)
    assert list(values) == parsed.variable_names and typed.removesuffix("&") == parsed.expand(values)


@pytest.mark.parametrize("template", ["x{a}{b}", "x{a:3}", "x{?a}y", "x{?a}/{b}", "x{?a}{?b}", "x{|a}", "x{a", "x{}"])
def test_a_template_in_which_nothing_can_be_told_apart_is_left_out(template: str) -> None:
    assert form_of(template) is None
