"""Text from tokens, in batches of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from models.text.chat_text import ChatText
from models.text.detokenizer import INCOMPLETE, LONGEST_WAIT, Detokenizer
from tests.support.tiny_text import tiny_text

TEXT = tiny_text()
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=30)


def batches(tokens: list[int], sizes: list[int]) -> list[list[int]]:
    found, at = [], 0
    while at < len(tokens):
        size = sizes[len(found) % len(sizes)]
        found.append(tokens[at : at + size])
        at += size
    return found


def spoken(pieces: Detokenizer, tokens: list[int], sizes: list[int]) -> list[str]:
    said = []
    for batch in batches(tokens, sizes):
        said.append(pieces.add(batch))
        if pieces.stopped:
            return said
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
    pieces = Detokenizer(TEXT)
    assert spoken(pieces, TEXT.encode("ab") + half, [1]) == ["a", "b", "", "", ""]
    pieces = Detokenizer(TEXT)
    said = spoken(pieces, half[:1] * (2 * LONGEST_WAIT) + TEXT.encode("ab"), [1])
    assert "".join(said).endswith("ab") and said[LONGEST_WAIT]


def test_words_keep_their_spaces_where_a_decoder_drops_the_first() -> None:
    vocabulary = {"<unk>": 0, "▁one": 1, "▁two": 2, "▁three": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    text = ChatText(tokenizer.to_str().encode(), "", [])
    assert text.decode([2]) == "two"
    assert spoken(Detokenizer(text), [1, 2, 3, 2], [1]) == ["one", " two", " three", " two", ""]
    assert spoken(Detokenizer(text, before=[1]), [2, 3], [1]) == [" two", " three", ""]
