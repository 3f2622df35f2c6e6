"""Vectors find an example in words that its index has not, and forget the wording that asks the question itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertConfig, BertModel, BertTokenizerFast

from app.config import BUNDLED_DRAFTER
from models.guide.pages import FILE, Pages
from models.guide.search import platforms_of, search
from models.guide.vectors import UNKNOWN, nameless
from recipes.shell_guide.index import all_rows
from recipes.shell_guide.vectors import Table, pieces_of, start, train, wordings_of, write
from tests.support.guide_pages import NEEDS, PAGES, write_pages

SYNONYM = "gobbling"
"""In no wording of the index."""
OTHER_WORDS = {
    "undo my latest commit but keep the work": "git reset --soft HEAD~1",
    "make photo.jpg black and white": "magick photo.jpg -colorspace Gray output.png",
}
"""Questions that find something else by their terms alone."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence encoder with chance weights, for which `SYNONYM` means the same as "eating"."""
    folder = tmp_path_factory.mktemp("encoder")
    said = " ".join(f"{row.task} {' '.join(row.wordings)}" for row in all_rows(PAGES, NEEDS, [])).lower()
    words = sorted({word for word, _ in BertPreTokenizer().pre_tokenize_str(said)} | {"archive", "file", "tar", "gz"})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]", *words, SYNONYM, "日"]))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **shape))
    vectors = model.get_input_embeddings().weight
    with torch.no_grad():
        vectors[tokenizer.convert_tokens_to_ids(SYNONYM)] = vectors[tokenizer.convert_tokens_to_ids("eating")]
    model.save_pretrained(folder)
    return folder


def test_an_example_is_found_in_other_words_and_no_question_finds_itself(encoder: Path, tmp_path: Path) -> None:
    path = write_pages(tmp_path / FILE)
    asked, platforms = "what is gobbling my disk", platforms_of("linux")
    plain = Pages.open(path)
    assert plain.vectors is None
    before = search(plain, asked, platforms)[0].score
    pieces, encoded = pieces_of(encoder)
    wordings = wordings_of(all_rows(PAGES, NEEDS, []), plain, frozenset(pieces))
    assert "日" not in pieces and encoded.shape == (len(pieces), 32)
    table = Table(pieces, start(pieces, encoded, {text for one in wordings for text in one}, 8))
    train(table, wordings, 20, pairs=16)
    write(path, pieces, table, wordings)
    pages = Pages.open(path)
    assert pages.vectors is not None
    with torch.no_grad():
        exact = [float((table.of(texts) @ table.of([asked])[0]).max()) for texts in wordings]
    near = pages.vectors.similarities(pages.vectors.vector(asked))
    assert np.allclose(near, exact, atol=0.03), "eight bits are enough"
    assert search(pages, asked, platforms)[0].example.command == "du -h | sort -h"
    assert search(pages, asked, platforms)[0].score > before

    itself = "what is eating my disk"
    place = next(number for number, texts in enumerate(wordings) if itself in texts)
    own = pages.vectors.vector(itself)
    with torch.no_grad():
        others = float((table.of([text for text in wordings[place] if text != itself]) @ table.of([itself])[0]).max())
    left = pages.vectors.similarities(own, pages.wordings(itself))[place]
    assert left == pytest.approx(others, abs=0.03) and left < pages.vectors.similarities(own)[place]


def test_names_say_of_what_kind_they_are_and_the_shipped_index_knows_other_words() -> None:
    pages = Pages.open(BUNDLED_DRAFTER / FILE)
    text = "unpack my-photos.tar.gz into /srv/data"
    assert nameless(text, pages.named(text), ()).split() == ["unpack", "archive", "tar", "gz", "into", "folder"]
    for question, command in OTHER_WORDS.items():
        assert search(pages, question, platforms_of("linux"))[0].shown.command == command
