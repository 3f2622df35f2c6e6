"""A GGUF file is served with the tokenizer that reads text as llama.cpp does, or it is said that there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from models.gguf.file import text_source, translated
from models.gguf.kept_text import kept_text, was_compared
from models.gguf.vocabulary_check import Tokenize, first_difference, settled
from models.text.text_side import TextSide, read_text_side
from tests.support.gguf_files import LlamaVocabulary, byte_level, entries_of, write_vocabulary

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file by whose rule each digit is a word. transformers does not ask for the rule."""
    (tmp_path / "files").mkdir()
    entries = entries_of(byte_level(), pre="smollm") | {"tokenizer.chat_template": TEMPLATE}
    return write_vocabulary(tmp_path / "files" / "a.gguf", entries | {"llama.attention.head_count": 2})


def side_of(file: Path, kept: Path | None = None) -> TextSide:
    with text_source(str(file), kept) as folder:
        return read_text_side(Path(folder))


def as_in(folder: Path) -> Tokenize:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: list(tokenizer.encode(text.decode(), add_special_tokens=False).ids)


def strange(text: bytes) -> list[int]:
    return [*text]


def silent(sentence: str) -> None:
    raise AssertionError(sentence)


def test_llama_cpp_agrees(file: Path, llama_cpp: Callable[[Path], LlamaVocabulary]) -> None:
    side = side_of(file)
    assert side.text is not None and first_difference(side.text, llama_cpp(file)) is None
    assert settled(side, file, llama_cpp(file), silent) is side


def test_the_difference_is_named(file: Path, tmp_path: Path) -> None:
    with text_source(str(file)) as folder, translated(file) as theirs:
        text = read_text_side(Path(folder)).text
        assert text is not None and first_difference(text, as_in(Path(folder))) is None
        difference = first_difference(text, as_in(theirs))
    assert difference is not None and difference.startswith("code, such as 'def mean(")

    def without_special_tokens(data: bytes) -> list[int]:
        return text.encode(data.decode())

    assert first_difference(text, without_special_tokens) == "what its chat template writes"


def test_the_translation_is_taken_where_it_agrees_and_the_own_does_not(file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = side_of(file, kept)
    with translated(file) as folder:
        truth, wanted = as_in(folder), read_text_side(folder).tokenizer
    taken = settled(first, file, truth, silent, kept=kept)
    assert taken is not None and taken.tokenizer == wanted != first.tokenizer and taken.name == first.name
    again = side_of(file, kept)
    assert again.tokenizer == wanted, "it is kept in the place of the own one"
    assert settled(again, file, truth, silent, kept=kept) is again


def test_where_neither_agrees_there_is_none_and_it_is_not_tried_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    side = side_of(file, kept)
    assert settled(side, file, strange, silent, kept=kept) is None
    folder = kept_text(file, kept)
    assert folder is not None and was_compared(folder) and side_of(file, kept).tokenizer == side.tokenizer
    monkeypatch.setitem(sys.modules, "transformers", None)  # It would be missed.
    assert settled(side, file, strange, silent, kept=kept) is None
    assert was_compared(folder)


def test_without_transformers_there_is_none_until_it_is_there(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    kept = tmp_path / "kept"
    side = side_of(file, kept)
    assert settled(side, file, strange, silent, kept=kept) is None
    folder = kept_text(file, kept)
    assert folder is not None and not was_compared(folder), "it is tried once transformers is there"


def test_the_own_tokenizer_beside_a_file_is_compared_too(file: Path) -> None:
    with text_source(str(file)) as folder:
        for name in ("tokenizer.json", "config.json"):
            (file.parent / name).write_bytes((Path(folder) / name).read_bytes())
    said = list[str]()
    side = side_of(file)
    assert settled(side, file, strange, said.append) is side
    assert "llama.cpp reads English" in said[0] and "tokenizer.json beside a.gguf" in said[0]
