"""The target's text side: tokenizer, chat template and special tokens, tried before anything is computed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import cached_file

from drafter.training.target import UnsupportedTarget
from models.config import SPECIAL_TOKENS, TEMPLATE, TOKENIZER, DrafterError
from models.text.chat_text import ChatText

QUESTION = [("user", "?")]
ANOTHER = [*QUESTION, ("assistant", "!"), ("user", "?")]


@dataclass(frozen=True)
class TextSide:
    """`tokenizer` is that of transformers, for training. The rest is what a device renders and encodes with."""

    tokenizer: PreTrainedTokenizerBase
    file: Path
    """The target's own `tokenizer.json`."""
    template: str
    special_tokens: dict[str, str]

    def write(self, folder: Path) -> None:
        """Write the three files into a drafter's folder; the tokenizer is copied byte for byte."""
        shutil.copyfile(self.file, folder / TOKENIZER)
        (folder / TEMPLATE).write_text(self.template, encoding="utf-8")
        (folder / SPECIAL_TOKENS).write_bytes(msgspec.json.format(msgspec.json.encode(self.special_tokens), indent=1))


def read_text_side(source: str, name: str, *, several_turns: bool, template: str | None = None) -> TextSide:
    """Read the text side of the target in the folder `source`, or of that name on the hub, and try it.

    It is tried on a conversation, and on one of `several_turns` if wanted. `template`: a chat template to use instead
    of the target's own. Raises `UnsupportedTarget` if a device would not ask the target as transformers does.
    """
    local = Path(source).is_dir()
    file = cached_file(source, TOKENIZER, local_files_only=local, _raise_exceptions_for_missing_entries=False)
    if file is None:
        raise UnsupportedTarget(f"{name} has no {TOKENIZER}. Save a fast tokenizer with it.")
    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local, trust_remote_code=False)
    if template is not None:
        tokenizer.chat_template = template
    try:
        template = tokenizer.get_chat_template()
    except ValueError:
        raise UnsupportedTarget(f"{name} has no chat template, so it cannot be asked questions.") from None
    side = TextSide(tokenizer, Path(file), template, tokenizer.special_tokens_map)
    try:
        text = ChatText(side.file.read_bytes(), template, (), side.special_tokens)
        for conversation in (QUESTION, ANOTHER) if several_turns else (QUESTION,):
            if text.render(conversation) != _as_trained(tokenizer, conversation):
                difference = "its chat template and tokenizer give other tokens on a device than in transformers"
                raise UnsupportedTarget(f"{name} cannot have a drafter: {difference}.")
    except DrafterError as error:
        raise UnsupportedTarget(f"{name} cannot have a drafter: {error}") from error
    return side


def _as_trained(tokenizer: PreTrainedTokenizerBase, conversation: Sequence[tuple[str, str]]) -> list[int]:
    """The tokens that the drafter will learn from. Raises `UnsupportedTarget`."""
    chat = [{"role": role, "content": content} for role, content in conversation]
    try:
        return list(tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"])
    except Exception as error:  # A template is a program, and may fail in any way.
        raise UnsupportedTarget(f"The chat template cannot render a conversation: {error}") from error
