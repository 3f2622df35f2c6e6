"""`outrider mcp`: add, sign in to, list, test, import and remove the MCP servers whose tools a model may call.

stdout is data; exit codes: 0 ok, 1 some were left out, 2 usage, 3 the server cannot be used.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.completion import mcp_servers
from app.cli.options import Json
from app.cli.output import print_json
from app.cli.remotes import TokenStdin, patience_for_the_keyring, read_token
from app.cli.settings import settings_with
from app.exits import FAILED, OK, UNREACHABLE, USAGE, complain, fail, run

if TYPE_CHECKING:
    from app.config import Folders
    from app.tools.mcp_file import McpFile, McpServer

mcp_commands = typer.Typer(
    help="Add, sign in to, list, test, import and remove MCP servers, whose tools a model may call. Without a command, "
    "list them.",
    rich_markup_mode=None,
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name, as in `outrider mcp list`.", autocompletion=mcp_servers)
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the server of that name.")]


@mcp_commands.callback(invoke_without_command=True)
def mcp(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show(json=False)


@mcp_commands.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of your choice.")],
    place: Annotated[
        list[str],
        typer.Argument(metavar="URL|COMMAND", help="Its address; or, after --, the command that starts it."),
    ],
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]",
            help="Environment variable for the command. Without a value, read from your environment at each start: use "
            "this for secrets. May be repeated.",
        ),
    ] = None,
    token_stdin: TokenStdin = False,
    token_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Environment variable that holds the token for the URL.")
    ] = None,
    replace: Replace = False,
) -> None:
    """Add a server by the command that starts it, or by its address. It is not started yet.

    \b
    outrider mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
    outrider mcp add wiki https://wiki.example/mcp --token-env WIKI_TOKEN
    """
    from app.config import is_address

    folders, file = _file()
    if name in file and not replace:
        fail(f"An MCP server named {name} exists already; --replace replaces it.", USAGE)
    server: dict[str, Any]
    if is_address(place[0]):
        if len(place) > 1 or env:
            fail("An address takes only --token-env or --token-stdin; --env is for a command.", USAGE)
        if token_stdin and token_env:
            fail("Give --token-stdin or --token-env, not both.", USAGE)
        server = {"url": place[0]}
        if token_env:
            server["headers"] = {"Authorization": f"Bearer ${{{token_env}}}"}
    else:
        if token_stdin or token_env:
            fail("A token is for an address. Give a command its secrets with --env NAME.", USAGE)
        server = {"command": place[0], "args": place[1:]}
        if env:
            pairs = [one.partition("=") for one in env]
            server["env"] = {key: value if sign else f"${{{key}}}" for key, sign, value in pairs}
    _keep(folders, file, name, server, read_token(name, True) if token_stdin else None)
    complain(f"added {name}; `outrider mcp test {name}` starts it and lists its tools")


@mcp_commands.command("list")
def show(json: Json = False) -> None:
    """List your MCP servers: name, command or address, and the names of its variables and headers."""
    from app.sanitise import sanitise

    _, file = _file()
    servers = list(file)
    for name, server in servers:
        if json:
            print_json({"name": name, **_described(server)})
            continue
        kept = [f"{what}: {place}" for what, place in (("token", server.token), ("login", server.login)) if place]
        names = [*server.env, *server.headers, *kept]
        print(sanitise("  ".join([name, server.place, *names])))
    if not servers:
        complain("no MCP servers; add one: outrider mcp add NAME -- COMMAND…, or import them: outrider mcp import FILE")


@mcp_commands.command("login")
def login(name: Name) -> None:
    """Sign in to a server with the browser (OAuth). The login lasts until the server rejects it or is removed."""
    folders, file = _file()
    server = file.get(name)
    if server.url is None or server.headers or server.token is not None:
        fail(f"{name} needs no sign-in: it is a command, or has a token already.", USAGE)
    raise typer.Exit(run(_login(folders, file, name)))


@mcp_commands.command("test")
def test(name: Name) -> None:
    """Start a server, and list its tools: name, declared behaviour, description."""
    folders, file = _file()
    file.get(name)
    raise typer.Exit(run(_test(folders, name)))


@mcp_commands.command("import")
def import_servers(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Such as claude_desktop_config.json, or mcp.json of Cursor or VS Code."),
    ],
    replace: Replace = False,
) -> None:
    """Add the servers in a configuration file of Claude Desktop, Claude Code, Cursor or VS Code. None is started."""
    from app.config import reading
    from app.files import read_text
    from app.tools.mcp_file import foreign

    folders, file = _file()
    if not path.exists():
        fail(f"There is no file {path}.", USAGE)
    with reading(path):
        text = read_text(path)
    servers, told = foreign(text, path)
    left_out = any(sentence.startswith("left out") for sentence in told)
    for name, server in servers.items():
        if name in file and not replace:
            left_out = True
            told.append(f"left out {name}: it exists already; --replace replaces it")
            continue
        _keep(folders, file, name, server, None)
        print(name)
    for sentence in told:
        complain(sentence)
    raise typer.Exit(FAILED if left_out else OK)


@mcp_commands.command("rm")
def remove(name: Name) -> None:
    """Remove a server and its token."""
    folders, file = _file()
    server = file.get(name)
    file.remove(name)
    _drop_secrets(folders, name, server)


async def _login(folders: Folders, file: McpFile, name: str) -> int:
    import os

    from app.remotes.tokens import TokenError, Tokens
    from app.sanitise import sanitise
    from app.tools.sdk import servers_of

    servers_of(folders)  # Says how to install the SDK.
    from app.tools.sign_in import sign_in

    url = file.get(name).filled(os.environ).url or ""
    try:
        place = await sign_in(Tokens(folders), name, url, complain)
    except TokenError as error:
        complain(sanitise(f"{name}: {error}"))
        return UNREACHABLE
    file.signed_in(name, place)
    complain(f"signed in to {name}; `outrider mcp test {name}` lists its tools")
    return OK


async def _test(folders: Folders, name: str) -> int:
    from app.sanitise import sanitise
    from app.tools.sdk import servers_of
    from app.tools.tool import ToolGone

    servers = servers_of(folders)
    begun = time.monotonic()
    try:
        tools = await servers.offered([name])
        seconds = time.monotonic() - begun
        for tool in tools:
            first = tool.description.strip().partition("\n")[0]
            said = f"({', '.join(tool.said)})" if tool.said else ""
            print(sanitise("  ".join(filter(None, (tool.name, said, first)))), flush=True)
    except ToolGone as gone:
        complain(str(gone))
        return UNREACHABLE
    finally:
        await asyncio.shield(servers.aclose())
    complain(f"{name} answered in {seconds:.1f} s and has {len(tools)} tool{'s' if len(tools) != 1 else ''}")
    return OK


def _file() -> tuple[Folders, McpFile]:
    from app.tools.mcp_file import McpFile

    _, folders = settings_with()
    return folders, McpFile(folders)


def _keep(folders: Folders, file: McpFile, name: str, server: dict[str, Any], token: str | None) -> None:
    """Write a server, and its token first, so that no server waits for a token that was never kept."""
    from app.config import same_server
    from app.remotes.tokens import Tokens
    from app.tools.mcp_file import token_name
    from remote.credentials import bearer_token

    before = file.get(name) if name in file else None
    file.check(name, server)
    if token is not None:
        try:
            token = bearer_token(token)
        except ValueError as error:
            fail(f"{error}; nothing was changed.", USAGE)
        with patience_for_the_keyring():
            server = {**server, "token": Tokens(folders).keep(token_name(name), server["url"], token)}
    now = file.put(name, server)
    if before is not None and not (
        (before.token, before.login) == (now.token, now.login) and same_server(before.url, now.url)
    ):
        _drop_secrets(folders, name, before)


def _drop_secrets(folders: Folders, name: str, server: McpServer) -> None:
    import os

    from app.config import ConfigError
    from app.remotes.tokens import Tokens
    from app.tools.mcp_file import login_name, token_name

    for place, account in ((server.token, token_name(name)), (server.login, login_name(name))):
        if place is None or server.url is None:
            continue
        try:
            url = server.filled(os.environ).url or ""
        except ConfigError as error:
            complain(f"{account} is still kept ({place}), because {error}")
            continue
        with patience_for_the_keyring():
            Tokens(folders).drop(account, url, place)


def _described(server: McpServer) -> dict[str, Any]:
    """A server without the values of its variables and headers, which may be secrets."""
    fields = {
        "command": server.command,
        "args": list(server.args),
        "env": list(server.env),
        "url": None if server.url is None else server.place,
        "headers": list(server.headers),
        "token": server.token,
        "login": server.login,
    }
    return {name: value for name, value in fields.items() if value}
