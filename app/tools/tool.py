"""What MCP servers offer: tools for the model, and prompts and resources for the person."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

EXPRESSION = re.compile(r"\{([+#./;?&]?)(\w[\w.]*(?:,\w[\w.]*)*)(\*?)\}")
"""An expression of a URI template (RFC 6570): its operator, its variables, and a mark for a list."""
RESERVED = ":/?#[]!$&()*+,;="
"""What the operators `+` and `#` leave as it is. RFC 6570 names `@` and `'` too, which mean something in a question."""
ENDS = tuple(".,;:!?)]*_")
"""Characters that would end the sentence, and not the URI, at the end of a word of a question."""
ESCAPED = re.compile(r"%25(?=[0-9A-Fa-f]{2})")
"""A percent sign that belongs to a character that was percent-encoded already, encoded once more."""


@dataclass(frozen=True)
class Tool:
    """A tool of an MCP server, as the server describes it. Nothing of it is believed."""

    server: str
    """The name that the person gave the server."""
    name: str
    description: str
    schema: Mapping[str, Any]
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


class Slot(NamedTuple):
    """A variable of a URI template."""

    lead: str
    """What is written before its value."""
    name: str
    safe: str
    """Which of the reserved characters its value may have as they are."""


class Form(NamedTuple):
    """A URI template in parts."""

    slots: tuple[Slot, ...]
    """Its variables, but for those of the query."""
    tail: str
    """What follows the last of them, with the mark that begins the query."""
    query: tuple[str, ...]
    """The variables of the query, each of which may be left out."""


class Blank(NamedTuple):
    """The part of a prompt or of a URI template that a person is filling in."""

    name: str
    """Empty while the name of a variable is typed."""
    value: str
    """As far as it is typed."""
    known: Mapping[str, str]
    """The values before it."""
    before: str = ""
    behind: str = ""
    """What is before it, and behind it up to the next variable, in the URI."""
    safe: str = ""
    names: tuple[str, ...] = ()
    """The variables of the query that this may become, without a name."""

    def filled(self, value: str) -> str:
        """The URI up to the next variable, with this value, percent-encoded."""
        encoded = quote(value, self.safe)
        encoded = ESCAPED.sub("%", encoded) if self.safe == RESERVED else encoded
        if not self.behind and encoded.endswith(ENDS):
            encoded = f"{encoded[:-1]}%{ord(encoded[-1]):02X}"
        return self.before + encoded + self.behind


@dataclass(frozen=True)
class ServerResource:
    """Something that can be read from an MCP server."""

    server: str
    uri: str
    name: str
    template: bool = False
    """Whether the URI has variables in braces."""

    @property
    def start(self) -> str:
        """The URI up to the first variable, if it has one."""
        form = form_of(self.uri) if self.template else None
        return self.uri if form is None else next((slot.lead for slot in form.slots), form.tail)

    def blank(self, begun: str) -> Blank | None:
        """The variable of the template at the end of what is typed of its URI, or None."""
        form = form_of(self.uri) if self.template else None
        if form is None or not begun.startswith(self.start):
            return None
        done, known, mark = len(self.start), dict[str, str](), form.tail[-1:] if form.query else ""
        for slot, behind in zip(form.slots, [*(slot.lead for slot in form.slots[1:]), form.tail]):
            spans = "/" in slot.safe
            at = (begun.rfind if spans else begun.find)(behind, done) if behind else -1
            value = begun[done:at] if at >= 0 else begun[done:]
            if not spans and set("/?#") & set(value):
                return None  # Another template may have it.
            if at < 0:
                return Blank(slot.name, unquote(value), known, begun[:done], behind.removesuffix(mark), slot.safe)
            done, known[slot.name] = at + len(behind), unquote(value)
        if not form.query:
            return None
        *given, last = begun[done:].split("&")
        known |= {name: unquote(value) for name, _, value in (one.partition("=") for one in given)}
        name, equals, value = last.partition("=")
        if not equals:
            names = tuple(one for one in form.query if one not in known and one.startswith(last))
            return Blank("", last, known, begun.removesuffix(last), names=names)
        return Blank(name, unquote(value), known, begun.removesuffix(value)) if name in form.query else None


@lru_cache(maxsize=1000)
def form_of(template: str) -> Form | None:
    """A URI template (RFC 6570) in parts.

    None if what is typed of it could not be told apart, or is not known here: two variables with nothing between them,
    more after the query, the first characters of a value (`{name:3}`).
    """
    slots, query = list[Slot](), list[str]()
    lead, *others = EXPRESSION.split(template)
    for operator, names, star, behind in zip(*(others[at::4] for at in range(4))):
        if query and (operator != "&" or not lead.endswith(("?", "&"))):
            return None
        if operator and operator in "?&":
            lead += "" if query else operator
            query += names.split(",")
        else:
            mark, between = operator.removeprefix("+"), operator if operator in ("/", ".", ";") else ","
            safe = RESERVED if operator in ("+", "#") else "/" if star else ""
            for name in names.split(","):
                lead += mark + (f"{name}=" if operator == ";" else "")
                if slots and not lead:
                    return None
                slots.append(Slot(lead, name, safe))
                lead, mark = "", between
        lead += behind
    if (query and not lead.endswith(("?", "&"))) or re.search("[{}]", "".join([*(slot.lead for slot in slots), lead])):
        return None
    return Form(tuple(slots), lead, tuple(query))


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
