"""Finds out who is at an address: a verifier, an OpenAI-compatible server, or neither."""

from __future__ import annotations

import time
from typing import Literal

from remote.client import VerifierClient
from remote.errors import Refused, RemoteError, Stranger
from remote.openai.client import CompletionsClient
from remote.openai.schema import OWNER, Model
from remote.protocol import Card

Kind = Literal["auto", "verifier", "openai", "anthropic"]
"""auto: find out by asking the server."""

SHORTEST = 0.05
"""Least seconds for the second question."""


async def detect(
    verifier: VerifierClient,
    endpoint: CompletionsClient | None,
    timeout: float,
    *,
    tokenizer: bytes | None = None,
    kind: Kind = "auto",
    model: str | None = None,
) -> Card | tuple[Model, ...]:
    """The card of a verifier, or the models of an OpenAI-compatible server. Both clients have the same address.

    Without `endpoint`, only a verifier can be there. `kind`: the kind of server if it is known, which saves a request.
    `model`: the model that the person wants, for servers that list none. An address that ends in `/v1` is an
    OpenAI-compatible server's, even if a verifier answers under it. `timeout`: seconds for everything. `tokenizer`: as
    in `VerifierClient.card`. Raises `LinkDown`, `Refused`, `Incompatible`.
    """
    if endpoint is None or kind == "verifier":
        return await verifier.card(timeout, tokenizer=tokenizer)
    if kind in ("openai", "anthropic"):
        return await endpoint.models(timeout, wanted=model)
    begun = time.monotonic()
    try:
        return await verifier.card(timeout, tokenizer=tokenizer)
    except Stranger as error:
        stranger: RemoteError = error
    except Refused as error:
        if error.code not in ("not_found", "unauthorised"):
            raise
        stranger = error
    try:
        models = await endpoint.models(max(SHORTEST, timeout - (time.monotonic() - begun)), wanted=model)
    except (Stranger, Refused) as error:
        if error.code != "not_found" if isinstance(error, Refused) else error.status >= 500:
            raise
        raise Stranger(
            f"{endpoint.host} is not a server that Outrider can use, or the address is wrong: {stranger}"
        ) from None
    if isinstance(stranger, Stranger) and any(model.owned_by == OWNER for model in models):
        raise stranger  # A verifier, but a login page that is gone now answered for its card.
    return models
