"""Whether the tokens of a stored answer say what its text says, to the tokenizer in use.

Those of an answer that was made with another drafter, or came with an import, may stand for anything else, or for
nothing: they are numbers of another vocabulary. What was shown and kept is the text, so that counts.
"""

from __future__ import annotations

from dataclasses import replace

from app.sanitise import sanitise
from drafter.text import ChatText
from storage import Message


def is_spelt(text: ChatText, message: Message) -> bool:
    """Whether its tokens are there and say its text, up to what was taken out of that before it was shown."""
    if not message.tokens or not text.knows(message.tokens):
        return False
    said = text.decode(message.tokens)
    return said == message.text or sanitise(said) == sanitise(message.text)


def spelt(text: ChatText, message: Message) -> Message:
    """The same message in tokens of this tokenizer; in others than its own, nobody has verified any of them."""
    if is_spelt(text, message):
        return message
    tokens = tuple(text.encode(message.text))
    return replace(message, tokens=tokens, provenance=(False,) * len(tokens))
