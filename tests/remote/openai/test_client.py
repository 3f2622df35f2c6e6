"""The client of OpenAI's API: against a verifier in a real process, and against whatever may sit in its place."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

import pytest

from remote import ChatStream, CompletionsClient, Incompatible, LinkDown, Refused, RemoteError, VerifierClient
from remote.detect import detect
from remote.errors import Broken, Stranger, Unsent
from remote.openai.schema import GATEWAY_OWNER, OWNER, Model
from remote.protocol import Card, Sampling
from tests.remote.toy_verifier import cutting_relay, http, listening, raw_peer, refusal, request_of, utf16_units
from tests.remote.verifier.test_completions import own_text
from tests.support.clock import FastClock
from tests.support.patience import PATIENCE_SECONDS as PATIENCE
from tests.support.serving import VerifierProcess

QUESTION = ("user", "how do I unpack a tar archive?")
PAGE = b"<html>Welcome to our Wi-Fi</html>"


def client_of(port: int, token: str | None = None) -> CompletionsClient:
    return CompletionsClient(f"http://127.0.0.1:{port}", token)


async def begin(client: CompletionsClient, *more: tuple[str, str], most: int = 40, **fields: Any) -> ChatStream:
    options = {"model": "target", "deadline": PATIENCE, "silence": PATIENCE}
    sampling = fields.pop("sampling", Sampling())
    return await client.chat([QUESTION, *more], sampling, most=most, **{**options, **fields})


async def answer(client: CompletionsClient, *more: tuple[str, str], **fields: Any) -> str:
    return "".join([piece async for piece in await begin(client, *more, **fields)])


# ---- a verifier ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/v1/"])
async def test_an_answer_comes_in_pieces_from_either_form_of_the_address(verifier: VerifierProcess, path: str) -> None:
    async with CompletionsClient(verifier.url + path) as client:
        [model] = await client.models(PATIENCE)
        assert (model.id, model.continues, model.max_model_len) == ("target", True, 1024)
        assert client.rtt_seconds is not None and 0 < client.rtt_seconds < PATIENCE
        stream = await begin(client)
        pieces = [piece async for piece in stream]
    assert "".join(pieces) == await own_text(verifier, 40) and len(pieces) > 3
    assert stream.reason == "length" and stream.usage is not None and stream.usage.completion_tokens == 40
    assert 0 < stream.first_byte_seconds < PATIENCE
    assert stream.traffic.up > 100 and stream.traffic.down > sum(map(len, pieces))


async def test_a_line_cut_anywhere_in_an_answer_is_broken_and_never_taken_for_its_end(
    verifier: VerifierProcess,
) -> None:
    async with client_of(verifier.port) as client:
        stream = await begin(client)
        text = "".join([piece async for piece in stream])
        size = stream.traffic.down
    for limit in [*range(0, size - 400, 997), 60, size - 400]:
        got = ""
        async with cutting_relay(verifier.port, [limit, limit]) as port, client_of(port) as client:
            try:
                async for piece in await begin(client):
                    got += piece
            except LinkDown:
                assert text.startswith(got)
            else:  # In fewer and longer pieces the same text takes fewer bytes: the line was cut after its end.
                assert got == text and limit > len(text.encode())
    async with cutting_relay(verifier.port, []) as port, client_of(port) as client:
        assert await answer(client) == text


# ---- other servers ---------------------------------------------------------------------------------------------------


def chunk(text: str | None = None, reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
SSE = "text/event-stream; charset=utf-8"


def events(*data: bytes) -> bytes:
    return http(b"".join(data), content_type=SSE)


def packed(body: bytes, how: str) -> bytes:
    return http(body, content_type=SSE, extra=f"content-encoding: {how}\r\n")


def as_json(body: bytes, status: str = "200 OK") -> bytes:
    return http(body, status=status, content_type="application/json")


WORDS = chunk("one ") + chunk("two", "stop") + DONE
PICTURE = b'data: {"choices":[{"delta":{"images":[{"url":"data:image/png;base64,%s"}]}}]}\n\n' % (b"A" * (15 << 20))
ONE_ANSWER = b'{"choices":[{"message":{"role":"assistant","content":"one two"},"finish_reason":"stop"}]}'
WHOLE = {
    "plain": events(chunk("one "), chunk("two"), chunk(reason="stop"), DONE),
    "no DONE": events(chunk("one"), chunk(" two", "stop")),
    "no reason": events(chunk("one two"), DONE),
    "odd fields": events(
        b'data: {"choices":[],"prompt_filter_results":[{}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning":"hm"}}]}\n\n',
        b'data: {"choices":[{"index":1,"delta":{"content":"another"}}]}\n\n',
        chunk("one two", "stop", id=None, created=1.5, error=None),
        b'data: {"choices":null,"usage":{"total_tokens":9}}\n\n',
        DONE,
    ),
    "a picture between words": events(chunk("one "), PICTURE, chunk("two", "stop"), DONE),
    "heartbeats that are no JSON": events(
        b"data: ping\n\n", chunk("one "), b"data: -\n\ndata: keep-alive\n\n", chunk("two", "stop"), DONE
    ),
    "plain text": http(WORDS, content_type="text/plain; charset=utf-8"),
    "events as JSON": as_json(WORDS),
    "events as a page": http(WORDS, content_type="text/html"),
    "no content type": http(b"\xef\xbb\xbf\r\n: hello\n\n" + WORDS, content_type=None),
    "status 206": http(WORDS, status="206 Partial", content_type="text/plain"),
    "gzip": packed(gzip.compress(WORDS), "gzip"),
    "gzip in two members": packed(gzip.compress(WORDS[:40]) + gzip.compress(WORDS[40:]), "x-gzip"),
    "deflate": packed(zlib.compress(WORDS), "deflate"),
    "raw deflate": packed(zlib.compress(WORDS, wbits=-15), "deflate"),
    "an end that is no end": events(chunk("one ", "null"), chunk("two", "stop"), DONE),
    "one answer as events": http(ONE_ANSWER, content_type=SSE),
    "one answer as plain text": http(b"\n\n" + ONE_ANSWER, content_type="text/plain"),
    "not streamed": as_json(ONE_ANSWER),
    "a good base_resp": events(chunk("one two", "stop", base_resp={"status_code": 0, "status_msg": "success"}), DONE),
}
"""Ways to say "one two"."""


@pytest.mark.parametrize("name", WHOLE)
async def test_servers_differ_and_are_understood(name: str) -> None:
    async with raw_peer(lambda _: WHOLE[name]) as port, client_of(port) as client:
        stream = await begin(client)
        assert "".join([piece async for piece in stream]) == "one two"
        assert stream.reason == (None if name == "no reason" else "stop")


CRAB = utf16_units("🦀")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a", *CRAB, "b"], "a🦀b"),
        (["a" + CRAB[0], "", CRAB[1] + CRAB[0], CRAB[1]], "a🦀🦀"),
        ([CRAB[1], "a" + CRAB[0], "b" + CRAB[0]], "\ufffda\ufffdb\ufffd"),
    ],
)
async def test_halves_of_a_character_are_joined_wherever_they_are_read(pieces: list[str], text: str) -> None:
    def delta(**fields: Any) -> bytes:
        return b"data: " + json.dumps({"choices": [{"delta": fields}]}).encode() + b"\n\n"

    calls = [delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in ['"', *pieces, '"']]
    thoughts, words = [delta(reasoning=piece) for piece in pieces], [delta(content=piece) for piece in pieces]
    reply = events(*thoughts, *words, *calls, chunk(reason="tool_calls"), DONE)
    async with raw_peer(lambda _: reply) as port, client_of(port) as client:
        stream = await client.relay({"messages": []}, deadline=PATIENCE, silence=PATIENCE)
        assert "".join([piece async for piece in stream]) == text == stream.new_thoughts()
        assert stream.calls.whole[0].function.arguments == f'"{text}"'


def openai_error(code: object, status: str, message: str = "A reason.", **extra: Any) -> bytes:
    body = json.dumps({"error": {"message": message, "type": "an_error", "code": code, **extra}})
    return as_json(body.encode(), status)


FAILURES: dict[str, tuple[bytes, type[RemoteError], str]] = {
    "a login page": (http(PAGE, content_type="text/html"), Stranger, "login page"),
    "nothing": (b"", Broken, "broke"),
    "no events": (events(), Broken, "early"),
    "no end": (events(chunk("one"), chunk(" two")), Broken, "early"),
    "half an event": (events(chunk("one"), b'data: {"choi'), Broken, "early"),
    "half a body": (http(chunk("one"), content_type=SSE, extra="content-length: 9999\r\n"), Broken, "broke"),
    "no JSON": (events(b"data: hello\n\n"), Incompatible, "readable"),
    "JSON of another kind": (events(b'data: {"choices":[{"delta":"x"}]}\n\n'), Broken, "early"),
    "nothing but the end": (events(b'data: {"choices":[]}\n\n', DONE), Incompatible, "without a word"),
    "a packed answer": (packed(WORDS, "br"), Incompatible, "compresses its answers"),
    "an answer that cannot be unpacked": (packed(b"\x1f\x8b" + b"0" * 99, "gzip"), Incompatible, "cannot be read"),
    "an endless line": (events(b"data: " + b"x" * (17 << 20)), Incompatible, "more than"),
    "words, and then nothing": (events(chunk("one"), b"data: upstream died\n\n"), Broken, "after 'upstream died'"),
    "an answer without text": (as_json(b'{"choices":[]}'), Incompatible, "without text"),
}
REFUSALS: dict[str, tuple[bytes, str, str]] = {
    "403": (openai_error(None, "403 No"), "token", "unauthorised"),
    "an error inside an answer": (
        events(chunk("one"), b'data: {"error":{"message":"Out of memory.","code":500}}\n\n'), "Out of", "unavailable"),
    "a refusal inside an answer": (
        events(chunk("one"), b'data: {"error":{"message":"Too much.","code":429}}\n\n', DONE), "Too much", "busy"),
    "llama.cpp's error inside an answer": (
        events(chunk("one"), b'error: {"code":500,"message":"Slot lost.","type":"server_error"}\n\n'),
        "Slot lost", "unavailable"),
    "an end that is an error": (
        events(b'data: {"choices":[{"delta":{"content":"one"},"finish_reason":"error"}]}\n\n', DONE),
        "did not say which", "unavailable"),
    "code and msg in an event": (
        events(b'data: {"code":1301,"msg":"Not with me."}\n\n'), "Not with me", "unavailable"),
    "base_resp in a good answer": (
        as_json(b'{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}'),
        "insufficient balance", "unavailable"),
    "error_msg in a good answer": (
        as_json(b'{"error_code":336,"error_msg":"Open api daily limit"}'), "daily limit", "unavailable"),
    "a choice that failed": (
        events(b'data: {"choices":[{"delta":{},"finish_reason":"error","error":{"message":"Gone.","code":502}}]}\n\n'),
        r"\(502\): Gone", "unavailable"),
}  # fmt: skip
"""Errors that come with an answer, and a token that may not ask. All others are in `test_dialects` and `test_pages`."""


async def failure(reply: bytes, kind: type[RemoteError], words: str) -> RemoteError:
    """The error that an answer ends with. What came before it is part of what was sent."""
    got = ""
    async with raw_peer(lambda _: reply) as port, client_of(port) as client:
        with pytest.raises(kind, match=words) as raised:
            async for piece in await begin(client):
                got += piece
    assert "one".startswith(got[:3]) and str(raised.value).isprintable()
    return raised.value


@pytest.mark.parametrize("name", FAILURES)
async def test_every_failure_is_of_the_one_tree(name: str) -> None:
    await failure(*FAILURES[name])


@pytest.mark.parametrize("name", REFUSALS)
async def test_errors_inside_an_answer_are_refusals(name: str) -> None:
    reply, words, code = REFUSALS[name]
    error = await failure(reply, Refused, words)
    assert isinstance(error, Refused) and (error.code, error.retry) == (code, code != "unauthorised")


@pytest.mark.parametrize("keeps_alive", [False, True])
async def test_silence_and_a_line_kept_open_for_nothing_both_end(keeps_alive: bool) -> None:
    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(events(chunk("one")))
        while keeps_alive:
            writer.write(b": still here\n\n")
            await writer.drain()
            await asyncio.sleep(0.02)
        await asyncio.Event().wait()

    clock, (deadline, silence) = FastClock(), (PATIENCE, 2 * PATIENCE) if keeps_alive else (2 * PATIENCE, PATIENCE)
    async with listening(serve) as port, CompletionsClient(f"http://127.0.0.1:{port}", clock=clock) as client:
        stream = await begin(client, deadline=deadline, silence=silence)
        assert await anext(stream) == "one"
        clock.hurry(PATIENCE / 0.2)
        with pytest.raises(LinkDown, match="nothing more for" if keeps_alive else "was silent for"):
            await anext(stream)


async def test_a_question_that_costs_nothing_is_asked_again_and_one_that_may_be_paid_for_is_sent_once() -> None:
    asked: list[int] = []

    def reply(number: int) -> bytes:
        asked.append(number)
        return b"" if number == 0 else LISTED

    async with raw_peer(reply) as port, client_of(port) as client:
        assert [model.id for model in await client.models(PATIENCE)] == ["a/b"]
    asked.clear()
    async with raw_peer(reply) as port, client_of(port) as client:
        with pytest.raises(Broken):
            await answer(client)
        assert asked == [0]
    with pytest.raises(Unsent, match="nothing listens"):
        async with client_of(port) as client:
            await answer(client)


async def test_the_request_says_no_more_than_every_server_knows() -> None:
    heard: list[dict[str, Any]] = []

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await request_of(reader)
        assert b"POST /openai/v1/chat/completions " in head and b"authorization: bearer secret" in head.lower()
        heard.append(json.loads(body))
        writer.write(events(chunk("x", "stop")))
        await writer.drain()

    async with listening(serve) as port, CompletionsClient(f"http://127.0.0.1:{port}/openai/v1", "secret") as client:
        await answer(client)
        await answer(client, sampling=Sampling(temperature=0.5, top_k=5, top_p=0.9, seed=3))
    plain = {"messages": [{"role": "user", "content": QUESTION[1]}], "model": "target", "max_tokens": 40}
    plain |= {"temperature": 0.0, "stream": True, "stream_options": {"include_usage": True}}
    assert heard == [plain, {**plain, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 3}]


async def test_a_refusal_that_leaving_out_does_not_mend_teaches_nothing() -> None:
    told = b'{"error": {"message": "Unknown parameter: foo. Supported: model, messages, stream_options"}}'
    refused, heard = http(told, status="400 Bad Request", content_type="application/json"), list[dict[str, Any]]()

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(json.loads((await request_of(reader))[1]))
        writer.write(refused if len(heard) < 3 else events(chunk("x", "stop")))

    async with listening(serve) as port, client_of(port) as client:
        with pytest.raises(Refused):
            await answer(client)
        await answer(client)
    assert ["stream_options" in one for one in heard] == [True, False, True]


# ---- who is there ----------------------------------------------------------------------------------------------------


async def found(url: str, token: str | None = None, **options: Any) -> Card | tuple[Model, ...]:
    async with VerifierClient(url, token) as verifier, CompletionsClient(url, token) as endpoint:
        return await detect(verifier, endpoint, options.pop("timeout", PATIENCE), **options)


async def test_a_verifier_is_known_and_its_chat_address_too(verifier: VerifierProcess) -> None:
    card = await found(verifier.url)
    assert isinstance(card, Card) and card.target == "target"
    models = await found(verifier.url + "/v1")
    assert isinstance(models, tuple) and [model.id for model in models] == ["target"]
    with pytest.raises(Incompatible, match="was not made for target"):
        await found(verifier.url, tokenizer=b"x" * 16)


def by_path(replies: dict[bytes, bytes], default: bytes, asked: list[bytes] | None = None) -> Any:
    """A server with an answer for each path. `asked` collects the paths."""
    asked = [] if asked is None else asked

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1])
        writer.write(replies.get(asked[-1], default))
        await writer.drain()

    return listening(serve)


NOT_FOUND = openai_error(None, "404 Not Found", "Unknown path.")
LISTED = as_json(b'{"object":"list","data":[{"id":"a/b","owned_by":"me","permission":[]}]}')


def listing(owner: str) -> bytes:
    return as_json(b'{"object":"list","data":[{"id":"a/b","owned_by":"%s"}]}' % owner.encode())


@pytest.mark.parametrize(
    ("listed", "stranger"),
    [
        (LISTED, NOT_FOUND),
        (LISTED, openai_error(None, "401 No")),
        (LISTED, http(b"ok", content_type="text/plain")),
        (listing(GATEWAY_OWNER), NOT_FOUND),
    ],
)
async def test_an_openai_compatible_server_or_gateway_is_known_by_its_models(listed: bytes, stranger: bytes) -> None:
    async with by_path({b"/v1/models": listed}, stranger) as port:
        [model] = await found(f"http://127.0.0.1:{port}")
        assert isinstance(model, Model) and (model.id, model.continues) == ("a/b", False)


async def test_a_verifier_behind_a_login_page_that_just_went_is_no_plain_server() -> None:
    pages = {b"/v1/models": listing(OWNER), b"/v1/card": http(PAGE, content_type="text/html")}
    async with by_path(pages, NOT_FOUND) as port:
        with pytest.raises(Stranger, match="login page"):
            await found(f"http://127.0.0.1:{port}")


async def test_who_is_neither_is_told_in_a_sentence() -> None:
    for page in (NOT_FOUND, http(PAGE, content_type="text/html")):
        async with by_path({}, page) as port:
            with pytest.raises(Stranger, match="not a server that Outrider can use, or the address is wrong"):
                await found(f"http://127.0.0.1:{port}")
    async with by_path({}, openai_error(None, "401 No")) as port:
        with pytest.raises(Refused, match="token"):
            await found(f"http://127.0.0.1:{port}")
    async with by_path({b"/v1/models": as_json(b'{"object":"list","data":[]}')}, NOT_FOUND) as port:
        with pytest.raises(Incompatible, match="serves no model"):
            await found(f"http://127.0.0.1:{port}")


async def test_a_dead_line_and_a_verifiers_refusal_are_not_asked_twice() -> None:
    asked: list[int] = []

    def reply(number: int) -> bytes:
        asked.append(number)
        return refusal("busy", status="503 Busy", retry=True)

    async with raw_peer(reply) as port:
        with pytest.raises(Refused) as refused:
            await found(f"http://127.0.0.1:{port}")
    assert refused.value.code == "busy" and asked == [0]
    with pytest.raises(LinkDown, match="nothing listens"):
        await found(f"http://127.0.0.1:{port}")


async def test_what_is_known_to_be_there_is_asked_at_once() -> None:
    asked: list[bytes] = []
    async with by_path({b"/v1/models": LISTED}, NOT_FOUND, asked) as port:
        models = await found(f"http://127.0.0.1:{port}", kind="openai")
        assert isinstance(models, tuple) and models[0].id == "a/b"
        with pytest.raises(Stranger):
            await found(f"http://127.0.0.1:{port}", kind="verifier")
    assert asked == [b"/v1/models", b"/v1/card"]


async def test_a_token_that_a_server_quotes_is_hidden() -> None:
    quoted = json.dumps({"error": {"message": "Incorrect API key provided: s3cret-token.", "code": "invalid"}}).encode()
    refused = as_json(quoted, "401 Unauthorized")
    typed = refusal("unauthorised", status="401 Unauthorized", message="Not s3cret-token.")
    moved = http(b"", status="302 Found", extra="location: /login?key=s3cret-token\r\n")
    for reply in (refused, typed, moved, http(b"data: " + quoted + b"\n\n", content_type="text/event-stream")):
        async with (
            raw_peer(lambda _: reply) as port,  # noqa: B023
            CompletionsClient(f"http://127.0.0.1:{port}", "s3cret-token") as chat,
            VerifierClient(f"http://127.0.0.1:{port}", "s3cret-token") as verifier,
        ):
            for call in (verifier.card(PATIENCE), chat.models(PATIENCE), answer(chat)):
                with pytest.raises(RemoteError) as caught:
                    await call
                assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("lists", [True, False])
async def test_an_api_without_a_version_in_its_path_is_found_by_its_list_or_by_the_first_question(lists: bool) -> None:
    paths: list[str] = []

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await request_of(reader)
        path = head.split(b" ")[1].decode()
        paths.append(path)
        if path == "/inference/chat/completions":
            answer = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
            writer.write(http(json.dumps(answer).encode(), content_type="application/json"))
        elif path == "/inference/models" and lists:
            writer.write(http(b'{"data":[{"id":"sonar"}]}', content_type="application/json"))
        else:
            writer.write(http(PAGE, status="404 Not Found", content_type="text/html"))
        await writer.drain()

    async with listening(serve) as port, CompletionsClient(f"http://127.0.0.1:{port}/inference") as client:
        [model] = await client.models(PATIENCE, wanted="sonar")
        assert model.id == "sonar"
        assert await answer(client) == await answer(client) == "Yes."
    asked = [path for path in paths if path.endswith("completions")]
    first = [] if lists else ["/inference/v1/chat/completions"]
    assert asked == [*first, *["/inference/chat/completions"] * 2], "from then on, that address is used"
