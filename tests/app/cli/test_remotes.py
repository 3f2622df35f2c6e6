"""`outrider remote` and `outrider models`, as people and scripts use them, and the options that name one."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.config import BUNDLED_DRAFTER, Folders
from app.remotes.registry import Remote, Remotes
from models.config import read_config, write_config
from tests.remote.test_transport import Authority
from tests.remote.toy_verifier import ToyVerifier, serving
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.keyring import MemoryKeyring
from tests.support.serving import VerifierProcess
from tests.support.shells import served

TOKEN = "sk-do-not-show-me-0123456789"
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def keyring(ring: MemoryKeyring) -> None:
    """Every test has a keyring of its own."""


def parts(out: str) -> dict[str, str]:
    """State of each part in the output of `outrider remote test`."""
    return {line[2:13].strip(): line[0] for line in out.splitlines()}


# ---- keeping them ----------------------------------------------------------------------------------------------------


def test_the_first_server_answers_from_now_on(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    def used() -> list[str]:
        return [row["name"] for row in outrider("remote", "list", "--json").rows if row["used"]]

    first = outrider("remote", "add", "office", "https://office:8000")
    assert "office is in use now" in first.err and "outrider remote use --none" in first.err
    assert used() == ["office"]
    assert "is in use now" not in outrider("remote", "add", "home", NOBODY).err and used() == ["office"]
    assert outrider("remote", "use", "home").err == ""
    monkeypatch.setenv("OUTRIDER_REMOTE", "https://elsewhere")
    assert "names https://elsewhere. Delete it there." in outrider("remote", "use", "office").err
    monkeypatch.delenv("OUTRIDER_REMOTE")
    assert "the bundled model answers now" in outrider("remote", "rm", "office").err
    outrider("remote", "add", "far", NOBODY)
    assert used() == [], "the bundled model was asked for"


def test_add_list_use_remove(outrider: Outrider, home: Path, ring: MemoryKeyring) -> None:
    assert outrider("remote").out == "" and "the bundled model answers" in outrider("remote").err
    added = outrider("remote", "add", "office", "https://office:8000", "--token-stdin", stdin=TOKEN + "\n")
    assert added.code == 0 and added.out == "" and "its token: keyring" in added.err
    assert outrider("remote", "add", "home", NOBODY, "--token-env", "HOME_TOKEN", "--kind", "verifier").code == 0
    assert outrider("remote", "use", "office").code == 0
    listed = outrider("remote")
    assert [line.split() for line in listed.out.splitlines()] == [
        ["*", "office", "https://office:8000", "auto", "token:", "keyring"],
        ["home", NOBODY, "verifier", "token:", "HOME_TOKEN", "(not", "set)"],
    ]
    rows = outrider("remote", "list", "--json").rows
    assert [(row["name"], row["used"], row["token"], row["token_variable"]) for row in rows] == [
        ("office", True, "keyring", None),
        ("home", False, "environment", "HOME_TOKEN"),
    ]
    assert outrider("remote", "use", "--none").code == 0
    assert all(line.startswith(" ") for line in outrider("remote").out.splitlines())
    assert outrider("remote", "remove", "office").code == 0 and ring.kept == {}
    assert [line.split()[0] for line in outrider("remote").out.splitlines()] == ["home"]
    everything = added.out + added.err + listed.out + listed.err
    assert TOKEN not in everything + "".join(path.read_text() for path in (home / "config").iterdir())


def test_a_new_token(outrider: Outrider, ring: MemoryKeyring) -> None:
    outrider("remote", "add", "office", "https://office", "--token-stdin", stdin=TOKEN)
    assert outrider("remote", "add", "office", "https://office", "--model", "m").says(2, "--replace")
    assert outrider("remote", "add", "office", "https://office", "--model", "m", "--replace").code == 0
    assert list(ring.kept.values()) == [TOKEN], "it is the same server"
    assert outrider("remote", "token", "office", "--token-stdin", stdin="new-token").code == 0
    assert list(ring.kept.values()) == ["new-token"]
    assert outrider("remote", "token", "office").code == 2  # There is no terminal to ask on.
    assert outrider("remote", "token", "office", "--remove").code == 0 and ring.kept == {}
    outrider("remote", "token", "office", "--token-stdin", stdin=TOKEN)
    assert outrider("remote", "add", "office", "https://elsewhere", "--replace").code == 0 and ring.kept == {}


def test_a_provider_needs_only_its_name(
    outrider: Outrider, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", TOKEN)
    listed = outrider("remote", "add")
    assert listed.code == 0 and "GROQ_API_KEY (set)" in listed.out and "outrider remote add openai" in listed.err
    for name in (line.split()[0] for line in listed.out.splitlines()):
        assert outrider("remote", "add", name).code == 0, name
    rows = {row["name"]: row for row in outrider("remote", "list", "--json").rows}
    assert rows["anthropic"]["kind"] == "anthropic" and rows["anthropic"]["token_place"].endswith("(not set)")
    assert rows["groq"]["token_place"] == "GROQ_API_KEY (set)" and rows["ollama"]["token_place"] == "none"
    assert ring.kept == {}, "a token in the environment stays there"
    assert outrider("remote", "add", "groq").says(2, "exists already")
    own = outrider("remote", "add", "openai", "--name", "work", "--model", "o9", "--token-stdin", stdin=TOKEN)
    assert own.code == 0 and "its token: keyring" in own.err and TOKEN not in own.err
    work = next(row for row in outrider("remote", "list", "--json").rows if row["name"] == "work")
    assert (work["url"], work["model"], work["token_variable"]) == ("https://api.openai.com/v1", "o9", None)


def test_usage_errors(outrider: Outrider, home: Path) -> None:
    for arguments, says in (
        (["add", "https://office"], "outrider remote add NAME URL"),  # Nobody can be asked without a terminal.
        (["add", "office", "https://office", "--name", "x"], "--name is for providers"),
        (["add", "office", "office:8000"], "http:// or https://"),
        (["add", "bundled", "https://office"], "came with Outrider"),
        (["add", "office", "https://me:secret@office"], "credentials"),
        (["add", "office", "https://office/v1/chat/completions"], "leave /chat/completions out of it"),
        (["add", "office", "https://office?key=secret"], "leave ? and what follows out of the address"),
        (["add", "office", "https://office", "--ca", "/nowhere/ca.pem"], "/nowhere/ca.pem cannot be read"),
        (["add", "office", "https://office", "--proxy", "http://me:secret@proxy"], "without credentials"),
        (["add", "office", "https://office", "--token-stdin"], "stdin holds no token"),
        (["add", "office", "https://office", "--token-stdin", "--token-env", "A"], "not both"),
        (["use"], "Give a name, or --none"),
        (["use", "office"], "there is no server 'office'"),
        (["test"], "No server was chosen"),
    ):
        said = outrider("remote", *arguments)
        assert said.says(2, says) and said.out == "" and "secret" not in said.err, arguments
        assert not (home / "config").exists()


# ---- using them ------------------------------------------------------------------------------------------------------


def test_commands_take_a_name(outrider: Outrider, verifier: VerifierProcess, tmp_path: Path) -> None:
    outrider("remote", "add", "here", verifier.url)
    outrider("remote", "add", "nobody", NOBODY)
    short = ["--mode", "edge", "--max-tokens", "4", "--json"]
    named = outrider("ask", "list files", "--remote", "here", *short)
    assert named.code == 0 and named.json["provenance"] == {"verified": 4, "drafted": 0, "streamed": 0}
    outrider("remote", "use", "nobody")
    assert outrider("ask", "list files", *short).says(3, "nothing listens at 127.0.0.1:9")
    assert outrider("ask", "list files", "--remote", "hree", *short).says(2, "yours: here, nobody")
    assert "yours: here, nobody" in outrider("chat", "--remote", "hree").err
    assert "needs a terminal" in outrider("chat", "--remote", "here").err
    assert "✓ server" in outrider("doctor", "--remote", "here").out
    assert "✗ server      there is no server 'hree'" in outrider("doctor", "--remote", "hree").out
    assert outrider("queue", "send", "--remote", "here").code == outrider("verify", "--remote", "here").code == 0
    file = tmp_path / "token"
    file.write_text(TOKEN)
    token = outrider("ask", "a", "--remote", "here", "--token-file", str(file))
    assert token.says(2, "--token-file is only for an address")


def test_a_token_for_an_address_is_in_a_file(outrider: Outrider, ring: MemoryKeyring, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with serving(ToyVerifier(token=TOKEN).app()) as port:
        url = f"http://127.0.0.1:{port}"
        address = ["doctor", "--remote", url, "--token-file"]
        file.write_text("a-wrong-token")
        wrong = outrider(*address, str(file))
        assert wrong.code == 1 and "Give the right token." in wrong.out
        file.write_bytes(f"\ufeffBearer {TOKEN}\r\n".encode())
        right = outrider(*address, str(file))
        assert "token." not in right.out and TOKEN not in right.out + right.err
        assert outrider("remote", "add", "toy", url, "--token-stdin", stdin=file.read_bytes()).code == 0
        assert outrider("remote", "test", "toy").code == 0
    data = f"{TOKEN}\n".encode("utf-16")
    file.write_bytes(data)
    adding = ("remote", "add", "far", "https://far", "--token-stdin")
    for refused in (outrider(*address, str(file)), outrider(*adding, stdin=data)):
        said = " ".join(refused.err.replace("│", "").split())
        assert refused.code == 2 and "is not text in UTF-8, but perhaps in UTF-16; save it as UTF-8" in said
        assert TOKEN not in refused.out + refused.err
    file.write_text("\n")
    for path, says in ((file, "the token is empty"), (tmp_path / "gone", "cannot be read: No such file")):
        refused = outrider(*address, str(path))
        assert refused.code == 2 and says in " ".join(refused.err.split())
    assert outrider("doctor", "--remote", url, "--token", TOKEN).code == 2, "other programs see arguments"


def test_the_token_of_a_named_remote_is_shown_to_it(outrider: Outrider, ring: MemoryKeyring) -> None:
    with serving(ToyVerifier(token=TOKEN).app()) as port:
        url = f"http://127.0.0.1:{port}"
        outrider("remote", "add", "toy", url, "--kind", "verifier", "--token-stdin", stdin=TOKEN)
        known = outrider("remote", "test", "toy")
        assert parts(known.out)["model"] == "✓" and "✓ token       from keyring" in known.out
        ring.locked = True
        locked = outrider("remote", "test", "toy")
        why = "the server toy cannot be used: the keyring did not return"
        assert locked.code == 1 and f"✗ set-up      {why}" in locked.out
        assert outrider("ask", "a", "--remote", "toy").says(3, why)
    assert TOKEN not in known.out + known.err + locked.out + locked.err


# ---- testing them ----------------------------------------------------------------------------------------------------


def test_a_verifier_that_fits(outrider: Outrider, verifier: VerifierProcess) -> None:
    outrider("remote", "add", "here", verifier.url.replace("127.0.0.1", "localhost"))
    outrider("remote", "use", "here")
    tested = outrider("remote", "test")
    assert tested.code == 0, tested.out
    assert set(parts(tested.out).values()) == {"✓"}
    assert list(parts(tested.out)) == ["name", "connection", "round trips", "model", "fits", "mode"]
    for says in ("localhost is ", "of 5 between", "the small model fits target"):
        assert says in tested.out
    assert "auto: the server drafts at first; the first answers show what is faster" in tested.out
    assert "3.0 tokens a round when it was tested" in tested.out and "tokens/s" not in tested.out


def test_a_base_model_is_told_and_the_bundled_drafter_is_no_trouble_of_another_model(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(ToyVerifier().app()) as port:  # Its card has no chat template.
        tested = outrider("remote", "test", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OUTRIDER_DRAFTER", str(BUNDLED_DRAFTER))
        told = parts(outrider("remote", "test", f"http://127.0.0.1:{port}").out)
    assert parts(tested.out)["chat"] == "!" and "is a base model" in tested.out and "--chat-template" in tested.out
    assert told["mode"] == "✓" and "fits" not in told


def test_a_drafter_that_does_not_fit(
    outrider: Outrider, tiny_pair: Path, tmp_path: Path, verifier: VerifierProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter")
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(folder))
    config = read_config(folder)
    for changes, says in (
        ({"memory": "00" * 32}, "! fits        the small model was made for a similar model"),
        ({"tokenizer": "00" * 16}, "not for target (another tokenizer); set `drafter` to one that was"),
    ):
        write_config(folder, msgspec.structs.replace(config, **changes))
        tested = outrider("remote", "test", verifier.url)
        assert tested.code == 0 and says in tested.out
        assert ("✓ mode        hosted: the server answers in plain text" in tested.out) == ("memory" not in changes)
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(BUNDLED_DRAFTER))
    own = f"to fetch its own: outrider drafter fetch {verifier.url.removeprefix('http://')}"
    assert own in outrider("remote", "test", verifier.url).out


def test_a_chat_server(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(ChatServer([])) as address:
        outrider("remote", "add", "talker", address, "--model", "other", "--kind", "openai")
        tested = outrider("remote", "test", "talker")
        assert tested.code == 0 and "OpenAI-compatible, with talker, other" in tested.out
        assert "✓ model       other; an answer that is cut off must be requested again" in tested.out
        assert "✓ mode        hosted: the server answers without drafts" in tested.out
        outrider("remote", "add", "talker", address, "--model", "third\n✓ forged", "--replace")
        tested = outrider("remote", "test", "talker")
        assert tested.code == 0 and "! model       third ✓ forged, which the server does not list" in tested.out
        monkeypatch.setenv("OUTRIDER_MODE", "edge")
        tested = outrider("remote", "test", address)
        assert tested.code == 1 and "✗ mode        edge is not possible: the server checks no drafts" in tested.out


def test_tls_is_told(outrider: Outrider, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for days, mark in ((100, "✓"), (5, "!")):
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days, hours=1)
        certificate, key = authority.issue("localhost", expires)
        with serving(ToyVerifier().app(), ssl_certfile=str(certificate), ssl_keyfile=str(key)) as port:
            url = f"https://localhost:{port}"
            outrider("remote", "add", "toy", url, "--ca", str(authority.file), "--replace")
            tested = outrider("remote", "test", "toy")
            assert parts(tested.out)["TLS"] == mark
            assert f"trusted by {authority.file}; localhost, signed by trustme" in tested.out
            assert f"until {expires:%Y-%m-%d} ({days} days)" in tested.out
            untrusted = outrider("remote", "test", url)
            assert untrusted.code == 3 and "--ca" in untrusted.out


# ---- which model answers, now and when the conversation goes on ------------------------------------------------------


@pytest.fixture
def remotes(home: Path) -> Remotes:
    return Remotes(Folders.locate({"OUTRIDER_HOME": str(home)}))


@pytest.fixture
def server(remotes: Remotes) -> Iterator[ChatServer]:
    """The server `mine` of the registry, which also has one that is away and in use."""
    server = ChatServer([Script(["Paris"])])
    with served(server) as address:
        remotes.put("mine", Remote(url=address, model="talker"))
        remotes.put("away", Remote(url="http://127.0.0.1:9"))
        remotes.use("away")
        yield server


def test_all_models_are_listed(outrider: Outrider, server: ChatServer, remotes: Remotes) -> None:
    every = outrider("models")
    assert every.says(0, "away: nothing listens") and "bundled  " in every.out and "checks drafts" in every.out
    assert "mine  talker  streams only\nmine  other  streams only\n" in every.out
    mine = outrider("models", "--remote", "mine", "--json")
    first, second = mine.rows
    unknown = dict.fromkeys(("context", "images", "dollars_per_million"))
    assert first == {"server": "mine", "model": "talker", "checks_drafts": False, **unknown}
    assert (mine.code, second["model"], mine.err) == (0, "other", "")
    assert outrider("models", "--remote", "away").code == 3
    assert outrider("models", "--remote", "nobody").says(2, "there is no server 'nobody'")
    url = remotes.get("mine").url
    assert outrider("models", "--remote", url).out.startswith(f"{url}  talker") and not server.asked


def test_a_named_model_stays_with_its_conversation(outrider: Outrider, server: ChatServer, remotes: Remotes) -> None:
    named = outrider("ask", "--remote", "mine", "--model", "other", "--json", "capital of France")
    assert named.code == 0 and named.json["model"] == "other" and server.asked[-1]["model"] == "other"
    then = outrider("ask", "-c", "and of Spain")  # The one in use is away, and is not asked.
    assert (then.code, then.out) == (0, "Paris\n") and server.asked[-1]["model"] == "other"
    remotes.remove("mine")
    gone = outrider("ask", "-c", "and of Greece")
    assert gone.says(3, "the server mine, which was chosen for this conversation") and gone.out == ""


def test_a_model_that_is_not_there_is_named(outrider: Outrider, server: ChatServer) -> None:
    server.strict = True
    third = outrider("ask", "--remote", "mine", "--model", "third", "a")
    assert third.code == 3 and "No model third" in third.err and "it lists talker, other" in third.err
    asked = len(server.asked)
    assert outrider("ask", "--remote", "bundled", "--model", "third", "a").says(2, "the bundled server has one model")
    assert outrider("ask", "--mode", "offline", "--model", "third", "a").says(2, "--model")
    assert len(server.asked) == asked
