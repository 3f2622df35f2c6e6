"""The tokenizer that is made of a GGUF file gives the ids of the one that the file was written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from models.errors import CorruptWeights, MissingTokenizer
from models.gguf.header import read_header
from models.gguf.splits import SPLITTINGS
from models.gguf.tokenizer import Untranslatable, Vocabulary, tokenizer_json
from models.text.chat_text import ChatText
from tests.support.gguf_files import (
    BOS,
    END,
    LlamaCpp,
    byte_level,
    entries_of,
    sentencepiece,
    texts,
    write_vocabulary,
)

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern of Qwen's own tokenizer."""


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return byte_level()


def vocabulary(folder: Path, tokenizer: Tokenizer, **others: Any) -> Vocabulary:
    return Vocabulary(read_header(write_vocabulary(folder / "a.gguf", entries_of(tokenizer, **others))))


def made(folder: Path, tokenizer: Tokenizer, **others: Any) -> Tokenizer:
    return Tokenizer.from_buffer(tokenizer_json(vocabulary(folder, tokenizer, **others)))


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize(
    ("original", "others"),
    [(byte_level(), {"pre": "gpt-2"}), (byte_level(QWEN2), {"pre": "qwen2"}), (sentencepiece(), {})],
    ids=["gpt-2", "qwen2", "llama"],
)
def test_it_gives_the_ids_of_the_original(tmp_path: Path, original: Tokenizer, others: dict[str, str]) -> None:
    tokenizer = made(tmp_path, original, **others)
    for text in texts():
        assert ids(tokenizer, text) == ids(original, text), text
    assert tokenizer.get_vocab_size() == original.get_vocab_size()


@pytest.mark.parametrize("name", SPLITTINGS)
def test_it_splits_text_as_llama_cpp_does(tmp_path: Path, gpt2: Tokenizer, llama_cpp: LlamaCpp, name: str) -> None:
    tokenizer = made(tmp_path, gpt2, add_bos_token=False, **({"pre": name} if name else {}))
    tokenize = llama_cpp(tmp_path / "a.gguf")
    for text in texts():
        assert ids(tokenizer, text) == tokenize(text.encode()), text


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_is_read_as_llama_cpp_does(tmp_path: Path, llama_cpp: LlamaCpp, prefix: bool) -> None:
    tokenizer = made(tmp_path, sentencepiece(), add_space_prefix=prefix)
    tokenize = llama_cpp(tmp_path / "a.gguf")
    for text in texts():
        assert ids(tokenizer, text) == tokenize(text.encode()), text
    assert tokenizer.decode(ids(tokenizer, "two  words 👍")) == "two  words 👍"


def test_words_that_are_tokens_stay_whole_where_the_rule_says_so(tmp_path: Path, gpt2: Tokenizer) -> None:
    """In GPT-2's way only merges make a token; in Llama 3's, a word that is one needs none."""
    entries = entries_of(gpt2)
    merges = [merge for merge in entries["tokenizer.ggml.merges"] if merge.replace(" ", "") != "Ġthe"]
    word = gpt2.token_to_id("Ġthe")
    assert ids(made(tmp_path, gpt2, pre="llama-bpe", merges=merges), "a the") == [gpt2.token_to_id("a"), word]
    assert word not in ids(made(tmp_path, gpt2, pre="gpt-2", merges=merges), "a the")


def test_special_tokens_are_told_from_words_that_people_define(tmp_path: Path, gpt2: Tokenizer) -> None:
    entries = entries_of(gpt2)
    tokens, types = entries["tokenizer.ggml.tokens"], entries["tokenizer.ggml.token_type"]
    tokens, types = [*tokens, "<tool_call>", "[PAD9]", "[PAD10]"], [*types, 4, 5, 5]
    tokenizer = made(tmp_path, gpt2, pre="gpt-2", tokens=tokens, token_type=types)
    defined = len(tokens) - 3
    assert ids(tokenizer, "a<tool_call>b<|im_end|>") == [ids(gpt2, "a")[0], defined, ids(gpt2, "b")[0], END]
    assert tokenizer.decode([defined, END]) == "<tool_call>", "a special token is not shown"
    assert tokenizer.get_vocab_size() == len(tokens) - 2, "what only fills the table up is no token"


def test_only_a_text_that_is_no_chat_begins_with_bos(tmp_path: Path, gpt2: Tokenizer) -> None:
    template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
    for pre, said, wanted in (("gpt-2", None, False), ("gpt-2", True, True), ("llama-bpe", None, True)):
        named = vocabulary(tmp_path, gpt2, pre=pre, **({} if said is None else {"add_bos_token": said}))
        text = ChatText(tokenizer_json(named), template, named.stop_tokens, named.special_tokens)
        assert (text.encode_whole("a")[0] == BOS) == wanted
        assert text.render([("user", "a")]) == [BOS, *text.encode("a")]


def test_phi_3_takes_the_space_behind_a_special_token_along(tmp_path: Path, gpt2: Tokenizer) -> None:
    entries = entries_of(gpt2, pre="gpt-2") | {"general.name": "Phi-3 mini"}
    path = write_vocabulary(tmp_path / "phi.gguf", entries)
    tokenizer = Tokenizer.from_buffer(tokenizer_json(Vocabulary(read_header(path))))
    assert ids(tokenizer, "<|im_end|> \na") == [END, *ids(gpt2, "a")]
    assert ids(tokenizer, "<s> a") == [BOS, *ids(gpt2, " a")]


def test_what_ends_an_answer_ends_one_of_llama_cpp(tmp_path: Path, gpt2: Tokenizer, llama_cpp: LlamaCpp) -> None:
    tokens = entries_of(gpt2)["tokenizer.ggml.tokens"]
    for number, name in enumerate(("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|end|>", "<|eot_id|>"), 300):
        tokens[number] = name
    for changes in ({}, {"eot_token_id": 400}, {"eom_token_id": 401}, {"fim_pad_token_id": 402}):
        named = vocabulary(tmp_path, gpt2, tokens=tokens, merges=["a b"], **changes)
        assert named.stop_tokens == llama_cpp(tmp_path / "a.gguf").ends()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "bert"}, "is of the kind bert, which only transformers translates"),
        ({"pre": "unheard-of"}, "splits text by the rule unheard-of"),
        ({"model": "llama"}, "has no scores"),
    ],
)
def test_an_unknown_tokenizer_is_named(tmp_path: Path, gpt2: Tokenizer, changes: dict[str, str], said: str) -> None:
    with pytest.raises(Untranslatable, match=rf"The tokenizer of a\.gguf {said}"):
        tokenizer_json(vocabulary(tmp_path, gpt2, **changes))


def test_a_vocabulary_that_makes_no_sense_is_told(tmp_path: Path, gpt2: Tokenizer) -> None:
    tokens = entries_of(gpt2)["tokenizer.ggml.tokens"]
    with pytest.raises(Untranslatable, match="has a token twice"):  # llama.cpp may read it all the same.
        vocabulary(tmp_path, gpt2, tokens=[*tokens[:-1], tokens[9]])
    for changes in ({"token_type": [1, 1]}, {"tokens": [1, 2]}):
        with pytest.raises(CorruptWeights, match=r"a\.gguf is damaged"):
            vocabulary(tmp_path, gpt2, **changes)
    with pytest.raises(MissingTokenizer, match=r"a\.gguf has no tokenizer"):
        Vocabulary(read_header(write_vocabulary(tmp_path / "a.gguf", {"tokenizer.ggml.model": "llama"})))
