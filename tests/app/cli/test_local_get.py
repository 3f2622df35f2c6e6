"""`outrider local get`, as a program of its own: asked, killed, interrupted, offline, and without room."""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.local.catalogue import catalogue
from tests.remote.test_transport import Authority
from tests.support.commands import Outrider
from tests.support.hub_server import HubServer
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

HERE = 100_000
"""Bytes of the weights that arrive before something happens."""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def server(tiny_pair: Path) -> HubServer:
    """A hub with a tiny model, which PyTorch runs."""
    files = {path.name: path.read_bytes() for path in sorted((tiny_pair / "target").iterdir())}
    del files["target.onnx"]
    return HubServer(files)


@pytest.fixture
def start(server: HubServer, tmp_path: Path) -> Iterator[Start]:
    """Starts `outrider local ARGUMENTS` with `server` as its hub."""
    started: list[subprocess.Popen[str]] = []
    with server.running() as address:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "OUTRIDER_HOME": str(tmp_path / "outrider"),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": address,
            "HF_TOKEN": "hf_secret",
        }

        def run(*arguments: str, **options: object) -> subprocess.Popen[str]:
            extra = options.pop("env", {})
            streams = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE) | {"stdin": subprocess.DEVNULL} | options
            command = [sys.executable, "-m", "app.start", "local", *arguments]
            process = subprocess.Popen(command, text=True, cwd=REPOSITORY, env=environment | extra, **streams)
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
    code, out, err = ended(start("get", "owner/tiny", "--yes", "--name", "mine"))
    assert code == 0, err
    folder = Path(out.strip())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == server.files
    assert folder.is_relative_to(tmp_path / "hf/hub")
    for said in (
        "licence: apache-2.0",
        "  model.safetensors  ",
        " bytes to fetch into",
        "Only 127.0.0.1:",
        "Added mine.",
    ):
        assert said in err
    assert ended(start("list"))[1].split() == ["mine", "folder", str(folder)]
    asked = sorted(path.rpartition("/")[2] for _, path, _ in server.asked)
    assert asked == sorted(["tiny", *server.files]), "something else was sent, or twice"
    assert {headers["authorization"] for _, _, headers in server.asked} == {"Bearer hf_secret"}
    assert ended(start("get", "owner/tiny", "--yes"))[0] == 0
    assert len(server.asked) == len(asked) + 1, "what is here was fetched again"
    code, out, err = ended(start("try", "mine"))
    assert code == 0 and "tokens/s" in out, err


def test_a_model_that_cannot_answer_is_not_added(start: Start, server: HubServer) -> None:
    del server.files["chat_template.jinja"]
    code, _, err = ended(start("get", "owner/tiny", "--yes"))
    assert code == 1 and "has no chat template" in err and ended(start("list"))[1] == ""


def test_the_authorities_of_this_device_are_trusted(start: Start, server: HubServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with HubServer(server.files).running(authority.issue("127.0.0.1")) as address:
        code, _, err = ended(start("get", "owner/tiny", "--yes", env={"HF_ENDPOINT": address}))
        assert code == 3 and "CERTIFICATE_VERIFY_FAILED" in err
        trusted = {"HF_ENDPOINT": address, "SSL_CERT_FILE": str(authority.file)}
        assert ended(start("get", "owner/tiny", "--yes", env=trusted))[0] == 0


def test_a_killed_program_is_resumed(start: Start, server: HubServer, tmp_path: Path) -> None:
    server.hold = HERE
    process = start("get", "owner/tiny", "--yes")
    assert server.held.wait(PATIENCE_SECONDS)
    arrived(tmp_path, HERE)
    process.kill()
    process.wait()
    server.hold = None
    code, _, err = ended(start("get", "owner/tiny", "--yes"))
    assert code == 0 and f"{sum(map(len, server.files.values())) - HERE:,} bytes to fetch" in err, err
    assert server.begins == [0, HERE] and not parts(tmp_path)


def test_ctrl_c_keeps_what_has_arrived(start: Start, server: HubServer, tmp_path: Path) -> None:
    server.hold = HERE
    process = start("get", "owner/tiny", "--yes")
    assert server.held.wait(PATIENCE_SECONDS)
    arrived(tmp_path, HERE)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130 and "the same command resumes there" in err and "Traceback" not in err
    assert parts(tmp_path) == [HERE] and ended(start("list"))[1] == ""


def arrived(home: Path, size: int) -> None:
    """Wait until so many bytes are in the file. Nothing else says so."""
    import time

    deadline = time.monotonic() + PATIENCE_SECONDS
    while parts(home) != [size]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_disk_that_fills_up_keeps_what_has_arrived(start: Start, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (HERE, HERE))

    code, _, err = ended(start("get", "owner/tiny", "--yes", preexec_fn=limit))
    assert code == 1 and "cannot be written: File too large. What has arrived is kept" in err
    assert "Traceback" not in err and parts(tmp_path) == [HERE]
    assert ended(start("get", "owner/tiny", "--yes"))[0] == 0


@pytest.mark.parametrize(("answer", "fetched"), [("n", False), ("y", True)])
def test_it_asks_in_a_terminal(answer: str, fetched: bool, start: Start, server: HubServer, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = start("get", "owner/tiny", stdin=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    said = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the program has ended.
        while piece := os.read(ours, 4096):
            said += piece
    os.close(ours)
    assert process.wait(PATIENCE_SECONDS) == 0 and b"Fetch it? [Y/n]" in said
    assert bool(server.begins) is fetched


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "said"),
    [
        (["owner/tiny"], {}, 2, "no terminal to ask in"),
        (["tiny", "--yes"], {}, 2, "outrider local catalogue"),
        (["owner/other", "--yes"], {}, 2, "no model owner/other at 127.0.0.1"),
        (["owner/tiny:q4", "--yes"], {}, 2, "no GGUF file in owner/tiny"),
        (["owner/tiny", "--yes", "--name", "a b"], {}, 2, "a name has letters"),
        (["owner/tiny", "--yes"], {"HF_HUB_OFFLINE": "1"}, 3, "while HF_HUB_OFFLINE is set"),
        (["owner/tiny", "--yes"], {"HF_ENDPOINT": "http://127.0.0.1:1"}, 3, "127.0.0.1:1 cannot be reached"),
        (["owner/tiny", "--yes"], {"OUTRIDER_MODE": "offline"}, 1, "Nothing is fetched"),
    ],
)
def test_what_cannot_be_fetched_is_said(
    arguments: list[str], variables: dict[str, str], code: int, said: str, start: Start, server: HubServer
) -> None:
    result = ended(start("get", *arguments, env=variables))
    assert result[0] == code and said in result[2] and not result[1] and "Traceback" not in result[2]
    assert not server.begins
    if variables:
        assert not server.asked


def test_the_catalogue_names_models_that_get_takes(outrider: Outrider) -> None:
    shown = outrider("local", "catalogue")
    assert shown.code == 0 and [line.split()[0] for line in shown.out.splitlines()] == [
        entry.name for entry in catalogue().models
    ]
    assert catalogue().date in shown.err
    for entry in catalogue().models:
        assert entry.licence in ("apache-2.0", "mit") and entry.memory > entry.size > 1e8
        assert catalogue().get(entry.name.upper()) is entry
    sizes = [entry.size for entry in catalogue().models]
    assert sizes == sorted(sizes) and len(set(map(catalogue().get, (one.name for one in catalogue().models)))) == 9
