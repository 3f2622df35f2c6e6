"""Finds model servers on this device: at their usual ports, only on 127.0.0.1.

Nothing is sent before the person asks for it. Anything may listen at such a port, so every answer is bounded in time
and size, and anything but a model server is reported with a reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.config import same_server
from app.remotes.registry import Remote, Remotes
from remote import CompletionsClient, Incompatible, LinkDown, Refused, RemoteError, Stranger, Unsent, VerifierClient
from remote.openai.lenient_json import parse, text
from remote.openai.model_list import read_model_list
from remote.openai.schema import GATEWAY_OWNER, JSON, OWNER, Model
from remote.response import Traffic
from remote.wire import Wire

HOST = "127.0.0.1"
PORTS = (11434, 1234, 8080, 8000)
"""Usual ports: Ollama; LM Studio; llama.cpp; vLLM, `transformers serve` and `outrider serve`."""
LOOK_SECONDS = 4.0
"""Longest time for one port. All are checked in parallel."""
SHORTEST = 0.05
"""Least seconds for the second question."""
PAGE_SECONDS = 1.0
"""Longest wait for a page that only serves to identify a program."""
MAX_PAGE_BYTES = 1 << 20


class Program(NamedTuple):
    """A program that serves models. `name`: of its remote."""

    title: str
    name: str


OLLAMA = Program("Ollama", "ollama")
LM_STUDIO = Program("LM Studio", "lmstudio")
LLAMA_CPP = Program("llama.cpp", "llamacpp")
VLLM = Program("vLLM", "vllm")
TRANSFORMERS = Program("transformers serve", "transformers")
OUTRIDER = Program("Outrider", "outrider")
UNKNOWN = Program("OpenAI-compatible server", "local")
OWNERS = {
    "library": OLLAMA,
    "organization_owner": LM_STUDIO,
    "llamacpp": LLAMA_CPP,
    "vllm": VLLM,
    OWNER: OUTRIDER,
    GATEWAY_OWNER: OUTRIDER,
}
"""Programs by the owner that they name for their models."""
NAMED_MODELS = 3
"""Most models of a server that are named in one line."""


@dataclass(frozen=True)
class NearbyServer:
    program: Program
    port: int
    models: tuple[Model, ...] = ()
    """Models to choose from; empty if it lists none. A server that checks drafts has one."""
    checks_drafts: bool = False
    locked: bool = False
    """Whether it requires a token to list its models."""

    @property
    def host(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def loads_any(self) -> bool:
        """Whether it loads any requested model and lists only what it has downloaded."""
        return self.program == TRANSFORMERS

    @property
    def offer(self) -> str:
        """Its models in words, not sanitised."""
        if self.locked:
            return "requires a token"
        if not self.models:
            return "lists no model; ask it for one by name" if self.loads_any else "lists no model; load one there"
        names = ", ".join(model.id for model in self.models[:NAMED_MODELS])
        if self.checks_drafts:
            return f"{names}, checks drafts"
        more = len(self.models) - NAMED_MODELS
        return f"{names} and {more} more" if more > 0 else names

    def remote(self, model: str | None) -> Remote:
        """Its entry for the registry. `model`: the model to ask for, or None for the first that it lists."""
        if self.checks_drafts:
            return Remote(url=f"http://{self.host}", kind="verifier")
        return Remote(url=f"http://{self.host}/v1", kind="openai", model=model)


@dataclass(frozen=True)
class Unusable:
    """Something listens at a port but cannot be used now; `why` gives the reason, which may quote the answer."""

    port: int
    why: str


@dataclass(frozen=True)
class Surroundings:
    """The results, in the order of the ports."""

    servers: tuple[NearbyServer, ...] = ()
    unusable: tuple[Unusable, ...] = ()


async def look(ports: Sequence[int] = PORTS, seconds: float = LOOK_SECONDS) -> Surroundings:
    """Look for model servers at these ports of 127.0.0.1, in parallel. `seconds`: longest time for each port."""
    found = await asyncio.gather(*(_look_at(port, seconds) for port in dict.fromkeys(ports)))
    servers = tuple(one for one in found if isinstance(one, NearbyServer))
    return Surroundings(servers, tuple(one for one in found if isinstance(one, Unusable)))


def free_name(program: Program, taken: Iterable[str]) -> str:
    """A name for a new remote: the program's own, with the first free number if necessary."""
    names, number = set(taken), 2
    if program.name not in names:
        return program.name
    while f"{program.name}-{number}" in names:
        number += 1
    return f"{program.name}-{number}"


def known_as(server: NearbyServer, model: str | None, remotes: Remotes) -> str | None:
    """The name of the remote for this server and this model, or None if there is none yet."""
    wanted = server.remote(model)
    for name, remote in remotes:
        alike = remote.kind in ("auto", wanted.kind) and (server.checks_drafts or remote.model == wanted.model)
        if alike and same_server(remote.url.replace("//localhost", f"//{HOST}"), wanted.url):
            return name
    return None


# ---- one port --------------------------------------------------------------------------------------------------------


async def _look_at(port: int, seconds: float) -> NearbyServer | Unusable | None:
    """The program that listens at a port, or None if the port is free. Never raises, whatever the program answers."""
    url, begun = f"http://{HOST}:{port}", time.monotonic()
    async with VerifierClient(url) as verifier, CompletionsClient(url) as endpoint:
        try:
            card = await verifier.card(seconds / 2)
        except Unsent:
            return None
        except (LinkDown, Refused):
            pass  # It is not an Outrider server, or requires a token. Its list of models shows more.
        except RemoteError as error:
            return Unusable(port, str(error))
        else:
            return NearbyServer(OUTRIDER, port, (Model(id=card.target),), checks_drafts=True)
        try:
            models = await endpoint.models(max(SHORTEST, seconds - (time.monotonic() - begun)))
        except Stranger:
            return Unusable(port, "the program there is not a model server that Outrider knows")
        except LinkDown:
            return Unusable(port, "what listens there does not answer like a model server")
        except Refused as error:
            program = await _program(url)
            if error.code == "unauthorised":
                return NearbyServer(program or UNKNOWN, port, locked=True)
            # `transformers serve` cannot list its models before it has downloaded one.
            return NearbyServer(program, port) if program == TRANSFORMERS else Unusable(port, str(error))
        except Incompatible as error:
            program = await _program(url)
            return NearbyServer(program, port) if program is not None else Unusable(port, str(error))
        except RemoteError as error:
            return Unusable(port, str(error))
    program = OWNERS.get(models[0].owned_by) or await _program(url) or UNKNOWN
    return NearbyServer(program, port, models)


class PageWire(Wire):
    """Requests pages of any program."""

    own_headers = {"accept": JSON}


async def _program(url: str) -> Program | None:
    """Which program listens at an address, by the pages that only it has, or None if it is unknown."""
    wire = PageWire(url)
    try:
        if text(_field(await _page(wire, "/api/version"), "version")):
            return OLLAMA
        if _field(await _page(wire, "/props"), "default_generation_settings") is not None:
            return LLAMA_CPP
        listed = _field(await _page(wire, "/api/v0/models"), "data")
        if isinstance(listed, list) and all(_field(model, "compatibility_type") is not None for model in listed):
            return LM_STUDIO
        if text(_field(await _page(wire, "/version"), "version")):
            return VLLM
        if isinstance(paths := _field(await _page(wire, "/openapi.json"), "paths"), dict) and "/load_model" in paths:
            return TRANSFORMERS
        listing = read_model_list(await _page(wire, "/v1/models"))
        return TRANSFORMERS if listing is not None and listing.loads_others else None
    finally:
        await wire.close()


def _field(page: Any, name: str) -> Any:
    found = parse(page) if isinstance(page, bytes) else page
    return found.get(name) if isinstance(found, dict) else None


async def _page(wire: Wire, path: str) -> bytes:
    """The body of a JSON page; empty if there is no such page."""
    try:
        async with wire.within(PAGE_SECONDS):
            answer = await wire.exchange("GET", path, Traffic(), silence=PAGE_SECONDS)
            if answer.status == 200 and answer.content_type == JSON:
                return await answer.read(MAX_PAGE_BYTES)
            await answer.aclose()
    except RemoteError:
        pass
    return b""
