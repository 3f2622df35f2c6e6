"""Tokens become text as they come, and a text goes on at the character where it broke off."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from models.text.chat_text import ChatText
from models.text.detokenizer import INCOMPLETE, LONGEST_WAIT, Detokenizer
from models.text.seam import Spellings, seam
from tests.support.tiny_text import tiny_text

TEXT = tiny_text()
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=30)


def spoken(pieces: Detokenizer, tokens: list[int], sizes: list[int]) -> list[str]:
    """What is said if tokens come in batches of these sizes."""
    said, at = list[str](), 0
    while at < len(tokens):
        size = sizes[len(said) % len(sizes)]
        said.append(pieces.add(tokens[at : at + size]))
        if pieces.stopped:
            return said
        at += size
    return [*said, pieces.finish()]


@given(st.text().filter(lambda text: INCOMPLETE not in text), cuts)
def test_pieces_add_up_to_the_text_and_none_is_broken(text: str, sizes: list[int]) -> None:
    said = spoken(Detokenizer(TEXT), TEXT.encode(text), sizes)
    assert "".join(said) == text
    assert not any(INCOMPLETE in piece for piece in said)


@given(st.text(alphabet="ab €", min_size=1, max_size=40), st.text(alphabet="ab €", min_size=1, max_size=4), cuts)
def test_nothing_of_a_stop_string_is_shown(text: str, stop: str, sizes: list[int]) -> None:
    pieces = Detokenizer(TEXT, [stop])
    assert "".join(spoken(pieces, TEXT.encode(text), sizes)) == text.partition(stop)[0]
    assert pieces.stopped == (stop in text)


@given(st.text(alphabet="ab €", max_size=30), st.text(alphabet="ab €", max_size=30), cuts)
def test_an_answer_that_is_gone_on_with_gives_only_the_rest(begun: str, rest: str, sizes: list[int]) -> None:
    pieces = Detokenizer(TEXT, before=TEXT.encode(begun))
    assert "".join(spoken(pieces, TEXT.encode(rest), sizes)) == rest


def test_a_character_that_never_ends_is_left_out_but_holds_nothing_up() -> None:
    half = TEXT.encode("€")[:2]
    assert spoken(Detokenizer(TEXT), TEXT.encode("ab") + half, [1]) == ["a", "b", "", "", ""]
    said = spoken(Detokenizer(TEXT), half[:1] * (2 * LONGEST_WAIT) + TEXT.encode("ab"), [1])
    assert "".join(said).endswith("ab") and said[LONGEST_WAIT]


def test_tokens_without_text_are_not_decoded_again_and_again() -> None:
    class Counting(ChatText):
        decoded = 0

        def decode(self, tokens: Sequence[int]) -> str:
            self.decoded += len(tokens)
            return super().decode(tokens)

    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "one": 1}, unk_token="<unk>"))
    tokenizer.add_special_tokens(["<turn>"])
    text = Counting(tokenizer.to_str().encode(), "", [])
    assert "".join(spoken(Detokenizer(text), [1, *[2] * 1000, 1], [1])) == text.decode([1, 2, 1])
    assert text.decoded < 5000


def test_words_keep_their_spaces_where_a_decoder_drops_the_first() -> None:
    vocabulary = {"<unk>": 0, "▁one": 1, "▁two": 2, "▁three": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    text = ChatText(tokenizer.to_str().encode(), "", [])
    assert text.decode([2]) == "two"
    assert spoken(Detokenizer(text), [1, 2, 3, 2], [1]) == ["one", " two", " three", " two", ""]
    assert spoken(Detokenizer(text, before=[1]), [2, 3], [1]) == [" two", " three", ""]


# ---- a seam ----------------------------------------------------------------------------------------------------------


def sentence_piece() -> ChatText:
    """A tokenizer like SentencePiece's: a sign for a space, bytes for what it does not know, no first space."""
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
        every = (spellings.fitting(forced) if forced else spellings.fitting(left)).tolist()
        fits = [one for one in every if left.startswith(text.spelling(one)[1])]
        token = max(fits, key=lambda one: len(text.spelling(one)[1]))
        forced, left = spellings.after(forced, [token]), left[len(text.spelling(token)[1]) :]
        said += pieces.add([token])
    return said + pieces.finish()


@every
@given(wanted=WORDS, share=st.floats(0, 1))
def test_a_text_goes_on_at_the_character_where_it_broke_off(kind: str, wanted: str, share: float) -> None:
    wanted = f"list{wanted}"  # SentencePiece writes no space before a first word.
    begun = wanted[: 1 + int(share * (len(wanted) - 1))]
    assert written(TEXTS[kind], Spellings(TEXTS[kind], SIZES[kind]), begun, wanted) == wanted[len(begun) :]


def test_no_special_token_spells_a_text() -> None:
    spellings = Spellings(TEXTS["bytes"], SIZES["bytes"])
    assert not {0, 1, 2, 3, 4} & {*spellings.fitting(b"<|end|>").tolist()}
