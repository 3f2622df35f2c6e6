"""Behind the gateway is a server that checks no drafts: its text is passed on under its own mark."""

from __future__ import annotations

from pathlib import Path

from app.config import Folders
from app.local.registry import LocalModels
from tests.app.gateway.conftest import Opened
from tests.support.chat_server import ChatServer, Script
from tests.support.gateways import CHAT, stream_to_end

ROLES = ("user", "assistant")
LATE = [("system", "Be brief."), ("user", "how?"), ("assistant", "So."), ("system", "Be polite."), ("user", "why?")]
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
        assert cut.error["code"] == "answer_broken" and cut.error["message"].endswith("The part that arrived is kept.")


async def test_any_conversation_is_passed_on_in_order(running: Opened) -> None:
    """Late system messages come first. Thousands of messages are passed on: such servers read a million tokens."""
    server = ChatServer([Script(["Hello."])])
    said = [{"role": role, "content": f"{role} {turn} " + "x" * 500} for turn in range(2_500) for role in ROLES]
    async with server.listening() as port, running(f"http://127.0.0.1:{port}/v1") as (_, client):
        for number in range(2):
            asked = [*said, {"role": "user", "content": "Say hello."}]
            answered = await client.post(CHAT, json={"messages": asked})
            assert answered.json()["choices"][0]["message"]["content"] == "Hello."
            assert server.asked[number]["messages"] == asked
            said = [*asked, {"role": "assistant", "content": "Hello."}]
        await client.post(CHAT, json={"messages": [{"role": role, "content": text} for role, text in LATE]})
    sent = [(one["role"], one["content"]) for one in server.asked[2]["messages"]]
    assert sent == [("system", "Be brief.\n\nBe polite."), ("user", "how?"), ("assistant", "So."), ("user", "why?")]
    assert "temperature" not in server.asked[2], "nobody has chosen one"


async def test_a_model_on_this_device_continues_and_is_named(running: Opened, tiny_pair: Path, tmp_path: Path) -> None:
    LocalModels(Folders.locate({"OUTRIDER_HOME": str(tmp_path / "home")})).add("small-one", tiny_pair / "target")
    server = ChatServer([Script(["Half", " of"], cut=True)], leaves=True)
    async with server.listening() as port, running(f"http://127.0.0.1:{port}/v1", offline="local") as (_, client):
        names = [model["id"] for model in (await client.get("/v1/models")).json()["data"]]
        assert names == ["outrider", "talker"]
        cut = await stream_to_end(client, BODY)
        assert cut.ended and cut.error is None and cut.text.startswith("Half of") and len(cut.text) > 7
        assert cut.sources == ["hosted"] * 7 + ["local"] * (len(cut.text) - 7)
        end = cut.chunks[-1]["outrider"]
        assert (end["source"], end["state"], end["checked"]) == ("local", "unchecked", 7)
        report = (await client.get(end["answer"])).json()
        assert report["spans"] == [
            {"start": 0, "end": 7, "source": "hosted"},
            {"start": 7, "end": len(cut.text), "source": "local", "model": "small-one"},
        ]
        assert report["model"] == "talker" and "this device" in report["why"]
        whole = await client.post(CHAT, json=BODY)
        marks = whole.json()["outrider"]
        assert whole.json()["model"] == "small-one" and whole.headers["x-outrider-source"] == "local"
        assert [span["model"] for span in marks["spans"]] == ["small-one"] and marks["checked"] == 0
        named = await client.post(CHAT, json={**BODY, "model": "talker"})
        assert named.json()["model"] == "small-one", "a program asks on for the model that is away"
        assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == names
