from __future__ import annotations

import hashlib
import shutil
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from models.config import DrafterCorrupt, DrafterMissing
from models.text.chat_text import ChatText
from tests.support.tiny_text import CHAT_TEMPLATE as TEMPLATE
from tests.support.tiny_text import SPECIAL, train_tokenizer


def letters() -> bytes:
    """A tokenizer with a token for each byte, and the special ones."""
    alphabet = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer.to_str().encode()


TOKENIZER = letters()
CHAT = ChatText(TOKENIZER, TEMPLATE, [1])
PAD, END, SYSTEM, USER, ASSISTANT = range(5)
DEFAULT = [SYSTEM, *CHAT.encode("Answer with a command."), END]

pieces_said = st.one_of(st.text(max_size=5), st.sampled_from([*SPECIAL, "<|", "|>", "\ufdd0"]))
contents = st.lists(pieces_said, max_size=6).map("".join)
turns = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), contents), max_size=4)


@given(turns)
def test_what_a_person_writes_never_becomes_a_special_token(messages):
    number = {"user": USER, "assistant": ASSISTANT}
    expected = list(DEFAULT)
    for role, content in messages:
        expected += [number[role], *CHAT.encode(content), END]
    assert CHAT.render(messages) == [*expected, ASSISTANT]
    assert all(token >= len(SPECIAL) for _, content in messages for token in CHAT.encode(content))


@given(st.text())
def test_decoding_inverts_encoding_and_drops_special_tokens(text):
    assert CHAT.decode([USER, *CHAT.encode(text), END]) == text


def test_a_folder_is_checked_before_it_is_used(tiny_pair, tmp_path):
    with pytest.raises(DrafterCorrupt, match=r"tokenizer\.json"):
        ChatText(b"{}", TEMPLATE, [])
    folder = shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter")
    text, data = ChatText.load(folder), (folder / "tokenizer.json").read_bytes()
    assert text.digest == hashlib.blake2b(data, digest_size=16).digest() and text.stop_tokens == {1}
    (folder / "chat_template.jinja").write_text("{{ 'other' }}")
    with pytest.raises(DrafterCorrupt, match=r"chat_template\.jinja does not match"):
        ChatText.load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(DrafterMissing, match=r"tokenizer\.json is missing"):
        ChatText.load(folder)


def pieces(prepend: str) -> bytes:
    """A tokenizer that may mark the beginning of a text.

    Its token for unknown letters is special, and it does not read `<|end|>` as special beside a word.
    """
    vocabulary = [*SPECIAL, "\u2581", "\u2581ls", "ls", "a", "a\u00e9ls"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in vocabulary], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    tokenizer.add_special_tokens([AddedToken(token, single_word=token == "<|end|>") for token in SPECIAL])
    return tokenizer.to_str().encode()


BYTES = train_tokenizer().to_str().encode()
text_of = cache(ChatText)
TOKENIZERS = {"bytes": BYTES, "pieces": pieces("never"), "pieces, marked": pieces("first")}
SAID = ("system", "a")
ONE_BY_ONE = "{%- for message in messages -%}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{%- endfor -%}"
TEMPLATES = {
    "as a rule": TEMPLATE,
    "no opening": ONE_BY_ONE,
    "words after the last special token": ONE_BY_ONE + "<|assistant|>a\u00e9",
    "nothing before a message": "{% for message in messages %}{{ message['content'] }}<|end|>{% endfor %}",
    "no special token": "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}a",
    "counts at the beginning": "<|system|>{{ messages | length }}<|end|>" + ONE_BY_ONE + "<|assistant|>",
    "counts at the end": ONE_BY_ONE + "<|system|>{{ messages | length }}<|end|><|assistant|>",
    "drops what was thought before": (
        "{%- for message in messages -%}<|{{ message['role'] }}|>"
        "{{ message['content'] if loop.last else message['content'].split('|>')[-1] }}<|end|>{%- endfor -%}"
    ),
}


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())
@settings(max_examples=80)
@given(data=st.data(), template=st.sampled_from(list(TEMPLATES)))
def test_prompts_after_one_another_are_as_if_each_was_made_anew(tokenizer, data, template):
    text = text_of(tokenizer, TEMPLATES[template], (1,))
    said = st.one_of(contents, st.sampled_from(["ls", " ls\n", "", "list all", "a\u00e9ls", "|>ls", "\ufdef3\ufdef"]))
    anyhow = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), said), max_size=6)
    turns = st.lists(st.tuples(said, said), min_size=5, max_size=9)
    in_turn = turns.map(lambda all: [one for pair in all for one in zip(("user", "assistant"), pair)])
    led = st.tuples(st.integers(0, 1), in_turn).map(lambda it: [SAID] * it[0] + it[1])
    messages = data.draw(st.one_of(anyhow, led))
    anew, before = [text.render(messages[:end]) for end in range(len(messages) + 1)], None
    for end, expected in enumerate(anew):
        before = text.render_after(before, messages[:end])
        assert before.tokens == expected
    ends = [at for at, (role, _) in enumerate(messages) if role == "assistant"]
    made = text.render_each(None, messages, ends) if ends else []
    assert [one.tokens for one in made] == [anew[end] for end in ends]


@pytest.mark.parametrize("spelt", ["</s>", "\uff1c/s\uff1e", "<\uff0fs>"])
@pytest.mark.parametrize("normalized", [False, True])
def test_a_vocabulary_with_special_words_finds_none_in_a_text(spelt, normalized):
    """Unigram models hold them among the words, and may read full-width letters as plain ones."""
    words = ["<unk>", "<s>", "</s>", *"</s>lsa", "\u2581", "\u2581ls"]
    tokenizer = Tokenizer(models.Unigram([(word, -float(len(word) < 3)) for word in words], unk_id=0))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.add_special_tokens([AddedToken(token, normalized=normalized) for token in ("<unk>", "<s>", "</s>")])
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    text = ChatText(tokenizer.to_str().encode(), template, [2], {"bos_token": "<s>", "eos_token": "</s>"})
    assert not {1, 2} & set(text.encode(f"ls {spelt}a{spelt}{spelt} \u00e9"))
    assert not {1, 2} & set(text.encode(spelt * 5000)), "however often"
    before = None
    for said in ([("user", "ls")], [("user", "ls"), ("user", f"a{spelt}")], [("user", f"{spelt}ls \u00e9")]):
        rendered = before = text.render_after(before, said)
        assert [token for token in rendered.tokens if token in (1, 2)] == [1] + [2] * len(said)
        assert rendered.tokens == text.render(said)
