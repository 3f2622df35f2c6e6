from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from remote.protocol import Error, decode
from remote.verifier.holders import BadToken, Tokens, read_tokens
from remote.verifier.security import BadOrigin, BearerAuth, Unprotected, check_binding, open_to_pages, web_origins


def test_addresses_other_than_loopback_need_a_token() -> None:
    for far in ("0.0.0.0", "::", "192.168.1.4", "localhost.example.org", ""):
        with pytest.raises(Unprotected, match="--token-file"):
            check_binding(far, None)
        check_binding(far, Tokens.one("a" * 16))
    for near in ("127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"):
        check_binding(near, None)


def test_a_token_file_as_other_programs_save_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(f"\ufeffBearer {TOKEN}-a\r\nann Bearer {TOKEN}-b\r\n".encode())
    tokens = read_tokens(file)
    assert tokens.holder(f"{TOKEN}-b") == "ann" and tokens.holder(f"{TOKEN}-a") is not None
    for data in (TOKEN.encode("utf-16"), TOKEN.encode() + b"\xe9"):
        file.write_bytes(data)
        with pytest.raises(BadToken, match="is not text in UTF-8; save it as UTF-8") as refused:
            read_tokens(file)
        assert TOKEN not in str(refused.value)
    with pytest.raises(BadToken, match="cannot be read"):
        read_tokens(tmp_path / "none")


TOKEN = "0123456789abcdef-XYZ"


async def status(token: str | None, **headers: str) -> tuple[int, bytes]:
    inner = Starlette(routes=[Route("/v1/card", lambda request: PlainTextResponse("the card"))])
    transport = httpx.ASGITransport(BearerAuth(inner, token and Tokens.one(token), ["Verifier.example"]))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        reply = await client.get("/v1/card", headers=headers)
        return reply.status_code, reply.content


async def test_only_the_whole_token_opens() -> None:
    for shown in (
        "", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[1:]}",
        f"Bearer {TOKEN.lower()}", f"Bearer {TOKEN} {TOKEN}", f"Bearer {TOKEN[:-1]}\x00", f"Basic {TOKEN}", TOKEN,
    ):  # fmt: skip
        code, body = await status(TOKEN, Authorization=shown)
        assert code == 401 and decode(body, Error).code == "unauthorised", shown
    assert await status(TOKEN, Authorization=f"Bearer {TOKEN}") == (200, b"the card")
    assert (await status(TOKEN))[0] == 401


@pytest.mark.parametrize("token", ["", "0123456789abcde", "0123456789 abcdef", "\n" * 20, "ünïcödé-in-a-token"])
def test_a_token_that_guards_nothing_is_refused(tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    with pytest.raises(BadToken):
        Tokens.one(token)
    with pytest.raises(BadToken):
        Tokens([("anna", TOKEN), ("bert", token)])
    with pytest.raises(BadToken, match="token"):
        read_tokens(file)


def test_each_holder_is_known_by_each_of_their_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    lines = [f"anna {TOKEN}-a", "", f"  bert\t{TOKEN}-b ", f"anna {TOKEN}-new", f"{TOKEN}-c", f"{TOKEN}-d"]
    file.write_text("\n".join(lines) + "\n")
    tokens = read_tokens(file)
    found = [tokens.holder(f"{TOKEN}-{ending}") for ending in ("a", "b", "new", "c", "d", "e")]
    assert found[:3] == ["anna", "bert", "anna"] and found[-1] is None
    assert tokens.holders == {"anna", "bert", found[3], found[4]} and len(tokens.holders) == 4
    assert TOKEN not in repr(vars(tokens)), "only hashes are kept"
    assert read_tokens(file).holder(f"{TOKEN}-c") == found[3], "the same after a restart"


@pytest.mark.parametrize("line", [f"anna bert {TOKEN}", f"../anna {TOKEN}", f".anna {TOKEN}", "anna"])
def test_a_line_that_is_no_token_with_a_name_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "tokens").write_text(f"{TOKEN}\n{line}\n")
    with pytest.raises(BadToken, match="token"):
        read_tokens(tmp_path / "tokens")


OWN_NAMES = [
    "127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "localhost.", "[::1]", "[::1]:8000", "127.9.9.9:80",
    "192.168.1.4:8000", "verifier.example:1",
]  # fmt: skip


STRANGE_NAMES = [
    "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example:80", "", ":80",
    "127.0.0.1@evil.example",
]  # fmt: skip


async def test_without_a_token_only_addresses_and_allowed_names_are_answered() -> None:
    assert [name for name in OWN_NAMES if (await status(None, Host=name))[0] != 200] == []
    for host in STRANGE_NAMES:
        code, body = await status(None, Host=host)
        assert code == 421 and "localhost" in decode(body, Error).message, host
        assert (await status(TOKEN, Host=host, Authorization=f"Bearer {TOKEN}"))[0] == 200


# ---- web pages -------------------------------------------------------------------------------------------------------

PAGE = "https://chat.example"


@pytest.mark.parametrize(
    ("named", "sent"),
    [
        ("HTTPS://Chat.Example:443/", PAGE),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:5173", "http://[::1]:5173"),
        ("app://obsidian.md", "app://obsidian.md"),
        ("file://", "file://"),
    ],
)
def test_an_origin_is_known_however_it_is_written(named: str, sent: str) -> None:
    assert web_origins([named], None) == {sent}


@pytest.mark.parametrize(
    "named", ["", "localhost:3000", "https://", "https://a.example/chat", "https://*.example",
              "https://anna@a.example", "https://a.example, https://b.example", "https://a.example:port"],
)  # fmt: skip
def test_what_is_no_origin_is_refused(named: str) -> None:
    with pytest.raises(BadOrigin, match="app://obsidian.md"):
        web_origins([named], Tokens.one(TOKEN))


@pytest.mark.parametrize("named", ["*", "null"])
def test_a_name_for_every_page_needs_a_token(named: str) -> None:
    with pytest.raises(BadOrigin, match="--token-file"):
        web_origins([PAGE, named], None)
    assert web_origins([named], Tokens.one(TOKEN)) == {named}
    assert web_origins([], Tokens.one(TOKEN)) == {"*"} and web_origins([], None) == set()


async def asked_by_a_page(
    method: str, origin: str, token: str | None, named: list[str], **headers: str
) -> httpx.Response:
    tokens = token and Tokens.one(token)
    origins = web_origins(named, tokens)
    inner = Starlette(routes=[Route("/v1/chat/completions", lambda _: PlainTextResponse("answer"), methods=["POST"])])
    app = open_to_pages(BearerAuth(inner, tokens, origins=origins), origins)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return await client.request(method, "/v1/chat/completions", headers={"Origin": origin, **headers})


@pytest.mark.parametrize(
    ("origin", "token", "named"),
    [
        ("null", TOKEN, []),
        (PAGE, TOKEN, [PAGE]),
        ("app://obsidian.md", None, ["http://localhost:3000", "app://obsidian.md"]),
    ],
)
async def test_a_page_that_may_ask_reads_what_is_answered(origin: str, token: str | None, named: list[str]) -> None:
    preflight = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
        "Access-Control-Request-Private-Network": "true",
    }
    told = await asked_by_a_page("OPTIONS", origin, token, named, **preflight)
    assert told.status_code == 200 and told.headers["access-control-allow-origin"] in ("*", origin)
    assert told.headers["access-control-allow-headers"] == preflight["Access-Control-Request-Headers"]
    assert "POST" in told.headers["access-control-allow-methods"]
    assert told.headers["access-control-allow-private-network"] == "true"
    shown = {"Authorization": f"Bearer {token}"}
    answered = await asked_by_a_page("POST", origin, token, named, **shown)
    assert (answered.status_code, answered.text) == (200, "answer")
    wrong = await asked_by_a_page("POST", origin, token, named, **(shown if token is None else {}), Host="evil.example")
    assert wrong.status_code == (421 if token is None else 401)
    for one in (answered, wrong):
        assert one.headers["access-control-allow-origin"] in ("*", origin), "a page could not even read the error"
        assert one.headers["access-control-expose-headers"] == "*"


@pytest.mark.parametrize(("token", "named"), [(None, []), (TOKEN, [PAGE])])
async def test_another_page_is_not_let_in(token: str | None, named: list[str]) -> None:
    other = "https://evil.example"
    told = await asked_by_a_page("OPTIONS", other, token, named, **{"Access-Control-Request-Method": "POST"})
    assert told.status_code in (400, 401) and "access-control-allow-origin" not in told.headers
    answered = await asked_by_a_page("POST", other, token, named)
    assert answered.status_code == 401 and "access-control-allow-origin" not in answered.headers
