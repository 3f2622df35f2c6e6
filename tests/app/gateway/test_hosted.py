"""Behind the gateway is a server that checks no drafts: its text is passed on under its own mark."""

from __future__ import annotations

from tests.app.gateway.conftest import Opened
from tests.support.chat_server import ChatServer, Script
from tests.support.gateways import CHAT, stream_to_end

ROLES = ("user", "assistant")
LATE = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "how?"},
    {"role": "assistant", "content": "So."},
    {"role": "system", "content": "Be polite."},
    {"role": "user", "content": "why?"},
]
BODY = {"messages": [{"role": "user", "content": "Say hello."}], "temperature": 0}


async def test_its_text_is_marked_and_a_broken_answer_ends_with_an_error(running: Opened) -> None:
    server = ChatServer([Script(["Hell", "o."]), Script(["Hello", " again"]), Script(["Half of"], cut=True, reason="")])
    async with server.listening() as port, running(f"http://127.0.0.1:{port}/v1") as (_, client):
        answered = await client.post(CHAT, json={**BODY, "temperature": 0.5, "top_p": 0.5, "seed": 3})
        told = answered.json()
        assert told["choices"][0]["message"]["content"] == "Hello." and told["model"] == "talker"
        assert answered.headers["x-outrider-source"] == told["outrider"]["source"] == "hosted"
        assert told["outrider"]["state"] == "hosted" and told["outrider"]["checked"] == 6
        assert (server.asked[0]["top_p"], server.asked[0]["seed"]) == (0.5, 3)
        read = await stream_to_end(client, BODY)
        assert read.text == "Hello again" and set(read.sources) == {"hosted"}
        cut = await stream_to_end(client, BODY)
        assert cut.text == "Half of" and cut.error is not None and not cut.ended
        assert cut.error["code"] == "answer_broken"


async def test_any_conversation_is_passed_on_in_order(running: Opened) -> None:
    """Late system messages come first. Thousands of messages are passed on: such servers read a million tokens."""
    server = ChatServer([Script(["Hello."])])
    said = [{"role": role, "content": f"{role} {turn} " + "x" * 500} for turn in range(5_000) for role in ROLES]
    async with server.listening() as port, running(f"http://127.0.0.1:{port}/v1") as (_, client):
        for number in range(2):
            asked = [*said, {"role": "user", "content": "Say hello."}]
            answered = await client.post(CHAT, json={"messages": asked})
            assert answered.json()["choices"][0]["message"]["content"] == "Hello."
            assert server.asked[number]["messages"] == asked
            said = [*asked, {"role": "assistant", "content": "Hello."}]
        await client.post(CHAT, json={"messages": LATE})
    sent = [(one["role"], one["content"]) for one in server.asked[2]["messages"]]
    assert sent == [("system", "Be brief.\n\nBe polite."), ("user", "how?"), ("assistant", "So."), ("user", "why?")]
    assert "temperature" not in server.asked[2], "nobody has chosen one"
