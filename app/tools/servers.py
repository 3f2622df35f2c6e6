"""Runs MCP servers: starts them when first needed, lists and calls their tools, and stops them with the program.

A call is sent once. A server that ended between two calls is started again for the next one, never in mid-call: whether
that call was carried out, nobody knows. The SDK takes 0.7 s to import, so only a conversation with tools imports this.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp.client import Client, ClientSession
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from app.attachments.limits import MOST_TEXT_BYTES, size
from app.config import ConfigError, Folders
from app.log import HIDDEN, log
from app.remotes.tokens import Place, Tokens
from app.sanitise import one_line, sanitise
from app.tools.child import MOST_LINE, Child
from app.tools.mcp_file import McpFile, McpServer, token_name
from app.tools.tool import Argument, Blank, ServerPrompt, ServerResource, Tool, ToolGone, ToolResult, innermost
from remote.transport import system_trust

Answer = TypeVar("Answer", bound=types.Result)
T = TypeVar("T")

START_SECONDS = 20.0
"""Longest time from the start of a server to its greeting."""
CALL_SECONDS = 120.0
"""Longest time of one call."""
LIST_SECONDS = 20.0
"""Longest time of one page of a list, of a prompt or a resource."""
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 10.0
"""Age of an HTTP connection's last answer from which it is tried with a harmless request before a call."""
MOST_TEXT = 64_000
"""Longest result or prompt, in characters."""
MOST_LISTED = 500
"""Most tools, prompts or resources of one server."""
MOST_DESCRIPTION = 8_000
"""Longest description of one of them, in characters."""
MOST_NAME = 500
"""Longest name and URI of a prompt or resource, in characters. A person types or reads it: a longer one is left out."""
MOST_VALUES = 100
"""Most values of a variable or an argument."""
MOST_ARGUMENTS = 20
"""Most arguments of a prompt. One with more is left out."""
ENDING = "the program is about to end"
SHORTEST_SECRET = 6
"""Shortest value of a variable or header that is hidden in logs and messages. A shorter one may be an ordinary word."""
SAID_BY_STATUS = {types.INTERNAL_ERROR, types.INVALID_REQUEST, types.METHOD_NOT_FOUND, types.PARSE_ERROR}
"""Codes of errors that say no more than their HTTP status does: the SDK's own, and those about a forgotten session."""


class Servers:
    """The tools of the servers in `mcp.json`, as `Tools` describes them."""

    def __init__(self, folders: Folders, environment: Mapping[str, str] = os.environ) -> None:
        self._folders, self._environment = folders, environment
        self._servers: dict[str, _Server] = {}
        self._closed = False

    async def offered(self, servers: Collection[str]) -> tuple[Tool, ...]:
        found = await asyncio.gather(*(self._server(name).ask(_Link.tools) for name in dict.fromkeys(servers)))
        return tuple(tool for tools in found for tool in tools)

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        return await self._server(tool.server).call(tool, arguments)

    async def prompts(self, server: str) -> Sequence[ServerPrompt]:
        return await self._server(server).ask(_Link.prompts)

    async def resources(self, server: str) -> Sequence[ServerResource]:
        return await self._server(server).ask(_Link.resources)

    async def values(self, of: ServerPrompt | ServerResource, blank: Blank) -> Sequence[str]:
        return await self._server(of.server).ask(lambda link: link.values(of, blank))

    async def fill(self, prompt: ServerPrompt, values: Mapping[str, str]) -> str:
        return await self._server(prompt.server).ask(lambda link: link.fill(prompt, values))

    async def read(self, server: str, uri: str) -> bytes:
        return await self._server(server).ask(lambda link: link.read(uri))

    async def aclose(self) -> None:
        self._closed = True
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    def _server(self, name: str) -> _Server:
        if self._closed:
            raise ToolGone(ENDING, begun=False)
        if name not in self._servers:
            self._servers[name] = _Server(name, self._folders, self._environment)
        return self._servers[name]


class _Server:
    """One server, which has a link or none. Several calls share the link."""

    def __init__(self, name: str, folders: Folders, environment: Mapping[str, str]) -> None:
        self.name, self._folders, self._environment = name, folders, environment
        self._link: _Link | None = None
        self._turn = asyncio.Lock()
        """Held while it is started, so that two calls do not start it twice."""
        self._closed = False

    async def ask(self, question: Callable[[_Link], Awaitable[T]]) -> T:
        """Ask for something that changes nothing on the server. Raises `ToolGone`."""
        link = await self._linked()
        try:
            return await question(link)
        except ToolGone:
            if not link.ended:
                raise
        return await question(await self._linked())  # It ended before; nothing is done twice by asking again.

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        link = await self._linked()
        if link.stale:
            await self.ask(_Link.tools)
            link = await self._linked()
        return await link.call(tool, arguments)

    async def aclose(self) -> None:
        self._closed = True
        if self._link is not None:
            await self._link.aclose()

    async def _linked(self) -> _Link:
        """The link, new if the last one has ended. Raises `ToolGone`."""
        async with self._turn:
            if self._link is not None and self._link.ended:
                log.info("the MCP server %s has ended and is started again", self.name)
                await self._link.aclose()
                self._link = None
            if self._link is None:
                try:
                    # In a thread: a locked keyring asks the person first.
                    link = _Link(self.name, *await asyncio.to_thread(self._configured))
                except ConfigError as error:
                    raise ToolGone(str(error), begun=False) from None
                if self._closed:
                    raise ToolGone(ENDING, begun=False)
                self._link = link
                await link.open()
            return self._link

    def _configured(self) -> tuple[McpServer, Mapping[str, str], frozenset[str], httpx2.Auth | None]:
        """The server with the values of its variables, the headers of its requests, what is secret of it, and what
        signs its requests.

        Raises `ConfigError`.
        """
        server = McpFile(self._folders).get(self.name)
        filled = server.filled(self._environment)
        headers, secrets = dict(filled.headers), server.secrets(self._environment)
        if server.token is not None:
            secrets.append(Tokens(self._folders).find(token_name(self.name), filled.url or "", server.token))
            headers["Authorization"] = f"Bearer {secrets[-1]}"
        auth = None
        if server.login is not None:
            from app.tools.sign_in import signed_in

            auth, tokens = signed_in(Tokens(self._folders), self.name, filled.url or "", server.login, self._noted)
            secrets += tokens
        return filled, headers, frozenset(value for value in secrets if len(value) >= SHORTEST_SECRET), auth

    def _noted(self, place: Place) -> bool:
        """Note where refreshed tokens are. False if the person does not want this server, or its login, any more."""
        with contextlib.suppress(ConfigError):
            file = McpFile(self._folders)
            if file.get(self.name).login is not None:
                file.signed_in(self.name, place)
                return True
        return False


class _Link:
    """One connection to a server, from its start to its end.

    A separate task holds it open, because the SDK must be exited by the task that entered it.
    """

    def __init__(
        self,
        name: str,
        server: McpServer,
        headers: Mapping[str, str],
        secrets: frozenset[str],
        auth: httpx2.Auth | None,
    ) -> None:
        self.name, self._server, self._headers, self._auth = name, server, headers, auth
        self._secrets = sorted(secrets, key=len, reverse=True)
        self.child: Child | None = None
        self._status: int | None = None
        """Status of its last answer over HTTP that was an error."""
        self._unread = ""
        """Why its last answer over HTTP was not read to its end, as the rest of a sentence."""
        self._session: ClientSession | None = None
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._calls = 0
        """How many calls it is carrying out."""
        self._heard = 0.0
        """When it last answered, on the monotonic clock."""

    @property
    def ended(self) -> bool:
        """Whether nothing can be sent any more, as far as is known."""
        return self._task is None or self._task.done() or self._stop.is_set() or bool(self.child and self.child.ended)

    @property
    def stale(self) -> bool:
        """Whether it may have ended unnoticed."""
        return self.child is None and time.monotonic() - self._heard > IDLE_SECONDS

    async def open(self) -> None:
        """Start the server and greet it. Raises `ToolGone`."""
        self._task = asyncio.create_task(self._keep(), name=f"MCP server {self.name}")
        begun = time.monotonic()
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            await self.aclose()
            raise ToolGone(self._why_not_started(None), begun=False) from None
        except BaseException:
            await self.aclose()
            raise
        if self._error is not None or self._session is None:
            await asyncio.wait([self._task])
            why = ENDING if self._error is None else self._why_not_started(self._error)
            raise ToolGone(why, begun=False) from None
        self._heard = time.monotonic()
        log.info("the MCP server %s started in %.1f s", self.name, self._heard - begun)

    async def tools(self) -> tuple[Tool, ...]:
        """All its tools. Raises `ToolGone`."""
        found: list[types.Tool] = await self._list("tools", types.ListToolsRequest, types.ListToolsResult)
        return tuple(_tool(self.name, tool) for tool in found)

    async def prompts(self) -> tuple[ServerPrompt, ...]:
        """All its prompts. Raises `ToolGone`."""
        found: list[types.Prompt] = await self._list("prompts", types.ListPromptsRequest, types.ListPromptsResult)
        return tuple(
            _prompt(self.name, one)
            for one in found
            if len(arguments := one.arguments or ()) <= MOST_ARGUMENTS
            and all(len(name) <= MOST_NAME for name in (one.name, *(argument.name for argument in arguments)))
        )

    async def resources(self) -> tuple[ServerResource, ...]:
        """What can be read from it, and templates. Raises `ToolGone`."""
        found: list[types.Resource] = await self._list(
            "resources", types.ListResourcesRequest, types.ListResourcesResult
        )
        templates: list[types.ResourceTemplate] = []
        with contextlib.suppress(ToolGone):  # No server says beforehand whether it has some.
            templates = await self._list(
                "resource_templates", types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult
            )
        both = [*((one.uri, one, False) for one in found), *((one.uri_template, one, True) for one in templates)]
        return tuple(
            ServerResource(self.name, uri, (one.title or one.name)[:MOST_NAME], template)
            for uri, one, template in both
            if len(uri) <= MOST_NAME
        )

    async def values(self, of: ServerPrompt | ServerResource, blank: Blank) -> Sequence[str]:
        """What the server proposes to fill in. Raises `ToolGone`."""
        if self._session is None or (can := self._session.server_capabilities) is None or can.completions is None:
            return ()
        params = types.CompleteRequestParams(
            ref=types.PromptReference(name=of.name)
            if isinstance(of, ServerPrompt)
            else types.ResourceTemplateReference(uri=of.uri),
            argument=types.CompletionArgument(name=blank.name, value=blank.value),
            context=types.CompletionContext(arguments=dict(blank.known)) if blank.known else None,
        )
        result = await self._ask(types.CompleteRequest(params=params), types.CompleteResult, LIST_SECONDS)
        values = () if isinstance(result, str) else result.completion.values[:MOST_VALUES]
        return [one for one in values if len(one) <= MOST_NAME]

    async def _list(self, what: str, request: Callable[..., types.Request[Any, Any]], kind: Any) -> list[Any]:
        """All of these that it has. Raises `ToolGone`."""
        found: list[Any] = []
        cursor: str | None = None
        can = self._session and self._session.server_capabilities
        unsaid = can is not None and getattr(can, "resources" if what == "resource_templates" else what) is None
        if unsaid and what != "tools":
            return []
        while len(found) < MOST_LISTED:
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await self._ask(request(params=params), kind, LIST_SECONDS)
            if isinstance(page, str):
                if unsaid:  # It was asked all the same, because a server may forget to say that it has tools.
                    return []
                raise ToolGone(f"{self.name} does not list its {what}: {page}", begun=False)
            found += getattr(page, what)
            if not getattr(page, what) or (cursor := page.next_cursor) is None:
                break
        return found[:MOST_LISTED]

    async def fill(self, prompt: ServerPrompt, values: Mapping[str, str]) -> str:
        """The question that a prompt makes. Raises `ToolGone`."""
        params = types.GetPromptRequestParams(name=prompt.name, arguments=dict(values))
        result = await self._ask(types.GetPromptRequest(params=params), types.GetPromptResult, LIST_SECONDS)
        if isinstance(result, str):
            raise ToolGone(f"{self.name} does not write {prompt.name}: {result}", begun=False)
        alone = all(message.role == "user" for message in result.messages)
        said = [(message.role.capitalize(), _text([message.content])) for message in result.messages]
        text = "\n\n".join(text if alone else f"{role}: {text}" for role, text in said)
        if len(text) > MOST_TEXT:  # Before it is cleaned, which takes a while.
            most = f"{len(text):,} characters, and a prompt may have {MOST_TEXT:,}"
            raise ToolGone(f"{self.name} writes {prompt.name} with {most}", begun=False)
        if not (text := await asyncio.to_thread(sanitise, text)).strip():
            raise ToolGone(f"{self.name} writes nothing for {prompt.name}", begun=False)
        return text

    async def read(self, uri: str) -> bytes:
        """The content of a resource. Raises `ToolGone`."""
        params = types.ReadResourceRequestParams(uri=uri)
        result = await self._ask(types.ReadResourceRequest(params=params), types.ReadResourceResult, LIST_SECONDS)
        if isinstance(result, str):
            raise ToolGone(f"{self.name} refuses it: {result}", begun=False)
        match result.contents:
            case [types.BlobResourceContents(blob=blob)]:
                try:
                    return await asyncio.to_thread(base64.b64decode, blob, validate=True)
                except ValueError:
                    raise ToolGone(f"{self.name} sent bytes that are not base64", begun=False) from None
        text = "\n\n".join(map(_content, result.contents))
        if len(text) > MOST_TEXT_BYTES:  # Before it is cleaned, which takes a while.
            raise ToolGone(f"{self.name} sent more than {size(MOST_TEXT_BYTES)} of text", begun=False)
        return (await asyncio.to_thread(sanitise, text)).encode("utf-8", "replace")

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        """Call once. Raises `ToolGone`."""
        params = types.CallToolRequestParams(name=tool.name, arguments=dict(arguments))
        request = types.CallToolRequest(params=params)
        self._calls += 1
        try:
            result = await self._ask(request, types.CallToolResult, CALL_SECONDS, begun=True)
        finally:
            self._calls -= 1
        if isinstance(result, str):
            return _bounded(result, failed=True)
        text = _text(result.content)
        if not result.content and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        return _bounded(text, failed=result.is_error)

    async def aclose(self) -> None:
        """End the connection, whatever it is waiting for."""
        self._stop.set()
        if self._task is not None:
            if not self._ready.is_set() and not self._task.cancelling():
                self._task.cancel()
            await asyncio.wait([self._task])
            self._ready.set()  # A task that is cancelled before its first step has not.

    async def _ask(
        self, request: types.Request[Any, Any], kind: type[Answer], seconds: float, *, begun: bool = False
    ) -> Answer | str:
        """The server's answer, or its words if it refuses. Raises `ToolGone` if there is no answer.

        `begun`: whether it may have done something all the same.
        """
        unknown = "; whether the call was carried out is unknown" if begun else ""
        if self._session is None or self.ended:
            raise ToolGone(f"{self.name} has ended", begun=False)
        self._status, self._unread = None, ""
        try:
            answer = await self._session.send_request(request, kind, seconds)
        except MCPError as error:
            if error.code == types.REQUEST_TIMEOUT:
                raise ToolGone(f"{self.name} did not answer within {seconds:.0f} s{unknown}", begun=begun) from None
            if error.code == types.CONNECTION_CLOSED:
                await self.aclose()
                raise ToolGone(f"{self.name} {self._how_it_ended()}{unknown}", begun=begun) from None
            if self._unread:
                raise ToolGone(f"{self.name} {self._unread}{unknown}", begun=begun) from None
            if (status := self._status) is not None and error.code in SAID_BY_STATUS:
                optional = isinstance(request, types.ListResourceTemplatesRequest)
                if begun or not (self._calls or optional):  # A list that is refused breaks off no call.
                    self._stop.set()
                raise ToolGone(f"{self.name} answered with HTTP status {status}{unknown}", begun=begun) from None
            return self._clean(error.message)
        except (ValidationError, RuntimeError) as error:
            log.debug("the MCP server %s sent something unreadable", self.name, exc_info=error)
            raise ToolGone(f"{self.name} sent an answer that is not MCP{unknown}", begun=begun) from None
        self._heard = time.monotonic()
        return answer

    async def _keep(self) -> None:
        """Hold the connection open until it is to end or breaks."""
        try:
            async with AsyncExitStack() as stack:
                client = Client(
                    await self._transport(stack),
                    cache=None,
                    client_info=types.Implementation(name="outrider", version="0"),
                )
                self._session = (await stack.enter_async_context(client)).session
                self._ready.set()
                await self._stop.wait()
        except Exception as error:
            self._error = innermost(error)
            log.debug("the MCP server %s", self.name, exc_info=self._error)
        finally:
            self._ready.set()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        if self._server.command is not None:
            inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
            self.child = Child(
                [self._server.command, *self._server.args],
                inherited | self._server.env,
                self._server.cwd and os.path.expanduser(self._server.cwd),
                lambda line: log.debug("%s: %s", self.name, self._clean(line)),
            )
            return self.child

        async def note(response: httpx2.Response) -> None:
            if response.status_code >= 400 and response.request.method == "POST":
                self._status = response.status_code
            if not response.headers.get("content-type", "").startswith("text/event-stream"):  # The SDK bounds events.
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                encoded = response.headers.get("content-encoding", "identity") != "identity"
                response.stream = _BoundedBody(response.stream, self._give_up_reading, encoded=encoded)

        client = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **self._headers},
            auth=self._auth,
            timeout=httpx2.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS),
            verify=system_trust(),
            event_hooks={"response": [note]},
        )
        assert self._server.url is not None
        return streamable_http_client(self._server.url, http_client=await stack.enter_async_context(client))

    def _give_up_reading(self, why: str) -> None:
        self._unread = why

    def _why_not_started(self, error: BaseException | None) -> str:
        """What went wrong, and what to do. `error`: None if it did not answer in time."""
        name, child = self.name, self.child
        if isinstance(error, OSError) and child is not None and child.exit_code is None:
            if isinstance(error, FileNotFoundError) and not (self._server.cwd and error.filename == self._server.cwd):
                return f"{name}: there is no command {self._server.command}; install it, or give its full path"
            return f"{name}: {error.filename or self._server.command} cannot be used: {error.strerror}"
        if isinstance(error, RuntimeError | MCPError) and "protocol version" in str(error).lower():
            return f"{name} speaks another version of MCP: {self._clean(str(error))}; update the older program"
        if child is not None and child.stray is not None:
            return f"{name} writes something other than MCP to its output: {self._clean(child.stray)}"
        if error is None:
            return (
                f"{name} did not start within {START_SECONDS:.0f} s{self._last_words()}. "
                "If it downloads itself at its first start, start it once by hand"
            )
        if child is not None and isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            return f"{name} {self._how_it_ended()}"
        if self._auth is not None and (isinstance(error, OAuthFlowError) or self._status in (401, 403)):
            return f"your sign-in to {name} has expired, or cannot be renewed now: outrider mcp login {name}"
        if self._status in (401, 403):
            return (
                f"{name} rejects this token, or requires one (HTTP status {self._status}): outrider mcp login {name} "
                "signs in with the browser; outrider mcp add --replace takes a token"
            )
        if self._status is not None:
            return (
                f"{name}: there is no MCP server at {self._server.place} (HTTP status {self._status}); see its manual"
            )
        if isinstance(error, httpx2.HTTPError):
            return f"{name}: {self._server.place} cannot be reached: {self._clean(str(error) or type(error).__name__)}"
        return f"{name} does not follow the MCP protocol: {self._clean(str(error) or type(error).__name__)}"

    def _how_it_ended(self) -> str:
        """The rest of a sentence after the server's name."""
        child = self.child
        if child is None:
            return "broke off the connection"
        if child.too_long:
            return f"was stopped, because it sent a message of more than {MOST_LINE >> 20} MB"
        code = child.exit_code
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
        return f"ended{how}{self._last_words()}"

    def _last_words(self) -> str:
        lines = list(self.child.last_lines) if self.child is not None else []
        return f". Its last lines: {self._clean(' | '.join(lines))}" if lines else ""

    def _clean(self, text: str) -> str:
        """Another program's words in a message or the log: one line, without secrets and control characters."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return one_line(text[:MOST_DESCRIPTION])


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, up to the longest message. `give_up`: told why it is not read on."""

    def __init__(self, body: httpx2.AsyncByteStream, give_up: Callable[[str], None], *, encoded: bool) -> None:
        self._body, self._give_up, self._encoded = body, give_up, encoded

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length, why = 0, ""
        async for piece in self._body:
            length += len(piece)
            if self._encoded:
                why = "compresses its answers despite being asked not to"
            elif length > MOST_LINE:
                why = f"sent a message of more than {MOST_LINE >> 20} MB"
            if why:
                self._give_up(why)
                raise httpx2.StreamError(why)
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def _tool(server: str, tool: types.Tool) -> Tool:
    return Tool(server, tool.name, (tool.description or "")[:MOST_DESCRIPTION], tool.input_schema, tuple(_said(tool)))


def _prompt(server: str, prompt: types.Prompt) -> ServerPrompt:
    arguments = tuple(
        Argument(one.name, (one.description or "")[:MOST_DESCRIPTION], bool(one.required))
        for one in prompt.arguments or ()
    )
    about = prompt.description or prompt.title or ""
    return ServerPrompt(server, prompt.name, about[:MOST_DESCRIPTION], arguments)


def _said(tool: types.Tool) -> Iterable[str]:
    """Its annotations, in words. Nothing else is assumed."""
    hints = tool.annotations
    if hints is None:
        return
    if hints.read_only_hint is not None:
        yield "read-only" if hints.read_only_hint else "writes"
    if hints.destructive_hint is not None and not hints.read_only_hint:
        yield "destructive" if hints.destructive_hint else "only adds"
    if hints.idempotent_hint and not hints.read_only_hint:
        yield "repeatable"
    if hints.open_world_hint is not None:
        yield "open world" if hints.open_world_hint else "closed world"


def _text(content: Iterable[types.ContentBlock]) -> str:
    """A result or a prompt as the model reads it."""
    parts: list[str] = []
    for part in content:
        if isinstance(part, types.TextContent):
            parts.append(part.text)
        elif isinstance(part, types.ImageContent | types.AudioContent):
            parts.append(_left_out(part.mime_type, part.data))
        elif isinstance(part, types.ResourceLink):
            parts.append(f"[{part.name}: {part.uri}]")
        else:
            parts.append(_content(part.resource))
    return "\n".join(parts)


def _content(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.TextResourceContents):
        return resource.text
    return _left_out(resource.mime_type or str(resource.uri), resource.blob)


def _left_out(what: str, encoded: str) -> str:
    return f"[{what} of {len(encoded) * 3 // 4:,} bytes, left out]"


def _bounded(text: str, *, failed: bool) -> ToolResult:
    return ToolResult(text[:MOST_TEXT], failed, max(0, len(text) - MOST_TEXT))
