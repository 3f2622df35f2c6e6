"""`outrider local`: models are found, fetched, added, tried and forgotten; their files stay where they are."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from huggingface_hub import constants

from app.config import Folders
from app.local.catalogue import catalogue
from app.local.hub import Hub
from app.local.registry import LocalModels
from tests.remote.test_transport import Authority
from tests.support.commands import Outrider
from tests.support.gguf_files import byte_level, entries_of, write_vocabulary
from tests.support.hub_server import HubServer
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "small-Q4.gguf"
    path.parent.mkdir()
    template = "{% for one in messages %}{{ one.content }}{% endfor %}"
    return write_vocabulary(path, {**entries_of(byte_level()), "tokenizer.chat_template": template})


@pytest.fixture
def guide(tiny_pair: Path) -> Path:
    """A model that starts quickly."""
    return tiny_pair / "target"


def test_a_model_is_found_added_listed_and_forgotten(outrider: Outrider, file: Path) -> None:
    pytest.importorskip("llama_cpp")
    found, size = outrider("local", "find", str(file.parent), "--json"), file.stat().st_size
    assert found.json == {"name": "small-Q4", "size": size, "program": str(file.parent), "file": str(file)}
    assert outrider("local", "add", str(file), "--name", "mine").says(0, "outrider local use mine")
    listed = outrider("local", "list", "--json")
    assert listed.json == {"name": "mine", "size": size, "file": str(file), "used": False}
    file.rename(file.with_name("gone"))
    assert outrider("local").out == f"   mine  missing  {file}\n"
    assert outrider("local", "rm", "mine").says(0, f"Its file was missing: {file}")
    file.with_name("gone").rename(file)
    assert outrider("local", "add", str(file), "--name", "mine").code == 0
    assert outrider("local", "rm", "mine").says(0, f"Its file stays: {file}")
    assert outrider("local", "list").out == "" and file.exists()


def test_a_model_that_cannot_answer_is_not_added(outrider: Outrider, file: Path, tmp_path: Path) -> None:
    write_vocabulary(file, entries_of(byte_level()))
    (tmp_path / "empty").mkdir()
    for path, said in ((file, "small-Q4.gguf has no chat template"), (tmp_path / "empty", "empty has no model")):
        assert outrider("local", "add", str(path)).says(1, said)
    assert outrider("local", "list").out == ""


def test_a_model_that_takes_the_name_of_another_says_so(outrider: Outrider, tiny_pair: Path, tmp_path: Path) -> None:
    one, other = (shutil.copytree(tiny_pair / "target", tmp_path / name) for name in ("one", "other"))
    for path, said in ((one, False), (one, False), (other, True)):
        added = outrider("local", "add", str(path), "--name", "mine")
        assert added.code == 0 and (f"mine was {one} before" in added.err) == said
    assert str(other) in outrider("local", "list").out


def test_a_model_is_tried_unless_it_was_damaged_since(outrider: Outrider, guide: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(guide, tmp_path / "tiny")
    assert outrider("local", "add", str(folder)).code == 0
    tried = outrider("local", "try", "tiny")
    assert tried.code == 0 and "loaded in" in tried.out and "tokens/s" in tried.out, tried.err
    assert sys.platform != "linux" or " MB of memory" in tried.out
    os.truncate(folder / "model.safetensors", 1000)
    tried = outrider("local", "try", "tiny")
    assert tried.says(1, "model.safetensors is ") and "Fetch it again" in tried.err
    shutil.rmtree(folder)
    tried = outrider("local", "try", "tiny")
    assert tried.says(1, "tiny is missing") and "outrider local rm tiny" in tried.err
    assert "is missing: restore it" in outrider("doctor", "--remote", "http://127.0.0.1:9").out


def test_a_model_answers_by_option_or_choice(outrider: Outrider, guide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "8")
    monkeypatch.setenv("OUTRIDER_REMOTE", "http://127.0.0.1:9/v1")
    assert outrider("local", "add", str(guide), "--name", "guide").code == 0
    assert outrider("ask", "hello").code == 3
    answered = outrider("ask", "--local", "guide", "--json", "hello")
    assert answered.says(0, "guide, on this device, wrote all of it; it was not checked")
    assert [one["writer"] for one in answered.json["stretches"]] == ["guide"]
    for command in (["ask", "hello"], ["chat"]):
        assert outrider(*command, "--local", "nobody").says(2, "no model 'nobody' on this device; yours: guide")
    assert outrider("local", "use", "guide").code == 0
    assert outrider("local").out.startswith("*  guide") and outrider("ask", "hello").code == 0
    monkeypatch.setenv("OUTRIDER_OFFLINE", "fail")
    told = outrider("local", "use", "guide")
    assert told.says(0, "no effect") and "OUTRIDER_OFFLINE" in told.err
    assert outrider("ask", "hello").code == 3, "a setting comes first"
    monkeypatch.delenv("OUTRIDER_OFFLINE")
    assert outrider("local", "use", "--none").code == 0 and outrider("ask", "hello").code == 3
    assert outrider("local", "use").code == 2


# ---- get: asked, killed, interrupted, offline, and without room ------------------------------------------------------


HERE = 100_000
"""Bytes of the weights that arrive before something happens."""
GET = ("get", "owner/tiny", "--yes")
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def server(tiny_pair: Path) -> HubServer:
    """A hub with a tiny model, which PyTorch runs."""
    files = {path.name: path.read_bytes() for path in sorted((tiny_pair / "target").iterdir())}
    del files["target.onnx"]
    return HubServer(files)


@pytest.fixture
def hub(server: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """The hub of commands in this process."""
    with server.running() as address:
        monkeypatch.setattr("app.local.hub.Hub", partial(Hub, address, tmp_path / "hf"))
        yield server


def variables(home: Path, hub: str) -> dict[str, str]:
    """Variables of a person whose hub has this address."""
    own = {"HOME": str(home), "OUTRIDER_HOME": str(home / "outrider"), "HF_HOME": str(home / "hf")}
    return {"PATH": os.environ["PATH"], "HF_ENDPOINT": hub, "HF_TOKEN": "hf_secret", **own}


@pytest.fixture
def start(server: HubServer, tmp_path: Path) -> Iterator[Start]:
    """Starts `outrider local ARGUMENTS` as a program of its own with `server` as its hub."""
    started: list[subprocess.Popen[str]] = []
    with server.running() as address:

        def run(*arguments: str, most: int = resource.RLIM_INFINITY, **more: str) -> subprocess.Popen[str]:
            def prepared() -> None:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # In the background of a shell it is ignored.
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

            process = subprocess.Popen(
                [sys.executable, "-m", "app.start", "local", *arguments], text=True, cwd=REPOSITORY,
                env=variables(tmp_path, address) | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, preexec_fn=prepared,
            )  # fmt: skip
            started.append(process)
            return process

        yield run
        for process in started:
            process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program that has ended."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def parts(home: Path) -> list[int]:
    return [path.stat().st_size for path in home.rglob("*.outrider.part")]


def test_a_model_is_fetched_and_added(start: Start, server: HubServer, tmp_path: Path) -> None:
    code, out, err = ended(start(*GET, "--name", "mine"))
    assert code == 0, err
    folder = Path(out.strip())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == server.files
    assert folder.is_relative_to(tmp_path / "hf/hub")
    for said in ("licence: apache-2.0", " bytes to fetch into", "Requests go only to 127.0.0.1:", "Added mine."):
        assert said in err
    assert dict(LocalModels(Folders.locate(variables(tmp_path, "")))) == {"mine": folder}
    asked = sorted(path.rpartition("/")[2] for _, path, _ in server.asked)
    assert asked == sorted(["tiny", *server.files]), "something else was sent, or twice"
    assert {headers["authorization"] for _, _, headers in server.asked} == {"Bearer hf_secret"}
    assert ended(start(*GET))[0] == 0
    assert len(server.asked) == len(asked) + 1, "what is here was fetched again"


def test_a_fetched_model_that_cannot_answer_is_not_added(outrider: Outrider, hub: HubServer) -> None:
    del hub.files["chat_template.jinja"]
    assert outrider("local", *GET).says(1, "has no chat template") and outrider("local", "list").out == ""


def test_the_authorities_of_this_device_are_trusted(start: Start, server: HubServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with HubServer(server.files).running(authority.issue("127.0.0.1")) as address:
        code, _, err = ended(start(*GET, HF_ENDPOINT=address))
        assert code == 3 and "CERTIFICATE_VERIFY_FAILED" in err
        assert ended(start(*GET, HF_ENDPOINT=address, SSL_CERT_FILE=str(authority.file)))[0] == 0


def test_ctrl_c_keeps_what_has_arrived_and_it_is_resumed(start: Start, server: HubServer, tmp_path: Path) -> None:
    server.hold = HERE
    process = start(*GET)
    assert server.held.wait(PATIENCE_SECONDS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while parts(tmp_path) != [HERE]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130 and "the same command resumes there" in err and "Traceback" not in err
    assert parts(tmp_path) == [HERE] and not list(tmp_path.rglob("local.toml"))
    server.hold = None
    code, _, err = ended(start(*GET))
    assert code == 0 and f"{sum(map(len, server.files.values())) - HERE:,} bytes to fetch" in err, err
    assert server.begins == [0, HERE] and not parts(tmp_path)


def test_a_disk_that_fills_up_keeps_what_has_arrived(start: Start, tmp_path: Path) -> None:
    code, _, err = ended(start(*GET, most=HERE))
    assert code == 1 and "cannot be written: File too large. What has arrived is kept" in err
    assert "Traceback" not in err and parts(tmp_path) == [HERE]


def test_it_asks_in_a_terminal(server: HubServer, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.start", "local", "get", "owner/tiny"]
    with (
        server.running() as address,
        Terminal(command, environment=variables(tmp_path, address), folder=REPOSITORY) as terminal,
    ):
        terminal.wait_for("Fetch it? [Y/n]")
        terminal.type("n\n")
        assert terminal.end() == 0 and not server.begins


def test_what_cannot_be_done_is_said(outrider: Outrider, hub: HubServer) -> None:
    for words, code, said in (
        ("add nowhere.gguf", 2, "nowhere.gguf is missing"),
        ("rm other", 2, "no model 'other'"),
        ("try other", 2, "outrider local find"),
        ("find", 3, "outrider local find FOLDER"),
        ("find nowhere", 2, "nowhere is missing"),
        ("get owner/tiny", 2, "no terminal to confirm in"),
        ("get tiny --yes", 2, "outrider local catalogue"),
        ("get owner/other --yes", 2, "no model owner/other at 127.0.0.1"),
        ("get owner/tiny:q4 --yes", 2, "no GGUF file in owner/tiny"),
        ("get owner/tiny --yes --name a/b", 2, "a name has letters"),
    ):
        result = outrider("local", *words.split())
        assert result.says(code, said) and not result.out and not hub.begins


def test_without_a_network_nobody_is_asked(
    outrider: Outrider, hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(constants, "HF_HUB_OFFLINE", True)
        assert outrider("local", *GET).says(3, "while HF_HUB_OFFLINE is set")
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    assert outrider("local", *GET).says(1, "Nothing is fetched") and not hub.asked
    monkeypatch.delenv("OUTRIDER_MODE")
    monkeypatch.setattr("app.local.hub.Hub", partial(Hub, "http://127.0.0.1:1", tmp_path / "hf"))
    assert outrider("local", *GET).says(3, "127.0.0.1:1 cannot be reached")


def test_the_catalogue_names_models_that_get_takes(outrider: Outrider) -> None:
    shown, known = outrider("local", "catalogue"), catalogue().models
    assert shown.code == 0 and [line.split()[0] for line in shown.out.splitlines()] == [one.name for one in known]
    assert all(catalogue().get(one.name.upper()) is one for one in known)
    assert all(one.licence in ("apache-2.0", "mit") and one.memory > one.size > 1e8 for one in known)
