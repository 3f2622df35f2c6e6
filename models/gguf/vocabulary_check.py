"""Whether the tokenizer of a GGUF file gives the ids that llama.cpp gives, which runs the model.

Both read a fixed text and a short conversation. Where they differ, the translation by transformers is tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from models.errors import MissingPackage, ModelError
from models.gguf.file import has_own_text, text_source, translated
from models.gguf.kept_text import keep_text, kept_text, was_compared
from models.text.chat_text import ChatText
from models.text.template import TemplateFailed
from models.text.text_side import TextSide, read_text_side

Tokenize = Callable[[bytes], list[int]]
"""The ids of a text in llama.cpp. Special tokens in it are special, and nothing is added."""
PROBES = {
    "English": "It's a test: don't panic, she'll WE'VE been there — “quoted”, e.g. at 5 o'clock.  Two spaces.",
    "code": "def mean(values: list[float]) -> float:\n    if not values:\n\t\treturn 0.0  # none\n    return "
    "sum(values) / len(values)\r\n\n\n<a href='x.html?q=1&b=%20'>{{ f(x) != 0 }}</a>;\n",
    "numbers": "3.14159 1,000,000 2026-01-31 0x1F 12345678901 v2.0.1 ½ ² Ⅷ",
    "German": "Größe, Äpfel und ÜBERMUT: 50 € für Straßenbahn-Fahrkarten (§ 12).",
    "Chinese": "你好，世界！这是一个测试。テスト 한국어",
    "other scripts": "Привет, мир! مرحبا नमस्ते สวัสดี",
    "emoji": "👩\u200d💻 🇩🇪 👍\U0001f3fd ❤\ufe0f",
    "accents": "x\u0302 q\u0303 m\u0308n é ł naïve\u00a0\u2003end ",
}
"""Pieces of the fixed text. Their accents are composed where they can be, because some models compose them first."""
TALK = [("user", "What is 12 + 30?"), ("assistant", "It is 42."), ("user", "  Danke!\n")]
log = logging.getLogger(__name__)


def first_difference(text: ChatText, tokenize: Tokenize) -> str | None:
    """What the two read differently, as a part of a sentence; None: nothing."""
    for what, piece in PROBES.items():
        if text.encode(piece) != tokenize(piece.encode()):
            return f"{what}, such as {piece[:24]!r}"
    try:
        rendered = text.render_after(None, TALK)
    except TemplateFailed:  # A template for another kind of conversation.
        return None
    return "what its chat template writes" if rendered.tokens != tokenize(rendered.text.encode()) else None


def settled(
    side: TextSide,
    path: Path,
    tokenize: Tokenize,
    say: Callable[[str], None],
    *,
    kept: Path | None = None,
    template: str | None = None,
) -> TextSide | None:
    """The text side that reads text as llama.cpp does: `side`, or the translation by transformers; None: neither does.

    `path`: of the GGUF file. A model's own tokenizer beside it is taken in any case, and `say` is told where the two
    differ. `kept`, `template`: see `text_source` and `read_text_side`.
    """
    if side.text is None or (difference := first_difference(side.text, tokenize)) is None:
        return side
    if has_own_text(path):
        say(
            f"warning: llama.cpp reads {difference} as other tokens than the tokenizer.json beside {path.name}. "
            "Answers may be worse. Check that the two belong together."
        )
        return side
    other = _other(path, tokenize, kept, template)
    return None if other is None else replace(other, name=side.name)


def _other(path: Path, tokenize: Tokenize, kept: Path | None, template: str | None) -> TextSide | None:
    """The translation by transformers, if it reads text as llama.cpp does. It is kept then."""
    folder = None if kept is None else kept_text(path, kept)
    if folder is not None and was_compared(folder):
        return None
    try:
        with translated(path) as made:
            side = read_text_side(made, template)
            if side.text is not None and first_difference(side.text, tokenize) is None:
                if kept is not None:
                    keep_text(path, made, kept, compared=True)
                return side
    except MissingPackage:
        return None
    except ModelError as error:
        log.info("The tokenizer is not translated by transformers: %s", error)
    if kept is not None:
        with text_source(str(path), kept) as source:
            keep_text(path, Path(source), kept, compared=True)
    return None
