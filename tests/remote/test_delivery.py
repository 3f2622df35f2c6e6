"""Fetching the drafter that a verifier offers: whole, in pieces, damaged, and from a verifier that lies."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from drafter.delivery import Delivery, delivery
from drafter.runtime import Drafter
from models.config import CONFIG, DATASTORE, ENCODER, FLOAT, GRAPH, TOKENIZER, DrafterConfig, read_config, write_config
from remote import LinkDown, Refused, VerifierClient
from remote.delivery import fetch_drafter
from remote.errors import NotDelivered
from remote.protocol import Card, DrafterOffer, MemoryFormat
from remote.verifier.deliveries import Deliveries
from tests.remote.toy_verifier import CARD
from tests.support.figures import NO_DRAFTS, with_figures


def card_of(folder: Path, offered: Delivery) -> Card:
    """The card of a verifier whose drafter is in `folder`."""
    config = read_config(folder)
    known = {"vocabulary": config.vocabulary, "tokenizer": bytes.fromhex(config.tokenizer)}
    memory = MemoryFormat(digest=config.memory_digest, layers=config.memory_layers)
    offer = DrafterOffer(digest=offered.digest, size=offered.bytes)
    return msgspec.structs.replace(CARD, target="tiny", memory=memory, drafter=offer, **known)


class Line(httpx.AsyncBaseTransport):
    """The way to a verifier's app. `cut`: bytes after which it breaks, once; `change`: what becomes of a body."""

    def __init__(self, app: Starlette, cut: int | None = None, change: Callable[[str, bytes], bytes] | None = None):
        self._app, self._cut, self._change = httpx.ASGITransport(app), cut, change
        self.asked: list[str] = []
        self.carried = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.raw_path.decode())
        answer = await self._app.handle_async_request(request)
        body = b"".join([piece async for piece in answer.stream])
        if self._change is not None:
            body = self._change(request.url.path, body)
        headers = [(key, value) for key, value in answer.headers.items() if key != "content-length"]
        return httpx.Response(answer.status_code, headers=headers, content=self._carry(body))

    async def _carry(self, body: bytes) -> AsyncIterator[bytes]:
        for begin in range(0, len(body), 1000):
            piece = body[begin : begin + 1000]
            if self._cut is not None and self.carried + len(piece) > self._cut:
                self._cut = None
                raise httpx.ReadError("cut")
            self.carried += len(piece)
            yield piece


def delivering(folder: Path, offered: Delivery) -> Deliveries:
    deliveries = Deliveries()
    deliveries.add(folder, offered)
    return deliveries


class Offer(NamedTuple):
    """A verifier's app that delivers a drafter, its card, and what is delivered."""

    app: Starlette
    card: Card
    whole: Delivery


@pytest.fixture
def offer(tiny_pair: Path) -> Offer:
    return offer_of(tiny_pair / "drafter")


def offer_of(folder: Path) -> Offer:
    whole = delivery(folder)
    return Offer(Starlette(routes=delivering(folder, whole).routes()), card_of(folder, whole), whole)


def client(app: Starlette, **faults: object) -> tuple[VerifierClient, Line]:
    line = Line(app, **faults)  # type: ignore[arg-type]
    return VerifierClient("http://verifier", transport=line), line


async def test_what_arrives_is_a_drafter_and_nothing_private(offer: Offer, tmp_path: Path) -> None:
    app, card, offered = offer
    asked, line = client(app)
    seen: list[tuple[int, int]] = []
    folder = await fetch_drafter(asked, card, tmp_path, progress=lambda *now: seen.append(now))
    assert folder == tmp_path / offered.digest.hex()
    Drafter.load(folder).context().commit([5])
    names = {path.name for path in folder.iterdir()}
    assert {CONFIG, GRAPH, TOKENIZER} <= names and not names & {FLOAT, ENCODER, DATASTORE}
    assert sum(path.stat().st_size for path in folder.iterdir()) == offered.bytes == line.carried
    done = [here for here, total in seen]
    assert done == sorted(done) and seen[-1][0] == offered.bytes - len(offered.config)
    before = len(line.asked)
    assert await fetch_drafter(asked, card, tmp_path) == folder and len(line.asked) == before, "it is here already"


@pytest.mark.parametrize(("cut", "damaged"), [(500, False), (30_000, False), (30_000, True)])
async def test_a_broken_line_costs_what_was_in_flight_and_what_was_damaged_since(
    offer: Offer, tmp_path: Path, cut: int, damaged: bool
) -> None:
    app, card, offered = offer
    asked, line = client(app, cut=cut)
    with pytest.raises(LinkDown):
        await fetch_drafter(asked, card, tmp_path)
    for file in tmp_path.glob("*/*") if damaged else ():
        if file.name != CONFIG:
            file.write_bytes(os.urandom(file.stat().st_size))
    Drafter.load(await fetch_drafter(asked, card, tmp_path))
    again = line.carried - offered.bytes
    assert damaged or 0 <= again <= max(1000, len(offered.config)), f"{again} bytes came twice"


def _flipped(name: str) -> Callable[[str, bytes], bytes]:
    return lambda path, body: bytes([body[0] ^ 1]) + body[1:] if path.endswith(name) and body else body


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_flipped(GRAPH), "drafter.onnx has another checksum"),
        (_flipped(TOKENIZER), "tokenizer.json has another checksum"),
        (
            lambda path, body: body + bytes(1 << 20) if path.endswith(GRAPH) else body,
            "drafter.onnx is longer than announced",
        ),
        (lambda path, body: bytes(100), "its config has another checksum"),
        (lambda path, body: bytes(100 << 20), "its config is too long"),
    ],
)
async def test_a_verifier_that_sends_something_else_is_found_out(
    offer: Offer, tmp_path: Path, change: Callable[[str, bytes], bytes], said: str
) -> None:
    asked, _ = client(offer.app, change=change)
    with pytest.raises(NotDelivered, match=said):
        await fetch_drafter(asked, offer.card, tmp_path)
    assert not (tmp_path / offer.whole.digest.hex()).exists()
    kept = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert kept <= offer.whole.bytes, "no more is kept than was offered"


Change = Callable[[Path, DrafterConfig], DrafterConfig]


def lying(tiny_pair: Path, folder: Path, change: Change) -> tuple[Starlette, Card]:
    """A verifier whose drafter was changed, with checksums that are right, and its card."""
    shutil.copytree(tiny_pair / "drafter", folder)
    for name in (FLOAT, ENCODER, DATASTORE):
        (folder / name).unlink(missing_ok=True)
    config = write_config(folder, read_config(folder))
    honest = card_of(folder, delivery(folder))
    config = change(folder, config)
    body = msgspec.json.encode(config)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    made = Delivery(hashlib.sha256(body).digest(), body, sizes)
    offer = DrafterOffer(digest=made.digest, size=made.bytes)
    return Starlette(routes=delivering(folder, made).routes()), msgspec.structs.replace(honest, drafter=offer)


def _with(**fields: Any) -> Change:
    return lambda folder, config: msgspec.structs.replace(config, **fields)


def _file(name: str, data: bytes | None) -> Change:
    """Another file, or none, with a checksum that is right."""

    def change(folder: Path, config: DrafterConfig) -> DrafterConfig:
        (folder / name).unlink() if data is None else (folder / name).write_bytes(data)
        return write_config(folder, config)

    return change


def _a_way_out(folder: Path, config: DrafterConfig) -> DrafterConfig:
    return msgspec.structs.replace(config, files={**config.files, "../../escaped": "00" * 32})


def _a_bomb(folder: Path, config: DrafterConfig) -> DrafterConfig:
    """A graph that fills 64 GB of memory as soon as it is opened."""
    import onnx
    from onnx import TensorProto, helper

    graph = onnx.load(folder / GRAPH)
    graph.graph.initializer.append(helper.make_tensor("bomb_size", TensorProto.INT64, [1], [1 << 34]))
    graph.graph.node.insert(0, helper.make_node("ConstantOfShape", ["bomb_size"], ["bomb"]))
    graph.graph.node.insert(1, helper.make_node("ReduceSum", ["bomb"], ["bomb_sum"], keepdims=0))
    name = graph.graph.output[0].name
    for node in graph.graph.node:
        for at, output in enumerate(node.output):
            if output == name:
                node.output[at] = "before_bomb"
    graph.graph.node.append(helper.make_node("Add", ["before_bomb", "bomb_sum"], [name]))
    onnx.save(graph, folder / GRAPH)
    return write_config(folder, config)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_with(memory="00" * 16), "it was made for another model"),
        (_with(vocabulary=7), "it was made for another model"),
        (_file("run.pkl", b"cos\nsystem\n(S'true'\ntR."), "it does not have the files of a small model"),
        (_a_way_out, "it does not have the files of a small model"),
        (_file(GRAPH, None), "it does not have the files of a small model"),
        (_file(GRAPH, bytes(range(256)) * 200), "it does not work: .*cannot be loaded"),
        (_a_bomb, "it does not work"),
    ],
)
async def test_a_verifier_that_offers_something_else_is_found_out(
    tiny_pair: Path, tmp_path: Path, change: Change, said: str
) -> None:
    app, card = lying(tiny_pair, tmp_path / "offered", change)
    asked, _ = client(app)
    shelf = tmp_path / "a" / "shelf"
    with pytest.raises(NotDelivered, match=said):
        await fetch_drafter(asked, card, shelf)
    assert not (shelf / card.drafter.digest.hex()).exists()
    assert not (tmp_path / "escaped").exists() and not (tmp_path / "a" / "escaped").exists()


async def test_a_full_disk_is_said_before_anything_is_fetched(offer: Offer, tmp_path: Path) -> None:
    app, card, offered = offer
    huge = msgspec.structs.replace(card, drafter=msgspec.structs.replace(card.drafter, size=1 << 39))
    asked, line = client(app)
    with pytest.raises(NotDelivered, match="the disk has no room for it"):
        await fetch_drafter(asked, huge, tmp_path)
    assert line.carried == len(offered.config)


async def test_what_is_not_offered_is_not_sent(offer: Offer, tiny_pair: Path) -> None:
    path = f"http://verifier/v1/drafters/{offer.whole.digest.hex()}"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(offer.app)) as http:
        for address in (f"{path}/{FLOAT}", f"{path}/%2e%2e%2fconfig.json", f"http://verifier/v1/drafters/{'0' * 64}"):
            assert (await http.get(address)).status_code == 404, address
        for begin in ("-1", "99999999999", "x"):
            assert (await http.get(f"{path}/{GRAPH}?from={begin}")).status_code == 400, begin
        whole = (await http.get(f"{path}/{GRAPH}")).content
        assert whole == (tiny_pair / "drafter" / GRAPH).read_bytes()
        assert (await http.get(f"{path}/{GRAPH}?from=1000")).content == whole[1000:]
        assert (await http.get(f"{path}/{GRAPH}?from={len(whole)}")).content == b""


async def test_a_verifier_without_an_offer_says_so(offer: Offer, tmp_path: Path) -> None:
    card, (asked, _) = offer.card, client(offer.app)
    with pytest.raises(NotDelivered, match="offers no small model"):
        await fetch_drafter(asked, msgspec.structs.replace(card, drafter=None), tmp_path)
    unknown = DrafterOffer(digest=bytes(32), size=5)
    with pytest.raises((LinkDown, Refused)):
        await fetch_drafter(asked, msgspec.structs.replace(card, drafter=unknown), tmp_path)


@pytest.mark.parametrize(("figures", "why"), [(NO_DRAFTS, "1.0 tokens a round"), (None, "never measured")])
async def test_one_that_is_of_no_use_is_refused_before_its_large_files(
    tiny_pair: Path, tmp_path: Path, figures: dict[str, float] | None, why: str
) -> None:
    app, card, offered = offer_of(with_figures(tiny_pair / "drafter", tmp_path / "bad", figures))
    asked, line = client(app)
    with pytest.raises(NotDelivered, match=f"is not fetched: .*{why}"):
        await fetch_drafter(asked, card, tmp_path / "shelf")
    assert len(line.asked) == 1 and line.carried == len(offered.config) and not list((tmp_path / "shelf").iterdir())


async def test_a_config_that_is_no_text_is_found_out(tiny_pair: Path, offer: Offer, tmp_path: Path) -> None:
    odd = b'{"\xff": 0}'
    made = Delivery(hashlib.sha256(odd).digest(), odd, offer.whole.sizes)
    asked, _ = client(Starlette(routes=delivering(tiny_pair / "drafter", made).routes()))
    with pytest.raises(NotDelivered, match="its config cannot be read"):
        await fetch_drafter(asked, card_of(tiny_pair / "drafter", made), tmp_path)
