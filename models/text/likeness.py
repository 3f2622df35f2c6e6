"""Compares tokenizers by how they encode some fixed texts, whatever files they are in.

A GGUF file and a `tokenizer.json` never have the same bytes, and files of one family differ in padding and in tokens
that were added and are not used.
"""

from __future__ import annotations

import hashlib

import msgspec

from models.config import DIGEST_BYTES
from models.text.chat_text import ChatText
from models.text.template import TemplateFailed

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
"""Pieces of the fixed text. Accents are composed where possible, because some models compose them first."""
SPELT = 2_000
"""About this many words are taken from the vocabulary and put into tokens again."""
TALK = [("user", "What is 12 + 30?"), ("assistant", "It is 42."), ("user", "  Danke!\n")]


def likeness(text: ChatText) -> bytes | None:
    """Digest of the words of a tokenizer, with their ids, and of what it makes of texts and of a conversation.

    Two tokenizers with the same one, for the same chat template, read and write the same tokens. None if that cannot be
    told: the words are not known, or the template takes no such conversation.
    """
    words = text.words()
    if not words:
        return None
    try:
        talk = text.render(TALK)
    except TemplateFailed:
        return None
    ordered = sorted(words, key=words.__getitem__)
    numbers = [words[word] for word in ordered]
    # One in so many of the words, each on its own line, so that no two letters join.
    spelt = "\n".join(text.decode([number]) for number in numbers[:: max(1, len(numbers) // SPELT)])
    said = [text.encode(piece) for piece in (*PROBES.values(), spelt)]
    content = msgspec.msgpack.encode((ordered, numbers, said, talk))
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
