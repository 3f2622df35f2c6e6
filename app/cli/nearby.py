"""`outrider remote find`: the model servers that run on this device.

stdout is data; exit codes: 0 found, 2 usage, 3 no model server there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import Json
from app.cli.output import print_json
from app.exits import OK, UNREACHABLE, complain, run

if TYPE_CHECKING:
    from app.remotes.nearby import NearbyServer, Surroundings, Unusable


def find(
    json: Json = False,
    port: Annotated[
        list[int] | None, typer.Option(metavar="N", min=1, max=65535, help="Look only at this port. May be repeated.")
    ] = None,
) -> None:
    """Find model servers on this device. Detects Ollama, LM Studio, llama.cpp, vLLM, transformers and Outrider."""
    raise typer.Exit(run(_find(port or [], as_json=json)))


async def _find(ports: list[int], *, as_json: bool) -> int:
    from app.remotes.nearby import PORTS, look
    from app.sanitise import sanitise

    found = await look(ports or PORTS)
    if as_json:
        listed: list[NearbyServer | Unusable] = [*found.servers, *found.unusable]
        for one in listed:
            print_json(_fields(one))
    else:
        width = max((len(server.program.title) for server in found.servers), default=0)
        for server in found.servers:
            print(sanitise(f"{server.host:<15}  {server.program.title:<{width}}  {server.offer}"))
        say_unusable(found)
    if not found.servers:
        complain(f"no model server answers on this device; looked at {places(ports or PORTS)}")
        return UNREACHABLE
    if not as_json:
        complain("to add one: outrider remote add, or F12 in the chat")
    return OK


def say_unusable(found: Surroundings) -> None:
    """Report on stderr what listens but cannot be used."""
    for one in found.unusable:
        complain(f"port {one.port} cannot be used: {one.why}")


def places(ports: tuple[int, ...] | list[int]) -> str:
    """The ports that were checked, in words."""
    return f"127.0.0.1, port{'s' if len(ports) > 1 else ''} {', '.join(map(str, ports))}"


def _fields(one: NearbyServer | Unusable) -> dict[str, object]:
    from app.remotes.nearby import HOST, NearbyServer

    fields: dict[str, object] = {"address": f"{HOST}:{one.port}", "program": None, "url": None, "models": []}
    fields |= {"checks_drafts": False, "wants_token": False, "why_not": None}
    if isinstance(one, NearbyServer):
        fields |= {
            "program": one.program.title,
            "url": one.remote(None).url,
            "models": [model.id for model in one.models],
            "checks_drafts": one.checks_drafts,
            "wants_token": one.locked,
        }
    else:
        fields["why_not"] = one.why
    return fields
