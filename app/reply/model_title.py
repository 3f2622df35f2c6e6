"""Asks the model that answers a conversation for a title, only where that costs nothing.

That is a server on this device, or an Outrider server. Others may charge for it, so they need a setting. The title
replaces the one that was made from the question, never a person's own.
"""

from __future__ import annotations

import re
from contextlib import aclosing

from app.config import BUNDLED_TARGET, Titles
from app.model_names import short_model
from app.remotes.connection import Connection
from app.remotes.peer import Endpoint, Verifier
from app.remotes.source import stays_here
from app.sanitise import sanitise
from app.titles import TITLE_LENGTH, title_from
from remote import CompletionsClient, RemoteError
from remote.protocol import Sampling
from storage import Store

REQUEST = "Give this conversation a title of at most six words, in its own language. Reply with the title alone."
LONGEST = 8_000
"""Characters of a question with its answer. More take a server too long to read again where it has forgotten them."""
MOST_TOKENS = 200
"""Tokens of the reply. Some models think first."""
DEADLINE_SECONDS, SILENCE_SECONDS = 30.0, 10.0
UNSET = ("top_k", "top_p", "seed")


async def give_title(store: Store, connection: Connection | None, conversation_id: str, titles: Titles) -> str | None:
    """Ask for a title after the first answer, and store it. None if the old one stays. Raises `StorageError`.

    Cancelling it leaves nothing behind.
    """
    if connection is None or titles == "off":
        return None
    peer, source = connection.verifier, connection.source
    if peer is None or not (titles == "always" or isinstance(peer, Verifier) or stays_here(source)):
        return None
    if short_model(peer.model_name) == BUNDLED_TARGET.name:
        return None  # It answers everything with a command.
    conversation, thread = store.conversations.get(conversation_id), store.branches.thread(conversation_id)
    if [one.role for one in thread] != ["user", "assistant"] or thread[1].status != "done":
        return None
    if thread[1].stats.get("stretches") or thread[1].stats.get("model") not in (None, peer.model_name):
        return None  # Somebody else has answered: this server does not get to read it.
    question, answer = thread[0].text, thread[1].text
    if not answer or len(question) + len(answer) > LONGEST or conversation.title != title_from(question):
        return None
    system = [("system", conversation.choices.system)] if conversation.choices.system else []
    messages = [*system, ("user", question), ("assistant", answer), ("user", REQUEST)]
    client = peer.client if isinstance(peer, Endpoint) else source.chat
    try:
        title = "" if client is None else await _asked(client, peer, messages)
    except RemoteError:
        return None  # Nobody waits for it, and the next answer reports what is wrong.
    return title if title and store.conversations.entitle(conversation_id, conversation.title, title) else None


async def _asked(client: CompletionsClient, peer: Endpoint | Verifier, messages: list[tuple[str, str]]) -> str:
    """The title that the model replies. Raises `RemoteError`."""
    model = peer.model if isinstance(peer, Endpoint) else (await client.models(DEADLINE_SECONDS))[0]
    stream = await client.chat(
        messages,
        Sampling(),
        model=model.id,
        most=MOST_TOKENS,
        deadline=DEADLINE_SECONDS,
        silence=SILENCE_SECONDS,
        unset=UNSET,
    )
    said = ""
    async with aclosing(stream):
        async for piece in stream:
            said += piece
            if len(said) > 2 * TITLE_LENGTH or "\n" in said.strip():
                break
    return clean_title(said)


def clean_title(said: str) -> str:
    """A model's reply as a title in one line; empty if it is not a title."""
    line = next((line for line in sanitise(said).split("\n") if line.strip()), "")
    line = re.sub(r"^\W*title\s*:\s*", "", line, flags=re.IGNORECASE)
    title = " ".join(line.split()).strip("#*_`\"'“”„«» ").rstrip(".:")
    return title if len(title) <= TITLE_LENGTH and any(map(str.isalnum, title)) else ""
