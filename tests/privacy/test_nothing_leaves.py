"""The promise of SECURITY.md, on real programs: connections only to the chosen server, files only of Outrider's own."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from app.shell.place import ROOT
from models.config import GRAPH, SPECIAL_TOKENS
from tests.app.reply.test_server_text import respelt
from tests.pty.test_session import stored
from tests.pty.tmux import Tmux
from tests.support.conversing import until
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.hub_server import HubServer
from tests.support.reciting import COMMAND, chosen
from tests.support.serving import REPOSITORY, VerifierProcess
from tests.support.shells import environment_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="strace is for Linux only")
OUTRIDER = [sys.executable, "-m", "app.start"]
QUESTION = "list files"
PATIENCE_SECONDS = 300


CALLS = (
    "connect,sendto,sendmsg,sendmmsg,open,openat,openat2,creat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
)
DNS = 53
ADDRESS = re.compile(r'sa_family=AF_INET6?, .*?port=htons\((\d+)\).*?(?:inet_addr\(|AF_INET6, )"([^"]+)"')
CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
PLACE = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
WRITES = ("O_CREAT", "O_WRONLY", "O_RDWR")


class Seen(NamedTuple):
    """What a tracer saw. `connections`: those that left this device. `files`: opened to write, renamed or linked."""

    connections: list[str]
    files: set[Path]


class Strace:
    """Traces every system call that connects or writes, of a program and its children. `folder` is new.

    Libraries in C++ open sockets and files without Python, so hooks inside the interpreter are not enough.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.prefix = ["strace", "-ff", "--seccomp-bpf", "-qq", "-y", "-s", "300", "-e", f"trace={CALLS}"]
        self.prefix += ["-e", "signal=none", "-o", str(folder / "calls"), "--"]

    def seen(self) -> Seen:
        """What was seen; to be called after the program has ended."""
        seen = Seen([], set())
        for log in self._folder.iterdir():
            for line in log.read_text(errors="replace").splitlines():
                self._read(line, seen)
        return seen

    def _read(self, line: str, seen: Seen) -> None:
        found = CALL.match(line)
        if found is None:
            return
        name, arguments, result = found.groups()
        if name in ("connect", "sendto", "sendmsg", "sendmmsg"):
            if "systemd/resolve" in arguments or any(_leaves(*one) for one in ADDRESS.findall(arguments)):
                seen.connections.append(line[:200])
        elif int(result) >= 0 and (not name.startswith("open") or any(flag in arguments for flag in WRITES)):
            places = [Path(folder or "/", name) for folder, name in PLACE.findall(arguments)]
            seen.files.update(one for one in places if not str(one).startswith(("/dev/pts", "/dev/null", "/proc")))


def _leaves(port: str, address: str) -> bool:
    """Whether a connection leaves this device. A name server on loopback may ask others, so port 53 counts."""
    return int(port) == DNS or not ipaddress.ip_address(address.partition("%")[0]).is_loopback


class Person:
    """A person who uses Outrider for the first time, on a machine that is no build server."""

    def __init__(self, folder: Path, pair: Path) -> None:
        self.home, self.temporary, self.made = folder / "home", folder / "tmp", folder / "made"
        for place in (self.home, self.temporary, self.made):
            place.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.temporary), "LANG": "C.UTF-8",
            "TERM": "xterm-256color", "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",  # Python writes its own files where Outrider is installed.
            "OUTRIDER_TARGET": str(pair / "target"), "OUTRIDER_DRAFTER": str(pair / "drafter"),
            "OUTRIDER_MAX_TOKENS": "40",
        }  # fmt: skip

    @property
    def database(self) -> Path:
        return self.home / ".local" / "share" / "outrider" / "outrider.db"

    def strange(self, files: Iterable[Path]) -> set[str]:
        """Existing files, of `files` and of this person's folders, that are not Outrider's own."""
        found = {file for place in (self.home, self.temporary) for file in place.rglob("*")}
        return {str(file) for file in found | set(files) if file.is_file() and not self._own(file)}

    def _own(self, file: Path) -> bool:
        if file.is_relative_to(self.made):
            return True
        return file.is_relative_to(self.home) and "outrider" in file.relative_to(self.home).parts


@pytest.fixture
def person(tmp_path: Path, tiny_pair: Path) -> Person:
    return Person(tmp_path, tiny_pair)


def check(trace: Strace, person: Person) -> None:
    """Check what a program did that has ended."""
    seen = trace.seen()
    assert not seen.connections
    assert not person.strange(seen.files)


def ran(trace: Strace, person: Person, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that has ended, checked."""
    command = [*trace.prefix, *OUTRIDER, *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=person.environment, cwd=REPOSITORY,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    check(trace, person)
    return done


@pytest.mark.pty
async def test_a_chat(person: Person, tmp_path: Path) -> None:
    trace = Strace(tmp_path / "trace")
    given = [f"{name}={value}" for name, value in person.environment.items()]
    command = ["env", "-i", *given, *trace.prefix, *OUTRIDER, "chat"]
    with Tmux(tmp_path / "tmux", command, {}, REPOSITORY, (30, 100)) as tmux:
        await tmux.until(" local ")
        tmux.type(QUESTION)
        await tmux.until(QUESTION)
        tmux.press("Enter")
        await tmux.until(lambda: [one.status for one in stored(person.database)[1:]] == ["done"])
        tmux.press("C-q")
        assert await tmux.ended() == 0, tmux.screen
    answer = stored(person.database)[-1]
    assert answer.tokens and all(answer.provenance), "the verifier had no part in it"
    check(trace, person)


def test_a_look_at_this_device(person: Person, tmp_path: Path) -> None:
    looked = ran(Strace(tmp_path / "trace"), person, "remote", "find")
    assert looked.returncode in (0, 3), looked.stderr


def test_a_model_from_the_hub(person: Person, tiny_pair: Path, tmp_path: Path) -> None:
    """The catalogue asks nobody, and a model is asked for at the hub alone, and kept in the hub's cache alone."""
    assert ran(Strace(tmp_path / "listing"), person, "local", "catalogue").returncode == 0
    files = {path.name: path.read_bytes() for path in (tiny_pair / "target").iterdir() if path.suffix != ".onnx"}
    hub = HubServer(files)
    person.environment["HF_HOME"] = str(person.made / "hf")
    with hub.running() as address:
        person.environment["HF_ENDPOINT"] = address
        got = ran(Strace(tmp_path / "trace"), person, "local", "get", "owner/tiny", "--yes")
    assert got.returncode == 0, got.stderr
    assert sorted(path.rpartition("/")[2] for _, path, _ in hub.asked) == sorted(["tiny", *files])


def test_a_question_to_a_server(person: Person, tiny_pair: Path, tmp_path: Path) -> None:
    """Both sides: `outrider serve` with a local folder, and `outrider ask`."""
    serving = Strace(tmp_path / "serving")
    command = [*serving.prefix, *OUTRIDER, "serve", "--port", "0", "--watch-stdin"]
    command += ["--model", str(tiny_pair / "target"), "--drafter", str(tiny_pair / "drafter")]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=person.environment, cwd=REPOSITORY
    ) as server:
        line = server.stdout.readline()
        found = re.search(r"https?://\S+", line)
        assert found is not None, f"the verifier did not start: {line!r}"
        asked = ran(Strace(tmp_path / "asking"), person, "ask", "--json", "--remote", found.group(), QUESTION)
        server.stdin.close()
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)
    check(serving, person)


async def test_the_tokenizer_of_a_server(person: Person, tiny_pair: Path, tmp_path: Path) -> None:
    """A server with another tokenizer than the model on this device is asked for it, and for nothing else."""
    config, texts = person.home / ".config" / "outrider", person.database.parent / "tokenizers"
    config.mkdir(parents=True)
    (config / "local.toml").write_text(f'use = "mine"\n[models]\nmine = "{person.made}"\n')
    asked = set[bytes]()

    async def note(exchange: Exchange) -> None:
        asked.add(re.sub(rb"[0-9a-f]{32}", b"DIGEST", exchange.head.split(b" HTTP/")[0]))
        await exchange.relay()

    trace = Strace(tmp_path / "trace")
    with VerifierProcess(tiny_pair, model=respelt(tiny_pair, tmp_path), options=["--no-drafter"]) as server:
        async with FaultProxy([server.port]) as proxy:
            proxy.line = note
            command = [*trace.prefix, *OUTRIDER, "gateway", "--port", "0", "--remote", proxy.url]
            running = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.DEVNULL, env=person.environment, cwd=REPOSITORY
            )
            await until(lambda: any(texts.glob("*.tried")))
            # The tracer itself ignores signals.
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGTERM)
            assert await running.wait() in (0, -signal.SIGTERM)
    tokenizer = b"GET /v1/tokenizers/DIGEST?from=0"
    assert tokenizer in asked and asked <= {tokenizer, b"GET /v1/card", b"GET /v1/models"}
    check(trace, person)


@pytest.mark.parametrize("kind, mode", [("ghost", "auto"), ("command", "offline"), ("explain", "offline")])
def test_what_the_shell_asks_on_this_device(kind: str, mode: str, reciting: Path, tmp_path: Path) -> None:
    """Ghost text goes nowhere, and what is asked offline neither."""
    home, runtime = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    runtime.mkdir()
    settings = {"OUTRIDER_REMOTE": "http://192.0.2.7:8000", "OUTRIDER_MODE": mode}  # No machine's (RFC 5737).
    settings |= {"OUTRIDER_SHELL_IDLE_MINUTES": "0.001", "OUTRIDER_OFFLINE": "drafter", **chosen(reciting)}
    traced, explains = Strace(tmp_path / "traced"), kind == "explain"
    client = [sys.executable, "-I", "-S", str(Path(ROOT, "app", "shell", "__main__.py")), kind, "zsh"]
    # The tracer ends when the helper does, a moment after its answer.
    ran = subprocess.run(
        [*traced.prefix, *client], input=b"ls -la" if explains else b"unpack a tar.gz file in this folder",
        env=environment_of(home, runtime, **settings), capture_output=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    said, expected = ran.stdout.decode(), {"ghost": "tar -xf", "command": COMMAND, "explain": ""}
    assert expected[kind] in said and "Traceback" not in said + ran.stderr.decode()
    assert traced.seen().connections == []
    assert not (home / "data" / "outrider.db").exists()


@pytest.mark.training
def test_a_step_of_training(person: Person, tiny_pair: Path, tmp_path: Path) -> None:
    questions, mine = person.made / "questions.jsonl", person.made / "mine"
    questions.write_text("".join(json.dumps({"prompt": question}) + "\n" for question in (QUESTION, "show disk usage")))
    files = ["--target", str(tiny_pair / "target"), "--prompts", str(questions), "--out", str(mine)]
    limits = ["--device", "cpu", "--steps", "1", "--max-tokens", "8"]
    trained = ran(Strace(tmp_path / "trace"), person, "drafter", "train", *files, *limits)
    assert trained.returncode == 0, trained.stderr
    assert all((mine / name).exists() for name in (GRAPH, SPECIAL_TOKENS))


# ---- the tracer ------------------------------------------------------------------------------------------------------


PROGRAM = """
import json, os, subprocess, sys
open(sys.argv[1] + "/written", "w").close()
os.rename(sys.argv[1] + "/written", sys.argv[1] + "/renamed")
for place in json.loads(sys.argv[3]):
    subprocess.run([sys.executable, "-c", sys.argv[2], *map(str, place)], check=True)
"""
CHILD = """
import socket, sys
host, port, family, kind = sys.argv[1], *map(int, sys.argv[2:])
with socket.socket(family, kind) as one:
    one.setblocking(False)
    one.connect_ex((host, port))
"""
OUTSIDE = (
    ("192.0.2.1", 443, socket.AF_INET, socket.SOCK_STREAM),
    ("192.0.2.1", 53, socket.AF_INET, socket.SOCK_DGRAM),
    ("127.0.0.1", DNS, socket.AF_INET, socket.SOCK_DGRAM),  # A name server on loopback may ask others.
    ("2001:db8::1", 443, socket.AF_INET6, socket.SOCK_STREAM),
)
LOOPBACK = ("127.0.0.1", 9, socket.AF_INET, socket.SOCK_STREAM)


def test_what_child_processes_connect_to_and_write_is_seen(tmp_path: Path) -> None:
    trace = Strace(tmp_path / "trace")
    program = [sys.executable, "-c", PROGRAM, str(tmp_path), CHILD, json.dumps((*OUTSIDE, LOOPBACK))]
    subprocess.run([*trace.prefix, *program], check=True)
    seen = trace.seen()
    found = {(host, int(port)) for line in seen.connections for port, host in ADDRESS.findall(line)}
    assert found == {(host, port) for host, port, *_ in OUTSIDE}, seen.connections
    assert {tmp_path / "written", tmp_path / "renamed"} <= seen.files
