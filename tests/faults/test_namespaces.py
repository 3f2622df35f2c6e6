"""A verifier in a network namespace of its own, and a cable to it that fails: real behaviour of kernels.

It needs the right to make namespaces (root, on Linux with iproute2), and is skipped elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import VerifierClient
from storage import Store
from tests.faults.device import HURRY, TOKENS, Device, whys
from tests.support.clock import FastClock
from tests.support.conversing import until_connected
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.faults import midway, refused
from tests.support.serving import REPOSITORY, VerifierProcess

TOKEN = "told-to-nobody-else"
NETNS = Path("/etc/netns")
"""Files that `ip netns exec` puts in place of /etc/hosts and /etc/resolv.conf, by namespace."""


@dataclass(frozen=True)
class Cable:
    """A veth pair between here (`near`) and a namespace (`far`), with a network of eight addresses of its own."""

    name: str
    network: str
    """The first three numbers of the network, and its first address."""

    @property
    def near(self) -> str:
        return f"{self.name}n"

    @property
    def far(self) -> str:
        return f"{self.name}f"

    def address(self, number: int) -> str:
        """An address of the network. 1: this end; 2: the far end; others are free."""
        stem, first = self.network.rsplit(".", 1)
        return f"{stem}.{int(first) + number}"

    def here(self, command: str) -> None:
        """Run `ip` here. Raises if it fails."""
        subprocess.run(["ip", *command.split()], check=True, capture_output=True, text=True)

    def there(self, command: str) -> None:
        """Run `ip` in the namespace. Raises if it fails."""
        self.here(f"-n {self.name} {command}")

    @property
    def inside(self) -> tuple[str, ...]:
        """The prefix of a command that runs in the namespace."""
        return ("ip", "netns", "exec", self.name)

    def change(self, commands: list[str]) -> None:
        for command in commands:
            place, rest = command.split(" ", 1)
            for number in (1, 2, 3):
                rest = rest.replace(f"{{{number}}}", self.address(number))
            (self.here if place == "here" else self.there)(rest.format(near=self.near, far=self.far))

    def lay(self) -> None:
        self.here(f"netns add {self.name}")
        self.here(f"link add {self.near} type veth peer name {self.far} netns {self.name}")
        self.here(f"address add {self.address(1)}/29 dev {self.near}")
        self.here(f"link set {self.near} up")
        # While the cable is out, its packets must not leave by another way.
        self.here(f"route add unreachable {self.address(0)}/29 metric 4096")
        self.there("link set lo up")
        self.there(f"address add {self.address(2)}/29 dev {self.far}")
        self.there(f"link set {self.far} up")

    def remove(self) -> None:
        for command in (
            f"link delete {self.near}",
            f"route delete unreachable {self.address(0)}/29 metric 4096",
            f"netns delete {self.name}",
        ):
            subprocess.run(["ip", *command.split()], check=False, capture_output=True)
        shutil.rmtree(NETNS / self.name, ignore_errors=True)


@pytest.fixture(scope="module")
def cable() -> Iterator[Cable]:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` command")
    number = os.getpid() % 8192
    cable = Cable(f"or{number}", f"198.18.{number // 32}.{number % 32 * 8}")  # RFC 2544: for tests, routed nowhere.
    try:
        try:
            cable.lay()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not permitted: {error.stderr.strip()}")
        yield cable
    finally:
        cable.remove()


@pytest.fixture(scope="module")
def far(cable: Cable, tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VerifierProcess]:
    token = tmp_path_factory.mktemp("far") / "token"
    token.write_text(TOKEN)
    with VerifierProcess(tiny_pair, host=cable.address(2), prefix=cable.inside, token_file=token) as process:
        yield process


@pytest.fixture
async def device(far: VerifierProcess, drafter: Drafter, tmp_path: Path) -> AsyncIterator[Device]:
    # In edge mode, because a short stream would be through before its cable is cut.
    settings, clock = Settings(max_tokens=TOKENS), FastClock()
    options = Options(
        Drafters(drafter), AddressSource(far.url, TOKEN, clock=clock), settings, modes=("edge",), clock=clock
    )
    with Store.open(tmp_path / "outrider.db") as store:
        async with VerifierClient(far.url, TOKEN) as around, Assistant(store, options) as opened:
            await until_connected(opened)
            clock.hurry(HURRY)
            conversation = store.conversations.create("cable").id
            yield Device(opened, clock, drafter.text, around, conversation)


CHANGES = {
    "the far link down": (["there link set {far} down"], ["there link set {far} up"]),
    "the near link down": (["here link set {near} down"], ["here link set {near} up"]),
    "the verifier's address gone": (["there address delete {2}/29 dev {far}"], ["there address add {2}/29 dev {far}"]),
    # The far end drops everything on its way here, without a word to anybody.
    "packets dropped on the way back": (["there route add blackhole {1}/32"], ["there route delete blackhole {1}/32"]),
    # Another lease, another Wi-Fi: connections from the old address get no answers any more, new ones work.
    "another address here": (
        ["here address delete {1}/29 dev {near}", "here address add {3}/29 dev {near}"],
        ["here address delete {3}/29 dev {near}", "here address add {1}/29 dev {near}"],
    ),
}
"""What fails, and what repairs it."""
HEALS_ITSELF = "another address here"
"""New connections work at once. The old address would take the good connection away again, if one is there by then."""


@pytest.mark.parametrize("name", CHANGES)
async def test_the_network_fails_in_the_middle_of_a_reply(device: Device, cable: Cable, name: str) -> None:
    breaks, mends = CHANGES[name]
    left = [mends]

    async def strike() -> None:
        cable.change(breaks)

    def mend() -> None:
        while left:
            cable.change(left.pop())

    async def heal() -> None:
        if name != HEALS_ITSELF:
            mend()

    try:
        heard = await device.ask("list files", strike=strike, heal=heal)
        assert heard.done is not None and len(heard.done.token_ids) == TOKENS and all(heard.done.provenance)
        modes = [mode for mode, _ in groupby(heard.modes)]
        # While memory is still on its way, the next round takes a new connection, which notices at once what is wrong.
        if modes != ["edge"] or name != HEALS_ITSELF:
            assert modes[:2] == ["edge", "offline"] and modes[-1] == "edge"
            assert any(said in whys(heard)[0] for said in ("did not answer within", "no connection to"))
        await device.works_again()
    finally:
        mend()


async def test_the_name_is_gone_in_the_middle_of_a_reply(
    cable: Cable, verifier: VerifierProcess, tiny_pair: Path, tmp_path: Path
) -> None:
    """The program itself runs in the namespace, with names of its own; the line leads out of it."""
    names = NETNS / cable.name / "hosts"
    names.parent.mkdir(parents=True)
    (names.parent / "resolv.conf").write_text(f"nameserver {cable.address(1)}\n")  # No name server listens there.
    known = f"{cable.address(1)} verifier.example\n"
    names.write_text(known)

    async def nameless(exchange: Exchange) -> None:
        names.write_text("")
        await refused(exchange)  # So that a new connection is needed.
        await exchange.proxy.listen()

    async with FaultProxy([verifier.port], cable.address(1)) as proxy:
        url = f"http://verifier.example:{proxy.port}"
        proxy.at(0, midway(nameless))
        cut, says = await ask_inside(cable, tiny_pair, tmp_path, url)
        assert f"offline: the name of verifier.example:{proxy.port} was not found" in says
        assert cut["mode"] == "offline" and len(cut["token_ids"]) == TOKENS
        assert 0 < cut["provenance"]["verified"] < TOKENS
        names.write_text(known)
        again, says = await ask_inside(cable, tiny_pair, tmp_path, url)
        assert again["provenance"] == {"verified": TOKENS, "drafted": 0, "streamed": 0} and "offline" not in says
    verified = cut["provenance"]["verified"]
    assert cut["token_ids"][:verified] == again["token_ids"][:verified]
    with Store.open(tmp_path / "data" / "outrider.db") as store:
        (answer,) = [
            one
            for conversation in store.conversations.all()
            for one in store.branches.thread(conversation.id)
            if one.tokens == tuple(cut["token_ids"])
        ]
    assert answer.text == cut["text"] and answer.provenance == (True,) * verified + (False,) * (TOKENS - verified)


async def ask_inside(cable: Cable, pair: Path, home: Path, url: str) -> tuple[dict[str, Any], str]:
    """What `outrider ask --json` prints and says in the namespace."""
    environment = {"OUTRIDER_HOME": str(home), "OUTRIDER_DRAFTER": str(pair / "drafter"), "OUTRIDER_REMOTE": url}
    options = ["-m", "app.cli", "ask", "list files", "--json", "--max-tokens", str(TOKENS)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = (*cable.inside, sys.executable, *options)
    process = await asyncio.create_subprocess_exec(*command, cwd=REPOSITORY, env=os.environ | environment, **pipes)
    out, talk = await process.communicate()
    assert process.returncode == 0, talk
    return json.loads(out), talk.decode()
