"""Who may talk to the gateway: programs on this device, and no web page; with a token file only those with a token."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from app.gateway.refusals import GatewayRefused
from remote.verifier.security import OPEN_PATHS, BearerAuth


class Guard(BearerAuth):
    """ASGI middleware that keeps strangers away, as the verifier's does. All its errors have OpenAI's shape."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and (found := self._refusal(scope)) is not None:
            await found.response(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> GatewayRefused | None:
        headers = Headers(scope=scope)
        _, why = self._holder(headers)
        if why is not None:
            return GatewayRefused(why, status=401, code="invalid_api_key", kind="authentication_error")
        if not self._is_known(headers.get("host")):
            return GatewayRefused(
                "Without a token the gateway answers to localhost and 127.0.0.1 only.", status=421, code="wrong_host"
            )
        return None
