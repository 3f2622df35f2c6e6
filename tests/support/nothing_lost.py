"""Checks that a reply lost and duplicated nothing: its events, the database and the target's own answer must agree."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.events import Done, Event, Failed, ReplyText, Verified
from app.sanitise import sanitise
from models.guide.names import NoMarks
from models.text.chat_text import ChatText
from models.tree import DraftTree
from remote import VerifierClient
from remote.protocol import Sampling
from storage import Message

PATIENCE_SECONDS = 60.0


async def target_alone(
    client: VerifierClient, prompt: Sequence[int], sampling: Sampling, most: int, stops: Collection[int]
) -> list[int]:
    """What the target answers token by token, without drafts, at most `most` tokens. Raises `RemoteError`."""
    session, answer = client.session(), list[int]()
    longest = (await client.card(PATIENCE_SECONDS)).limits.max_tokens
    while len(answer) < most and len(prompt) + len(answer) < longest:
        reply = await session.round(
            [*prompt, *answer], DraftTree.empty(), sampling, memory_from=None, deadline=PATIENCE_SECONDS
        )
        async for _ in reply.memory:  # There is no memory. Reading to its end frees the connection for the next round.
            pass
        assert reply.verdict.bonus is not None
        answer.append(reply.verdict.bonus)
        if answer[-1] in stops:
            break
    await session.close(PATIENCE_SECONDS)
    return answer


def violations(events: Sequence[Event], stored: Message, reference: Sequence[int] | None, text: ChatText) -> list[str]:
    """What is wrong with one reply, one sentence each.

    `stored`: its message, read after its end. `reference`: the target's own answer; None: unknown.
    """
    ends = [event for event in events if isinstance(event, (Done, Failed))]
    if len(ends) != 1 or events[-1] is not ends[0]:
        return [f"it ended {len(ends)} times, last with {events[-1] if events else 'nothing'}"]
    end, shown = ends[0], ReplyText()
    for event in events:
        shown.apply(event)
    tokens, provenance = list(stored.tokens), list(stored.provenance)
    verified = provenance.count(True)
    told = sum(event.tokens for event in events if isinstance(event, Verified))
    found = []
    if isinstance(end, Done) and (list(end.token_ids), list(end.provenance)) != (tokens, provenance):
        found.append(f"the end names {len(end.token_ids)} tokens, and {len(tokens)} are stored, or other ones")
    if stored.status != (("stopped" if end.stopped else "done") if isinstance(end, Done) else "failed"):
        found.append(f"it is stored as {stored.status}")
    if provenance != sorted(provenance, reverse=True) or len(provenance) != len(tokens):
        found.append("a verified token follows one that is not")
    if told != verified:
        found.append(f"{told} tokens were shown as verified, and {verified} are stored as that")
    if shown.solid + shown.ghost != stored.text:
        found.append(f"shown {shown.solid + shown.ghost!r}, stored {stored.text!r}")
    if stored.text != sanitise(NoMarks().shown(text.decode(tokens))):
        found.append("the stored text is not that of the stored tokens")
    if not sanitise(NoMarks().shown(text.decode(tokens[:verified]))).startswith(shown.solid):
        found.append("text was shown as verified that the verified tokens do not make")
    if reference is not None:
        found += _against(reference, tokens, verified, isinstance(end, Done) and not end.stopped)
    return found


def _against(reference: Sequence[int], tokens: Sequence[int], verified: int, complete: bool) -> list[str]:
    own = list(tokens[:verified])
    if own != list(reference[:verified]):
        at = next((at for at, (one, other) in enumerate(zip(own, reference)) if one != other), len(reference))
        return [f"verified token {at} of {verified} is not the target's own"]
    if complete and verified == len(tokens) and verified < len(reference):
        return [f"it ended after {verified} of the target's {len(reference)} tokens"]
    return []
