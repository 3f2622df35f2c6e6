"""A real MCP server, made with the SDK: `python -m tests.support.mcp_server FOLDER [--http PORT | --login PORT]`.

Each of its tools first appends its name to `calls` in the folder. Over HTTP it prints its port (0: any), and takes only
the token in the variable MCP_TOKEN; with `--login` only those who have signed in, which everybody may who does not
refuse (a file `refused` in the folder).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from secrets import token_hex

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Image, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
    ToolAnnotations,
)
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
server = MCPServer("tests")


def _count(name: str) -> None:
    with (FOLDER / "calls").open("a") as file:
        file.write(f"{name}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
def write_file(name: str, text: str) -> str:
    """Write a file."""
    _count("write_file")
    (FOLDER / name).write_text(text)
    return f"wrote {len(text)} characters"


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def environment() -> str:
    """The names of its environment variables."""
    _count("environment")
    return " ".join(sorted(os.environ))


@server.tool()
async def meet(name: str) -> str:
    """Ends when somebody else calls it too."""
    (FOLDER / f"met-{name}").touch()
    _count("meet")
    while len(list(FOLDER.glob("met-*"))) < 2:
        await asyncio.sleep(0.01)
    return f"{name} met somebody"


@server.tool()
async def slow() -> str:
    """Never ends."""
    _count("slow")
    await asyncio.Event().wait()
    return "never"


@server.tool()
def die() -> str:
    """Ends the server in mid-call."""
    _count("die")
    print("the roof is on fire", file=sys.stderr, flush=True)
    os._exit(7)


@server.tool()
def huge() -> str:
    """A result that is too long."""
    _count("huge")
    return "x" * 1_000_000


@server.tool()
def picture() -> list[str | Image]:
    """A text and an image."""
    _count("picture")
    return ["a picture", Image(data=bytes(300), format="png")]


@server.tool()
def wrong() -> str:
    """Always fails."""
    _count("wrong")
    raise ValueError("the disk is full")


@server.prompt()
def review(path: str, focus: str = "bugs") -> str:
    """A review of a file."""
    return f"Review {path} for {focus}, as @notes.txt says.\x1b[2J"


@server.resource("memo://today", name="What is to do")
def today() -> str:
    return "buy milk\x1b[2J\n"


@server.resource("memo://\u202eyad", name="hidden")
def hidden() -> str:
    return "hidden"


@server.resource("note://{shelf}/{title}", name="A note")
def note(shelf: str, title: str) -> str:
    return f"{title}, {shelf}"


@server.resource("note://{shelf}{?q,lang}", name="Notes with a word")
def notes(shelf: str, q: str = "", lang: str = "") -> str:
    return f"{q} in {shelf}, {lang}"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def proposed(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    shelf = (context and context.arguments or {}).get("shelf")
    title = [f"a b {shelf}", "\x1b[2J"]
    known = {"focus": ["speed", "error handling"], "shelf": ["in", "out"], "title": title, "q": ["a&b"]}
    return Completion(values=[one for one in known.get(argument.name, []) if one.startswith(argument.value)])


def _guarded() -> Starlette:
    """The server over HTTP, behind a token."""
    app = server.streamable_http_app()

    async def guard(request: Request, call_next: RequestResponseEndpoint) -> Response:
        if request.headers.get("authorization") != f"Bearer {os.environ['MCP_TOKEN']}":
            return PlainTextResponse("no", 401)
        return await call_next(request)

    app.add_middleware(BaseHTTPMiddleware, dispatch=guard)
    return app


class Door(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Lets everybody in who asks. It knows them until it ends, and counts refreshed tokens as calls."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.accesses: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if (FOLDER / "refused").exists():
            raise AuthorizeError("access_denied", "the person said no")
        code = AuthorizationCode(
            code=token_hex(16),
            client_id=client.client_id or "",
            expires_at=time.time() + 60,
            scopes=params.scopes or [],
            **params.model_dump(exclude={"state", "scopes"}),
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client.client_id or "")

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        _count("refresh")
        del self.refreshes[refresh_token.token]
        return self._tokens(client.client_id or "")

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.accesses.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.accesses.pop(token.token, None)

    def _tokens(self, client: str) -> OAuthToken:
        access, refresh = token_hex(16), token_hex(16)
        self.accesses[access] = AccessToken(token=access, client_id=client, scopes=[])
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client, scopes=[])
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=3600)


def _with_door(port: int) -> Starlette:
    """A server with one tool, over HTTP, behind a sign-in of its own."""
    address = f"http://127.0.0.1:{port}"
    signed = MCPServer(
        "tests",
        auth_server_provider=Door(),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(address),
            resource_server_url=AnyHttpUrl(f"{address}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        ),
    )
    signed.add_tool(write_file)
    return signed.streamable_http_app()


if __name__ == "__main__":
    if not {"--http", "--login"} & set(sys.argv):
        server.run()
    else:
        import socket

        import uvicorn

        listener = socket.create_server(("127.0.0.1", int(sys.argv[-1])))
        print(listener.getsockname()[1], flush=True)
        app = _with_door(listener.getsockname()[1]) if "--login" in sys.argv else _guarded()
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
