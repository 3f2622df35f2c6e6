"""Where a model continues a text that breaks off in the middle of a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers

from models.text.chat_text import ChatText
from models.text.detokenizer import Detokenizer
from models.text.seam import MOST_TAKEN_BACK, Spellings, seam
from tests.support.tiny_text import tiny_text


def sentence_piece() -> ChatText:
    """A tokenizer as SentencePiece has it: a sign for a space, bytes for what it does not know, no first space."""
    words = ["▁", "▁find", "▁fi", "les", "▁files", "▁l", "ist", "▁list", "f", "i", "n", "d", "a", "e", "l", "s", "t"]
    names = ["<unk>", "</s>", *words, *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = [(name, -float(1 + len(name) * (name.startswith("<0x")))) for name in names]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["</s>"])
    return ChatText(tokenizer.to_str().encode(), "{{ messages }}", [1])


TEXTS = {"bytes": tiny_text(), "SentencePiece": sentence_piece()}
SIZES = {"bytes": 320, "SentencePiece": 2 + 17 + 256}
every = pytest.mark.parametrize("kind", TEXTS)
WORDS = st.text(alphabet="fileslistfind    \n€👍-", min_size=1, max_size=40)


def written(text: ChatText, spellings: Spellings, begun: str, wanted: str) -> str:
    """What follows `begun` if a model, which may only choose tokens that fit, would like to have written `wanted`."""
    joint, left = seam(text, begun), wanted.encode()
    forced, pieces, said = joint.forced, Detokenizer(text, before=joint.read, known=joint.known), ""
    left = left[len(begun[: len(begun) - joint.known].encode()) :]
    left = b" " + left if forced.startswith(b" ") and not left.startswith(b" ") else left
    while left:
        every = spellings.fitting(forced) if forced else spellings.fitting(left)
        token = max(
            (one for one in every.tolist() if left.startswith(text.spelling(one)[1])),
            key=lambda one: len(text.spelling(one)[1]),
        )
        forced, left = spellings.after(forced, [token]), left[len(text.spelling(token)[1]) :]
        said += pieces.add([token])
    return said + pieces.finish()


@every
@given(wanted=WORDS, share=st.floats(0, 1))
def test_a_text_goes_on_at_the_character_where_it_broke_off(kind: str, wanted: str, share: float) -> None:
    wanted = f"list{wanted}"  # SentencePiece writes no space before a first word.
    begun = wanted[: 1 + int(share * (len(wanted) - 1))]
    assert written(TEXTS[kind], Spellings(TEXTS[kind], SIZES[kind]), begun, wanted) == wanted[len(begun) :]


@every
@given(begun=WORDS)
def test_only_whole_words_and_characters_are_read(kind: str, begun: str) -> None:
    joint = seam(TEXTS[kind], begun)
    assert f" {begun}".encode().endswith(joint.forced)
    assert "\ufffd" not in joint.forced.decode(errors="replace")
    spelt = b"".join(TEXTS[kind].spelling(token)[1] for token in joint.taken_back)
    assert spelt == joint.forced
    if joint.forced and joint.forced != begun.encode() and len(joint.taken_back) < MOST_TAKEN_BACK:
        assert joint.forced[:1].isspace()


def test_a_first_word_is_taken_back_whole() -> None:
    joint = seam(TEXTS["SentencePiece"], "fid")
    assert (joint.read, joint.forced, joint.known) == ([], b" fid", 3)


@every
def test_the_token_of_the_whole_word_may_come(kind: str) -> None:
    text = TEXTS[kind]
    joint = seam(text, "list fi")
    assert joint.forced == b" fi"
    whole = text.encode("list files")
    assert joint.read == whole[: len(joint.read)]
    assert whole[len(joint.read)] in Spellings(text, SIZES[kind]).fitting(joint.forced)


def test_no_special_token_spells_a_text() -> None:
    spellings = Spellings(TEXTS["bytes"], SIZES["bytes"])
    assert not {0, 1, 2, 3, 4} & {*spellings.fitting(b"<|end|>").tolist()}
