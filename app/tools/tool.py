"""What MCP servers offer: tools for the model, and prompts and resources for the person."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

VARIABLE = re.compile(r"\{\+?(\w+)\*?\}")
"""A variable of a URI template (RFC 6570) that a person can fill in while typing."""


@dataclass(frozen=True)
class Tool:
    """A tool of an MCP server, as the server describes it. Nothing of it is believed."""

    server: str
    """The name that the person gave the server."""
    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON Schema of its arguments."""
    said: tuple[str, ...] = field(default=())
    """What the server declares that it does or does not do, as words to show: "read-only", "destructive", "open
    world"."""

    @property
    def key(self) -> str:
        """Identifies the tool for lasting consent: its current description, so that a change requires new consent."""
        about = repr((self.description, self.schema, self.said)).encode("utf-8", "replace")
        return f"{self.server}/{self.name}@{hashlib.blake2b(about, digest_size=8).hexdigest()}"

    @property
    def full_name(self) -> str:
        """The name that models see: at most 64 letters, digits, `_` and `-`."""
        letters = "".join(
            letter if letter.isalnum() and letter.isascii() or letter in "_-" else "_" for letter in self.name
        )
        return f"{self.server}__{letters}"[:64]


@dataclass(frozen=True)
class ToolResult:
    """The result of a call, as text that a model reads. Bounded, not cleaned for a terminal."""

    text: str
    failed: bool = False
    """Whether the tool itself says that it failed."""
    cut: int = 0
    """Characters that were left out at the end."""


@dataclass(frozen=True)
class Argument:
    """An argument of a server's prompt, as the server describes it."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True)
class ServerPrompt:
    """A question that an MCP server writes for a person."""

    server: str
    name: str
    description: str
    arguments: tuple[Argument, ...]


class Blank(NamedTuple):
    """The part of a prompt or of a URI template that a person is filling in."""

    name: str
    value: str
    """As far as it is typed."""
    known: Mapping[str, str]
    """The values before it."""
    before: str = ""
    behind: str = ""
    """What is before it, and behind it up to the next variable, in the URI."""


@dataclass(frozen=True)
class ServerResource:
    """Something that can be read from an MCP server."""

    server: str
    uri: str
    name: str
    template: bool = False
    """Whether the URI has variables in braces."""

    def blank(self, begun: str) -> Blank | None:
        """The variable of the template at the end of what is typed of its URI, or None."""
        literal, *others = VARIABLE.split(self.uri)
        if not self.template or not begun.startswith(literal):
            return None
        done, known = len(literal), dict[str, str]()
        for name, behind in zip(others[::2], others[1::2]):
            value, found, _ = begun[done:].partition(behind) if behind else (begun[done:], "", "")
            if not found:
                if "/" in value and f"{{+{name}" not in self.uri:
                    return None  # Another template may have it.
                return Blank(name, unquote(value), known, begun[:done], behind.partition("{")[0])
            done, known[name] = done + len(value + behind), unquote(value)
        return None


class ToolGone(Exception):
    """A server cannot be reached, broke off or refused. Whether a call was carried out is unknown if `begun`."""

    def __init__(self, message: str, *, begun: bool) -> None:
        super().__init__(message)
        self.begun = begun


class Tools(Protocol):
    """The tools of the servers that a person has added (`app/tools/servers.py`)."""

    async def offered(self, servers: Collection[str]) -> tuple[Tool, ...]:
        """The tools of these servers, which are started if need be. Raises `ToolGone`."""

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        """Call once. Never repeated here. Raises `ToolGone`."""

    async def prompts(self, server: str) -> Sequence[ServerPrompt]:
        """Its prompts. As all that follow, starts the server if need be, and raises `ToolGone`."""

    async def resources(self, server: str) -> Sequence[ServerResource]:
        """What can be read from it, and the templates of what else can be."""

    async def values(self, of: ServerPrompt | ServerResource, blank: Blank) -> Sequence[str]:
        """What the server proposes to fill in."""

    async def fill(self, prompt: ServerPrompt, values: Mapping[str, str]) -> str:
        """The question that a prompt makes of these arguments. Cleaned for a terminal."""

    async def read(self, server: str, uri: str) -> bytes:
        """The content of a resource. Text is cleaned for a terminal."""

    async def aclose(self) -> None:
        """End the servers that were started."""


def innermost(error: BaseException) -> BaseException:
    """The first error in groups of errors, in which the SDK's tasks raise theirs."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
