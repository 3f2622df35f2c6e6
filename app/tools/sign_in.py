"""Signs in to MCP servers with OAuth 2.1, in the browser, following MCP's authorization specification (2025-11-25).

The SDK does the protocol: discovery, registration, PKCE, refreshing. What it obtains is kept as other tokens are
(`app/remotes/tokens.py`), with what it takes to refresh it, and is sent only to the address that it was obtained for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import webbrowser
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider, OAuthRegistrationError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from app.files import create_private, locked
from app.remotes.tokens import Place, TokenError, Tokens
from app.ssh import over_ssh
from app.tools.mcp_file import login_name
from app.tools.tool import innermost
from remote.credentials import without_credentials
from remote.transport import system_trust

PERSON_SECONDS = 300.0
"""How long signing in may take a person."""
BROWSER_SECONDS = 10.0
"""How long a browser may take to send its request."""
RENEWAL_SECONDS = 10.0
"""Longest wait for another window that renews tokens. One that hangs must not block all others."""
STORING_TRIES = 20
"""How often a window looks for the tokens of another one, which was faster, at intervals of 0.1 s. It has to where
nothing is locked."""
MOST_LINE = 16_384
"""Longest request line of the browser, in bytes."""
PAGE = "<!doctype html><title>Outrider</title><p>{}</p>"


class Kept(msgspec.Struct, frozen=True):
    """The result of signing in, as JSON texts of the SDK's own records."""

    tokens: str
    client: str
    expires: float | None
    """When the access token expires, seconds since the epoch."""
    issuer: str | None
    metadata: str | None
    """The authorization server's description of itself."""
    resource: str | None
    """The MCP server's description of itself."""


class _Store:
    """Keeps what one server's sign-in obtained (the SDK's `TokenStorage`)."""

    def __init__(
        self,
        tokens: Tokens,
        name: str,
        url: str,
        place: Place | None = None,
        noted: Callable[[Place], bool] | None = None,
    ) -> None:
        self._tokens, self._name, self._url, self._noted = tokens, name, url, noted
        self._kept: Kept | None = None
        self.place = place
        """Where it was kept last."""
        self.provider: OAuthClientProvider
        self._client: OAuthClientInformationFull | None = None

    def read(self) -> Kept:
        """The stored state, perhaps written by another window. Raises `TokenError`, `ValueError`."""
        assert self.place is not None
        found = self._tokens.find(login_name(self._name), self._url, self.place)
        return msgspec.json.decode(found, type=Kept)

    def take(self, kept: Kept, client: OAuthClientInformationFull) -> None:
        """Continue with the stored state and its client."""
        self._kept, self._client = kept, client

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Lock out other windows while this server's tokens are renewed, but not on Windows, which has no such locks.

        Where the folder cannot be written to, or another window takes too long, continue without the lock.
        """
        lock = self._tokens.file.with_name(f"mcp-login.{self._name}.lock")  # The names of servers are safe in files.
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # `TimeoutError` is one, too.
                create_private(lock)
                handle = os.open(lock, os.O_RDWR)
                held.callback(os.close, handle)
                async with asyncio.timeout(RENEWAL_SECONDS):
                    while not locked(handle):
                        await asyncio.sleep(0.05)
            yield

    async def get_tokens(self) -> OAuthToken | None:
        return OAuthToken.model_validate_json(self._kept.tokens) if self._kept is not None else None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info  # Kept with the tokens, without which it is of no use.

    async def set_tokens(self, tokens: OAuthToken) -> None:
        assert self._client is not None
        known = self.provider.context
        metadata, resource = known.oauth_metadata, known.protected_resource_metadata
        kept = Kept(
            tokens.model_dump_json(),
            self._client.model_dump_json(),
            known.token_expiry_time,
            known.auth_server_url,
            metadata.model_dump_json() if metadata is not None else None,
            resource.model_dump_json() if resource is not None else None,
        )
        self._kept = kept
        await asyncio.to_thread(self._keep, msgspec.json.encode(kept).decode())

    def _keep(self, text: str) -> None:
        self.place = self._tokens.keep(login_name(self._name), self._url, text)
        if self._noted is not None and not self._noted(self.place):  # The server was removed or replaced.
            self._tokens.drop(login_name(self._name), self._url, self.place)


def signed_in(
    tokens: Tokens, name: str, url: str, place: Place, noted: Callable[[Place], bool]
) -> tuple[httpx2.Auth, list[str]]:
    """Authentication with what `sign_in` obtained, and its secrets. It is refreshed, and kept, when it has expired.

    `noted`: called with the new place where it is kept, or False if nothing is kept any more. Raises `TokenError`
    if it is gone or damaged.
    """
    try:
        provider = _Provider(_Store(tokens, name, url, place, noted), url, "http://127.0.0.1/")
        secrets = provider.restore()
    except (TokenError, ValueError):
        raise TokenError(f"your sign-in to {name} is missing or damaged: outrider mcp login {name}") from None
    return provider, [secret for secret in (secrets.access_token, secrets.refresh_token) if secret]


async def sign_in(tokens: Tokens, name: str, url: str, say: Callable[[str], None]) -> Place:
    """Sign in to the server at `url`: the person does it in the browser. Returns where the tokens are kept.

    `say`: shows a line to the person. Raises `TokenError`, which says what went wrong.
    """
    try:
        return await _sign_in(tokens, name, url, say)
    except Exception as error:
        raise TokenError(_why(innermost(error), name, url)) from None


def _why(error: BaseException, name: str, url: str) -> str:
    match error:
        case TokenError():
            return str(error)
        case TimeoutError():
            return f"nobody signed in within {PERSON_SECONDS / 60:.0f} minutes"
        case OAuthRegistrationError():
            token = f"outrider mcp add {name} {without_credentials(url)} --replace --token-stdin"
            return f"the server does not register new programs; use a token instead: {token}"
        case httpx2.HTTPError() | OSError():
            return f"{without_credentials(url)} cannot be reached: {str(error) or type(error).__name__}"
        case _:  # Its words may quote what a server sent, with tokens in it.
            return f"signing in failed: {type(error).__name__}"


async def _sign_in(tokens: Tokens, name: str, url: str, say: Callable[[str], None]) -> Place:
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def show(address: str) -> None:
        say(f"Sign in in the browser. If none opens, open this address:\n{address}")
        if sys.stdin.isatty():
            say("A browser on another machine ends up at an address with http://127.0.0.1: paste that here.")
        if has_browser(os.environ):  # Not waited for: some browsers end only when they are closed.
            threading.Thread(target=webbrowser.open, args=(address,), name="browser", daemon=True).start()

    async def result() -> AuthorizationCodeResult:
        with _pasted(arrived):
            return _result(await arrived)

    server = await asyncio.start_server(partial(_answer, arrived), "127.0.0.1", 0, limit=MOST_LINE)
    try:
        port = server.sockets[0].getsockname()[1]
        store = _Store(tokens, name, url)
        provider = _Provider(store, url, f"http://127.0.0.1:{port}/callback")
        provider.context.redirect_handler, provider.context.callback_handler = show, result
        async with (
            asyncio.timeout(PERSON_SECONDS),
            httpx2.AsyncClient(auth=provider, timeout=PERSON_SECONDS, verify=system_trust()) as client,
            Client(streamable_http_client(url, http_client=client), cache=None),
        ):
            pass  # The greeting is a request that needs the sign-in.
    finally:
        server.close()  # Without waiting for connections that a browser keeps open.
    if store.place is None:
        raise TokenError(f"{name} requires no sign-in")
    return store.place


async def _answer(arrived: asyncio.Future[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the browser. At the end of the sign-in it asks for `/callback`; that address is what has `arrived`."""
    with contextlib.suppress(OSError, ValueError, EOFError, asyncio.LimitOverrunError), contextlib.closing(writer):
        async with asyncio.timeout(BROWSER_SECONDS):  # A browser may open a connection and never use it.
            words = (await reader.readuntil(b"\n")).decode("latin-1").split()
        there = len(words) > 1 and urlsplit(words[1]).path == "/callback"
        text = "You can close this page and return to the terminal." if there else "Nothing is here."
        page = PAGE.format(text).encode()
        head = f"HTTP/1.1 {'200 OK' if there else '404 Not Found'}\r\nContent-Type: text/html\r\n"
        writer.write(f"{head}Content-Length: {len(page)}\r\nConnection: close\r\n\r\n".encode() + page)
        await writer.drain()
        if there and not arrived.done():
            arrived.set_result(words[1])


def has_browser(environment: Mapping[str, str]) -> bool:
    """Whether a browser can open beside the terminal. One in the terminal would take it from the person."""
    if over_ssh(environment):
        return False
    return sys.platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


class _Provider(OAuthClientProvider):
    """Renews tokens in one window at a time: where they rotate, each is taken once, and the next window loses its own.

    So a window reads again what is kept before it renews that, and after a server has refused its tokens.
    """

    def __init__(self, store: _Store, url: str, redirect: str) -> None:
        super().__init__(url, OAuthClientMetadata(client_name="Outrider", redirect_uris=[AnyUrl(redirect)]), store)
        self._store = store
        store.provider = self

    def restore(self) -> OAuthToken:
        """Take what is kept, and return its tokens. Raises `TokenError`, `ValueError`."""
        return self._take(self._store.read())

    def _take(self, kept: Kept) -> OAuthToken:
        """Continue with this state, perhaps from a later sign-in, which has its own client. Raises `ValueError`."""
        tokens = OAuthToken.model_validate_json(kept.tokens)
        client = OAuthClientInformationFull.model_validate_json(kept.client)
        metadata = OAuthMetadata.model_validate_json(kept.metadata) if kept.metadata else None
        resource = ProtectedResourceMetadata.model_validate_json(kept.resource) if kept.resource else None
        self._store.take(kept, client)
        known = self.context
        known.current_tokens, known.client_info = tokens, client
        known.token_expiry_time, known.auth_server_url = kept.expires, kept.issuer
        known.oauth_metadata, known.protected_resource_metadata = metadata, resource
        return tokens

    @property
    def _has_expired(self) -> bool:
        return self.context.current_tokens is not None and not self.context.is_token_valid()

    async def _catch_up(self) -> bool:
        """Continue with what is kept. False if those are the tokens that the server takes no more."""
        refused = self.context.current_tokens
        with contextlib.suppress(TokenError, ValueError):  # The server says what is wrong with its own.
            if self._take(await asyncio.to_thread(self._store.read)) != refused:
                return True
        self.context.token_expiry_time = 1.0
        return False

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        refused = self.context.current_tokens
        if await super()._handle_refresh_response(response):
            return True
        for _ in range(STORING_TRIES):
            self.context.current_tokens = refused
            if await self._catch_up():
                return True
            await asyncio.sleep(0.1)
        self.context.clear_tokens()
        return False

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        for again in (True, False):
            async with contextlib.AsyncExitStack() as turn:
                if self._has_expired:
                    async with self.context.lock:  # Another request has it until it is answered: no window waits.
                        pass
                if self._has_expired:
                    await turn.enter_async_context(self._store.turn())
                    await self._catch_up()
                    if not self._has_expired:  # Renewed by another window.
                        await turn.aclose()
                async with contextlib.aclosing(super().async_auth_flow(request)) as flow:
                    try:
                        sent = await anext(flow)
                        while True:
                            if sent.url == request.url:  # The new tokens are kept by now.
                                await turn.aclose()
                            response = yield sent
                            refused = sent.url == request.url and response.status_code == 401
                            if refused and again and self.context.current_tokens is not None:
                                self.context.token_expiry_time = 1.0  # Whatever the server said of it before.
                                break
                            sent = await flow.asend(response)
                    except StopAsyncIteration:
                        return


def _result(target: str) -> AuthorizationCodeResult:
    """The code in the address to which the browser was redirected. Raises `TokenError` if it is a refusal."""
    said = {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
    if "code" not in said:
        reason = said.get("error_description") or said.get("error") or "no code came back"
        raise TokenError(f"the sign-in was refused: {reason}")
    return AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss"))


@contextlib.contextmanager
def _pasted(arrived: asyncio.Future[str]) -> Iterator[None]:
    """Take an address that is pasted into the terminal, too."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        line = sys.stdin.readline().strip()
        if line.startswith("http") and not arrived.done():
            arrived.set_result(line)

    try:
        watched = sys.stdin.isatty()
        if watched:
            loop.add_reader(sys.stdin, read)
    except NotImplementedError:  # Windows' loop reads no terminal.
        watched = False
    try:
        yield
    finally:
        if watched:
            loop.remove_reader(sys.stdin)
