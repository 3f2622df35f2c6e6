"""What a person chooses for the open conversation alone: its system prompt, and how its answers are sampled."""

from __future__ import annotations

import msgspec
from textual.screen import Screen

from app.config import ConfigError, Folders, Settings
from app.system_prompts import NO_PROMPT, SystemPrompt, SystemPrompts
from app.tui.notices import complain, reporting
from app.tui.open_conversation import OpenConversation


async def choose_system(screen: Screen[None], conversation: OpenConversation, given: str = "") -> bool:
    """Let the person choose a system prompt; whether it was chosen.

    `given`: the name of one, a text, or `none`; empty: ask on a screen of its own.
    """
    prompts = SystemPrompts(Folders.locate())
    chosen: SystemPrompt | None
    if given.strip():
        try:
            chosen = prompts.meant_by(given.strip())
        except ConfigError as error:
            complain(screen, error, "System prompts")
            return False
    else:
        from app.tui.screens.system import SystemScreen  # What is a screen of its own is not on the first frame.

        chosen = await screen.app.push_screen_wait(SystemScreen(prompts, conversation.system))
    if chosen is None:
        return False
    with reporting(screen):
        conversation.choose(msgspec.structs.replace(conversation.choices, system=chosen.text, system_name=chosen.name))
        name = NO_PROMPT if not chosen.text else chosen.name or "your own text"
        screen.notify(f"System prompt from the next answer on: {name}.", markup=False)
        return True
    return False


async def choose_sampling(screen: Screen[None], conversation: OpenConversation, settings: Settings) -> bool:
    """Let the person choose how the answers are sampled; whether they did."""
    from app.tui.screens.sampling_form import SamplingForm

    chosen = await screen.app.push_screen_wait(SamplingForm(conversation.choices, settings))
    if chosen is None:
        return False
    with reporting(screen):
        conversation.choose(chosen)
        said = sampling_text(conversation)
        screen.notify(f"From the next answer on: {said or 'as the settings say'}.", markup=False)
        return True
    return False


def sampling_text(conversation: OpenConversation) -> str:
    """What was chosen for the conversation, in words; empty: nothing."""
    chosen = conversation.choices.sampling.items()
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in chosen)
