"""Tokens of an MCP sign-in: renewed in one window at a time, and no window waits for another one's calls.

A window whose tokens are refused continues with those that another one has stored.
"""

from __future__ import annotations

import asyncio
import os
from urllib.parse import parse_qs

import httpx2
import msgspec
import pytest
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from app.config import Folders
from app.files import locked
from app.remotes.tokens import Tokens
from app.tools.mcp_file import login_name
from app.tools.sign_in import Kept, signed_in
from tests.support.conversing import until

URL = "https://wiki.example/mcp"


def kept(access: str, client: str, *, expires: float | None = None) -> str:
    """What a sign-in obtained."""
    registered = OAuthClientInformationFull(client_id=client, redirect_uris=[AnyUrl("http://127.0.0.1/")])
    tokens = OAuthToken(access_token=access, refresh_token=f"{access} again")
    texts = tokens.model_dump_json(), registered.model_dump_json()
    return msgspec.json.encode(Kept(*texts, expires, None, None, None)).decode()


@pytest.mark.usefixtures("no_ring")
async def test_a_renewal_beside_a_long_call_holds_up_no_other_window(folders: Folders) -> None:
    """Meanwhile the person signs in again in another window: its client renews from then on."""
    begun, answered, renewed = asyncio.Event(), asyncio.Event(), list[str]()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/token":
            renewed.append(request.content.decode())
            return httpx2.Response(200, json={"access_token": "new", "token_type": "Bearer", "expires_in": 3600})
        if request.url.query == b"long":
            begun.set()
            await answered.wait()
        return httpx2.Response(200, text=request.headers["authorization"])

    tokens = Tokens(folders)
    place = tokens.keep(login_name("wiki"), URL, kept("old", "first"))
    auth, _ = signed_in(tokens, "wiki", URL, place, lambda place: True)
    assert isinstance(auth, OAuthClientProvider)
    async with (
        httpx2.AsyncClient(auth=auth, transport=httpx2.MockTransport(answer)) as client,
        asyncio.TaskGroup() as calls,
    ):
        long = calls.create_task(client.get(f"{URL}?long"))
        await begun.wait()
        auth.context.token_expiry_time = 1.0
        tokens.keep(login_name("wiki"), URL, kept("later", "second", expires=1.0))
        short = calls.create_task(client.get(URL))
        await until(lambda: auth.context.lock.statistics().tasks_waiting == 1)
        for file in folders.config.glob("*.lock"):
            handle = os.open(file, os.O_RDWR)
            assert locked(handle)
            os.close(handle)
        answered.set()
    assert (long.result().text, short.result().text) == ("Bearer old", "Bearer new")
    (asked,) = renewed
    assert "refresh_token=later+again" in asked and "client_id=second" in asked


@pytest.mark.usefixtures("no_ring")
async def test_a_window_whose_tokens_are_refused_continues_with_those_of_another_window(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each renewal revokes the earlier tokens, and the server never says when they expire."""
    valid, asked, both = "later", list[str](), asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal valid
        if request.url.path != "/token":
            taken = request.headers.get("authorization") == f"Bearer {valid}"
            return httpx2.Response(200, text=valid) if taken else httpx2.Response(401)
        (refresh,) = parse_qs(request.content.decode())["refresh_token"]
        asked.append(refresh)
        first = len(asked) == 1
        if len(asked) == 2:
            both.set()
        await both.wait()
        if not first and refresh != f"{valid} again":
            return httpx2.Response(400, json={"error": "invalid_grant"})
        valid = f"new{len(asked)}"
        tokens = {"access_token": valid, "token_type": "Bearer", "refresh_token": f"{valid} again"}
        return httpx2.Response(200, json=tokens)

    tokens = Tokens(folders)
    place = tokens.keep(login_name("wiki"), URL, kept("old", "first"))
    transport = httpx2.MockTransport(answer)
    with monkeypatch.context() as unlocked:
        unlocked.setattr("app.tools.sign_in.RENEWAL_SECONDS", 0.0)
        windows = [
            httpx2.AsyncClient(auth=signed_in(tokens, "wiki", URL, place, lambda place: True)[0], transport=transport)
            for _ in range(2)
        ]
        answers = await asyncio.gather(*(window.get(URL) for window in windows))
    assert [one.text for one in answers] == ["new2"] * 2 and asked == ["old again"] * 2
    valid = "newer"
    tokens.keep(login_name("wiki"), URL, kept(valid, "second"))  # The person has signed in again in a third one.
    assert [(await window.get(URL)).text for window in windows] == ["newer"] * 2 and len(asked) == 2
    valid = "revoked"
    tokens.keep(login_name("wiki"), URL, kept("newer", "second"))
    monkeypatch.setattr("app.tools.sign_in.STORING_TRIES", 1)
    with pytest.raises(OAuthFlowError):
        await windows[0].get(URL)
    valid = "newer"
    assert (await windows[0].get(URL)).text == "newer"
    for window in windows:
        await window.aclose()
