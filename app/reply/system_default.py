"""The system prompt that a conversation begins with if nobody chose one: the server's, else the one of the settings.

It is kept with the conversation before the first answer, so a later change of a default or of the library changes no
conversation that has begun.
"""

from __future__ import annotations

import msgspec

from app.config import ConfigError
from app.reply.errors import NoAnswer
from app.system_prompts import NO_PROMPT, SystemPrompts
from storage import Message, Store


def keep_default(store: Store, prompts: SystemPrompts, answer: Message, *, server: str | None, all: str | None) -> None:
    """Keep the default system prompt with the conversation of a pending answer, if that is its first answer.

    `server`, `all`: names of the defaults, or `none`. Raises `NoAnswer` for a name that the
    library has not, `StorageError`.
    """
    name = server or all
    if name is None or name == NO_PROMPT:
        return
    choices = store.conversations.get(answer.conversation_id).choices
    if choices.system is not None:
        return
    messages = store.messages.of(answer.conversation_id)
    if any(message.role == "system" or (message.role == "assistant" and message.text) for message in messages):
        return
    try:
        prompt = prompts.named(name)
    except ConfigError as error:
        whose = "of this server" if server else "in the settings"
        raise NoAnswer(f"The default system prompt {whose} cannot be read: {error}.", "internal") from None
    chosen = msgspec.structs.replace(choices, system=prompt.text, system_name=prompt.name)
    store.conversations.choose(answer.conversation_id, chosen)
