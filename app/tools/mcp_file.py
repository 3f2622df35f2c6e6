"""The MCP servers that a person has added: `mcp.json` in the settings folder, in the form that other clients use.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "..."], "env": {"KEY": "${KEY}"}},
                    "wiki": {"url": "https://...", "headers": {"Authorization": "Bearer ${WIKI_TOKEN}"}}}}

People edit this file too, so keys that are not known here are kept. Comments are read, as VS Code has them, but not
kept. A file that cannot be read is never overwritten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from app.config import ConfigError, Folders, reading, writing
from app.files import one_at_a_time, read_text, write_private

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,29}")
"""A name is a part of the names that models see (`Tool.full_name`): few characters, and `__` after it."""
SERVERS = "mcpServers"
VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""`${NAME}`, `${env:NAME}` as Cursor and VS Code write it, `${NAME:-default}` as Claude Code does."""
INPUT = re.compile(r"\$\{input:([^}]+)\}")
"""A value that VS Code asks for."""
JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)
"""A string, or what JSON does not have: a comment, or a comma after the last value."""

Text = Annotated[str, msgspec.Meta(min_length=1)]


class McpServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server: a command that is started, or an address."""

    command: Text | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Variables of the command. Besides them it gets PATH, HOME and LANG."""
    cwd: Text | None = None
    url: Annotated[str, msgspec.Meta(pattern=r"^(https?://[^/]|\$\{)")] | None = None
    headers: dict[str, str] = {}
    token: Literal["keyring", "file"] | None = None
    """Place of the bearer token that was given to `outrider mcp add`."""
    login: Literal["keyring", "file"] | None = None
    """Place of what `outrider mcp login` obtained."""

    def filled(self, environment: Mapping[str, str]) -> McpServer:
        """A copy with the variables' values. Raises `ConfigError` for a variable that is not set."""

        def fill(text: str) -> str:
            return VARIABLE.sub(lambda found: _value(found, environment), text)

        return msgspec.structs.replace(
            self,
            command=self.command and fill(self.command),
            args=tuple(map(fill, self.args)),
            env={name: fill(value) for name, value in self.env.items()},
            cwd=self.cwd and fill(self.cwd),
            url=self.url and fill(self.url),
            headers={name: fill(value) for name, value in self.headers.items()},
        )

    def secrets(self, environment: Mapping[str, str]) -> list[str]:
        """The possible secrets of a server: the values of its variables and headers."""
        used = [environment.get(found[1], "") for found in VARIABLE.finditer(json.dumps(msgspec.to_builtins(self)))]
        filled = self.filled(environment)
        headers = [part for value in filled.headers.values() for part in (value, value.partition(" ")[2])]
        return [*used, *filled.env.values(), *headers]

    @property
    def place(self) -> str:
        """The command as a shell would read it, or the address; without the values of variables."""
        import shlex

        from remote.credentials import without_credentials

        return shlex.join((self.command, *self.args)) if self.command else without_credentials(self.url or "")


class McpFile:
    """The servers in the file. Each change is written at once. Raises `ConfigError`, which names file and mistake."""

    def __init__(self, folders: Folders) -> None:
        self.path = folders.config / "mcp.json"
        self._servers = _servers(self._read(), self.path)

    def __iter__(self) -> Iterator[tuple[str, McpServer]]:
        return iter(self._servers.items())

    def __contains__(self, name: str) -> bool:
        return name in self._servers

    def get(self, name: str) -> McpServer:
        """The server with this name. Raises `ConfigError`, which lists all names."""
        if name not in self._servers:
            known = f"; yours: {', '.join(self._servers)}" if self._servers else ""
            raise ConfigError(f"there is no MCP server {name!r}{known}. Add it: outrider mcp add {name} -- COMMAND…")
        return self._servers[name]

    def check(self, name: str, server: Mapping[str, Any]) -> McpServer:
        """A server in the form of the file, read. Raises `ConfigError` if the file cannot have it."""
        if (problem := name_problem(name)) is not None:
            raise ConfigError(problem)
        return _server(name, server, None)

    def put(self, name: str, server: Mapping[str, Any]) -> McpServer:
        """Add or replace a server, in the form of the file. Raises `ConfigError`."""
        checked = self.check(name, server)
        self._change(lambda servers: {**servers, name: dict(server)})
        return checked

    def signed_in(self, name: str, place: Literal["keyring", "file"]) -> None:
        """Note that a server was signed in to, and where the tokens are. Raises `ConfigError`."""
        if self.get(name).login != place:
            self._change(lambda servers: {**servers, name: {**servers[name], "login": place}})

    def remove(self, name: str) -> None:
        """Raises `ConfigError` if there is no such server."""
        self.get(name)
        self._change(lambda servers: {other: kept for other, kept in servers.items() if other != name})

    def _read(self) -> dict[str, Any]:
        with reading(self.path), suppress(FileNotFoundError, NotADirectoryError):
            return parsed(read_text(self.path), self.path)
        return {}

    def _change(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        with writing(self.path), one_at_a_time(self.path):
            content = self._read()
            _servers(content, self.path)
            content[SERVERS] = change(content.get(SERVERS) or {})
            write_private(self.path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        self._servers = _servers(content, self.path)


def token_name(server: str) -> str:
    """The name under which the token of a server is kept, which no remote can have."""
    return f"mcp:{server}"


def login_name(server: str) -> str:
    """The name under which what signing in to a server gave is kept."""
    return f"mcp-login:{server}"


def name_problem(name: str) -> str | None:
    """What is wrong with a server's name, or None."""
    if NAME.fullmatch(name) and not name.endswith("_"):
        return None
    return f"{name!r} is no name for an MCP server: at most 30 letters, digits, dashes, and underscores between them"


def foreign(text: str, path: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The servers in a file of Claude Desktop, Claude Code, Cursor or VS Code, and a sentence for each that is left out
    or changed. Raises `ConfigError` if the file has none.
    """
    content = parsed(text, path)
    nested = content.get("mcp")
    found = (
        content.get(SERVERS) or content.get("servers") or (nested.get("servers") if isinstance(nested, dict) else {})
    )
    if not isinstance(found, dict) or not found:
        raise ConfigError(f'{path} has no MCP servers: neither "{SERVERS}" nor "servers" is in it.')
    servers: dict[str, dict[str, Any]] = {}
    told: list[str] = []
    for written, server in found.items():
        name = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", written)).strip("-_")[:30].strip("-_")
        try:
            if (problem := name_problem(name)) is not None:
                raise ConfigError(problem)
            if name in servers:
                raise ConfigError(f"another one is called {name} too")
            if isinstance(server, dict) and server.get("type") == "sse":
                raise ConfigError("it is reached over SSE, which newer servers do not use; look for its /mcp address")
            _server(name, server, None)
        except ConfigError as error:
            told.append(f"left out {written}: {error}")
            continue
        asked = sorted(set(map(_variable, INPUT.findall(json.dumps(server)))))
        plain = json.loads(INPUT.sub(lambda hit: f"${{{_variable(hit[1])}}}", json.dumps(server)))
        if name != written:
            told.append(f"{written} is called {name} here")
        if asked:
            told.append(f"{name} needs {', '.join(asked)} in the environment, which VS Code asks for")
        if "envFile" in server:
            told.append(f"{name}: envFile is not read; set what is in it in the environment")
        servers[name] = {key: value for key, value in plain.items() if key not in ("token", "login")}
    return servers, told


def parsed(text: str, path: Path) -> dict[str, Any]:
    """The object in a JSON file, which may have comments. Raises `ConfigError`."""
    plain = JSON_TOKEN.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    try:
        content = json.loads(plain or "{}")
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}. Correct it.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not a JSON object. Correct it.")
    return content


def _servers(content: Mapping[str, Any], path: Path) -> dict[str, McpServer]:
    found = content.get(SERVERS) or {}
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {SERVERS} is not an object. Correct it, or delete the file to start afresh.")
    for name in found:
        if (problem := name_problem(name)) is not None:
            raise ConfigError(f"{path}: {problem}.")
    return {name: _server(name, server, path) for name, server in found.items()}


def _server(name: str, server: object, path: Path | None) -> McpServer:
    try:
        checked = msgspec.convert(server, McpServer)
        if (checked.command is None) == (checked.url is None):
            raise msgspec.ValidationError("it needs either a command or a url")
    except msgspec.ValidationError as error:
        sentence = (
            str(error).replace("`", "'").replace("matching regex '^(https?://[^/]|\\\\$\\\\{)'", "with http(s)://")
        )
        where = f"{path}: " if path is not None else ""
        raise ConfigError(f"{where}the MCP server {name} cannot be read: {sentence}") from None
    return checked


def _variable(asked: str) -> str:
    """The name of a variable for a value that VS Code asks for."""
    return re.sub(r"\W|^(?=\d)", "_", asked).upper()


def _value(found: re.Match[str], environment: Mapping[str, str]) -> str:
    value = environment.get(found[1]) or found[2]
    if value is None:
        raise ConfigError(f"the variable {found[1]} is not set; set it in the environment that starts outrider")
    return value
