r"""How byte-level tokenizers split text into words, by the name that a GGUF file gives (`tokenizer.ggml.pre`).

The patterns and the names are those of llama.cpp (`src/llama-vocab.cpp`), which runs the model with them. If llama.cpp
simplified the original pattern, its version is used here, because both must tokenize in the same way. The first pattern
splits the text, and each further one splits the pieces of the previous one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Splitting:
    """How text is split into words, before words become tokens."""

    patterns: tuple[str, ...]
    whole_words: bool = False
    """Whether a word that is a token stays whole, whatever the merges say."""
    begins: bool = False
    """Whether a text begins with the `bos` token, unless the file says otherwise."""


_SUFFIXES = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3 = rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINES}"
_QWEN2 = rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINES}"
_QWEN35 = rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINES}"
_MINICPM5 = rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINES}"
_SEED = rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_LINES}"
_BAILING = (
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_EXAONE_MOE = (
    rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"((?=[\p{L}])([^a-z]))", r"((?=[\p{L}])([^A-Z]))"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_PUNCTUATION = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_LINES}"
_TEKKEN = rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}|{_PUNCTUATION}"
_GPT4O = (
    rf"{_BEFORE}{_UPPER}*{_LOWER}+{_SUFFIXES}?|{_BEFORE}{_UPPER}+{_LOWER}*{_SUFFIXES}?"
    rf"|\p{{N}}{{1,3}}|{_PUNCTUATION}"
)
_CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7d"
    "ᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"
    "Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
"""Letters with an upper and a lower case."""
_MARKS = r"""!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~"""
_EAST_ASIAN = "[一-龥ࠀ-一가-\ud7ff]+"
_DEEPSEEK_LLM = (
    "[\r\n]",
    rf"\s?[{_CASED}]+",
    "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
    r"\s+$",
    _EAST_ASIAN,
    r"\p{N}+",
)
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    rf"[{_MARKS}][A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_LINES}",
)
_FINNISH = r" ?[^(\s|.,!?…。，、।۔،)]+"

_RULES: dict[Splitting, tuple[str, ...]] = {
    Splitting((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")): ("default", ""),
    Splitting((_GPT2,)): (
        *("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "mpt", "olmo", "jais", "trillion", "granite-docling"),
        *("exaone4",),
    ),
    Splitting((r"\p{N}", _GPT2)): (
        *("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"),
    ),
    Splitting((_LLAMA3,), whole_words=True, begins=True): (
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    ),
    Splitting((_LLAMA3,), whole_words=True): ("glm4", "glm5"),
    Splitting((_LLAMA3,)): ("dbrx", "smaug-bpe", "chatglm-bpe"),
    Splitting((_QWEN2,)): (
        *("qwen2", "deepseek-r1-qwen", "kormo", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2"),
    ),
    Splitting((_QWEN35,)): ("qwen35",),
    Splitting((r"\p{N}{1,3}", _MINICPM5), whole_words=True): ("minicpm5",),
    Splitting((_TEKKEN,), whole_words=True, begins=True): ("tekken",),
    Splitting((_GPT4O,)): ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"),
    Splitting(_DEEPSEEK_LLM): ("deepseek-llm",),
    Splitting(("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}")): ("deepseek-coder",),
    Splitting(_DEEPSEEK3): ("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"),
    Splitting((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")): ("falcon",),
    Splitting((_BAILING,)): ("bailingmoe", "bailingmoe2", "llada-moe"),
    Splitting((_SEED,)): ("seed-coder",),
    Splitting((_EXAONE_MOE,)): ("exaone-moe",),
    Splitting((_FINNISH,)): ("poro-chat", "bloom", "gpt3-finnish"),
    Splitting((_FINNISH, r"\p{N}")): ("viking",),
}
SPLITTINGS = {name: splitting for splitting, names in _RULES.items() for name in names}
"""The splittings, by their name in a file. A file without one is read as `default`, as in llama.cpp."""
