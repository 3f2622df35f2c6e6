"""The recipe's data: what is cleaned, what is left out, what question and command share, what the loss counts."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from models.engines.onnx_engine import OnnxEngine
from models.files import TARGET_GRAPH
from models.packed import quantised
from models.tree import DraftTree
from recipes.shell_guide.base import SPECIAL, TEMPLATE, cut, kept_tokens
from recipes.shell_guide.conversations import EVALUATION, EVERYDAY, ConversationSource, evaluation_questions
from recipes.shell_guide.drafter import answered_lines
from recipes.shell_guide.draw import ORDINARY, draw_shard
from recipes.shell_guide.drawn import Drawn, encode, read_drawn
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.graph import write_graph
from recipes.shell_guide.pages import read_pages
from recipes.shell_guide.quantiser import PackedLinear, parts, quantise, quantise_layers
from recipes.shell_guide.slots import SLOT
from recipes.shell_guide.train import batch_numbers, batch_of, summed_loss
from tests.support.guide_pages import write_pages

pytestmark = pytest.mark.training

HELD_OUT = Path(__file__).parents[1] / "data/heldout_pages.jsonl"
DRAWS = 300


def page(name: str, *examples: tuple[str, str], translations: int = 3, alias: bool = False) -> str:
    about = {"platform": "common", "name": name, "alias": alias, "translations": translations}
    listed = [{"task": task, "command": command} for task, command in examples]
    return json.dumps(about | {"description": f"The {name} of tests.", "examples": listed})


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """Four pages of our own, one of them an alias, and all held-out ones."""
    lines = [
        page("frobnicate", ("[F]robnicate a file", "frobnicate file"), ("Start/Stop a service", "frob start|stop it")),
        page("grep-ish", ("Search for a `pattern` (recursively)", "grep-ish --all pattern"), translations=20),
        page("lone", ("Run it:", "lone")),
        page("other-name", ("Show the page of frobnicate", "tldr frobnicate"), alias=True),
    ]
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    path.write_text("\n".join(lines) + "\n" + HELD_OUT.read_text(encoding="utf-8"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def source(pages) -> ConversationSource:
    return ConversationSource(pages, seed=5)


@pytest.fixture(scope="module")
def tokenizer(source) -> PreTrainedTokenizerFast:
    """Byte pairs of the questions and answers, in the form of the base's tokenizer and with its template."""
    whole = Tokenizer(models.BPE())
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=[*SPECIAL, "<unused>"], initial_alphabet=alphabet, show_progress=False
    )
    whole.train_from_iterator(source.texts(DRAWS), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="<|endoftext|>", eos_token="<|im_end|>")
    fast.chat_template = TEMPLATE
    return fast


def test_the_held_out_file_is_what_the_hash_holds_out_and_never_drawn_nor_are_aliases(pages, source):
    held_out = {(p.platform, p.name) for p in read_pages(pages) if p.held_out}
    listed = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    assert held_out == {(p["platform"], p["name"]) for p in listed} and len(held_out) > 100
    assert {p.name for p in source.pages} == {"frobnicate", "grep-ish", "lone"}
    only_pages = ConversationSource(pages, seed=5, mix=(0, 1, 1, 1, 0))
    answers = [answer for index in range(DRAWS) for _, answer in only_pages.draw(index)]
    told = {block.split("\n```")[0] for answer in answers for block in answer.split("```sh\n")[1:]}
    assert told == {"frobnicate file", "frob start it", "frob stop it", "grep-ish --all pattern", "lone"}


def test_no_wording_makes_a_question_of_the_evaluation(tmp_path):
    path = tmp_path / "pages.jsonl"
    path.write_text(page("ps", ("Show all running processes", "ps aux")))
    assert normalise("show all running processes") in evaluation_questions()
    tempted = ConversationSource(path, seed=5, mix=(0, 1, 0, 0, 0))
    drawn = [normalise(tempted.draw(index)[0][0]) for index in range(DRAWS)]
    assert "how do i show all running processes" in drawn
    assert not set(drawn) & evaluation_questions()


# ---- what the target learns from -------------------------------------------------------------------------------------


def messages_of(source, index) -> list[tuple[str, str]]:
    """A conversation with a system message before each question."""
    return [
        message
        for number, (question, answer) in enumerate(source.draw(index))
        for message in (("system", f"Hint {number}."), ("user", question), ("assistant", answer))
    ]


@pytest.fixture(scope="module")
def drawn(source, tokenizer, tmp_path_factory) -> Drawn:
    folder = tmp_path_factory.mktemp("drawn")

    class Messages:
        def draw(self, index):
            return messages_of(source, index)

    for number in range(2):
        draw_shard(Messages(), tokenizer, [[("user", "hi"), ("assistant", "Hello.")]], folder, number, size=60)
    return read_drawn(folder)


def test_the_loss_counts_answers_and_nothing_else(source, tokenizer):
    for index in range(30):
        messages = messages_of(source, index)[index % 2 :]  # Every second one begins without a system message.
        ids, learn = encode(tokenizer, messages)
        assert tokenizer.decode(ids) == "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
        groups = itertools.groupby(zip(ids, learn), key=lambda pair: pair[1])
        spans = [tokenizer.decode([token for token, _ in group]) for counted, group in groups if counted]
        assert spans == [f"{text}<|im_end|>" for role, text in messages if role == "assistant"]


def test_what_was_drawn_is_read_again_with_ordinary_talk_in_its_place(source, tokenizer, drawn):
    assert len(drawn.ends) == 120
    for index in (0, 7, 60, 119):
        ordinary = index % ORDINARY == 0
        wanted = [("user", "hi"), ("assistant", "Hello.")] if ordinary else messages_of(source, index)
        ids, learn = drawn.conversation(index)
        assert (ids.tolist(), learn.tolist()) == encode(tokenizer, wanted)


def test_a_drafter_learns_from_each_drawn_answer_to_its_end(tokenizer, drawn):
    assert len(answered_lines(drawn, 2)) == 2
    for number, line in enumerate(answered_lines(drawn, len(drawn.ends))):
        (ids, learn), answered = drawn.conversation(number), json.loads(line)
        assert answered["ids"] == ids.tolist()
        assert [at for begin, end in answered["learn"] for at in range(begin, end)] == np.flatnonzero(learn).tolist()
        assert {ids[end - 1] for _, end in answered["learn"]} == {tokenizer.eos_token_id}


def test_batches_hold_every_conversation_once_before_any_again_and_are_no_larger_than_asked(drawn):
    numbers, seen = batch_numbers(drawn, 2048, 512, seed=1), list[int]()
    while len(seen) < len(drawn.ends):
        some = next(numbers)
        assert batch_of(drawn, some, 512, 0).ids.numel() <= 2048
        seen += some.tolist()
    assert sorted(seen) == list(range(len(drawn.ends)))
    first, again = (list(itertools.islice(batch_numbers(drawn, 2048, 512, seed=1), 5)) for _ in range(2))
    assert all((one == other).all() for one, other in zip(first, again)), "a killed run goes on with the same ones"


@pytest.fixture(scope="module")
def model(tokenizer) -> LlamaForCausalLM:
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 16}
    config = LlamaConfig(
        vocab_size=len(tokenizer), num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, **shape,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval()


def test_the_loss_of_a_batch_is_that_of_its_conversations_alone(drawn, model):
    some = np.array([3, 11, 4])
    together = summed_loss(model, batch_of(drawn, some, 512, 0))
    alone = sum(summed_loss(model, batch_of(drawn, some[[at]], 512, 0)) for at in range(3))
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-3)


def test_training_computes_as_the_graph_does(model, tokenizer, tmp_path):
    for part in (tokenizer, model):
        part.save_pretrained(tmp_path)
    write_graph(tmp_path, tmp_path / TARGET_GRAPH, int8=True)
    engine = OnnxEngine(tmp_path / TARGET_GRAPH)
    ids = tokenizer("Use `tar` to extract an archive:")["input_ids"]
    context = engine.context()
    context.assign(0, ids[:1])
    graph = engine.verify(context, DraftTree.chain(ids[1:]))
    exact = model(input_ids=torch.tensor([ids])).logits[0]
    learning = copy.deepcopy(model)
    quantise(learning)
    learnt = learning(input_ids=torch.tensor([ids])).logits[0]
    torch.testing.assert_close(learnt, torch.from_numpy(graph), rtol=1e-3, atol=1e-3)
    assert (learnt - exact).abs().max() > 0.01, "what is compared is quantised"
    frozen = copy.deepcopy(model)
    quantise(frozen)
    quantise_layers(frozen, quantised({name: weight.detach().numpy() for name, weight in model.named_parameters()}, ()))
    assert torch.equal(frozen(input_ids=torch.tensor([ids])).logits[0], learnt)
    learnt.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in learning.parameters())


def test_whole_numbers_give_the_gradients_of_the_matrix_that_they_stand_for():
    torch.manual_seed(0)
    layer = PackedLinear(64, 96, bias=False)
    exact = nn.Linear(64, 96, bias=False)
    exact.weight.data = parts(layer.weight.detach()).product()
    rows = torch.randn(40, 64)
    ends = []
    for one in (layer, exact):
        given = rows.clone().requires_grad_()
        one(given).square().sum().backward()
        ends.append((given.grad, one.weight.grad))
    for quick, slow in zip(*ends):
        assert (quick - slow).norm() < 0.02 * slow.norm()


def test_a_cut_vocabulary_keeps_what_is_used_its_parts_and_every_byte(tokenizer, source):
    whole = json.loads(tokenizer.backend_tokenizer.to_str())
    uses = Counter(token for text in source.texts(40) for token in tokenizer.tokenize(text))
    kept = kept_tokens(whole, uses, 400)
    assert len(kept) == 400 and "<unused>" not in kept and {*SPECIAL, *pre_tokenizers.ByteLevel.alphabet()} <= {*kept}
    smaller = Tokenizer.from_str(json.dumps(cut(whole, kept)))
    for text in ("Use `find` to list files.", "naïve 🙂 \x07", next(iter(source.texts(1)))):
        assert smaller.decode(smaller.encode(text).ids) == text
    often = max((token for token in uses if len(token) > 3), key=lambda token: uses[token])
    assert often in kept and len(smaller.encode(often.replace("Ġ", " ")).ids) == 1
    assert [smaller.token_to_id(token) for token in kept] == list(range(400))


# ---- the index of pages ----------------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = write_pages(tmp_path / "one.db"), write_pages(tmp_path / "other.db")
    assert one.read_bytes() == other.read_bytes()
    assert write_pages(one).read_bytes() == other.read_bytes(), "a file that is there is replaced"


# ---- questions of the measures are in none of the recipe's files, however a slot is filled ---------------------------


NEVER = [path for path in EVALUATION if not path.stem.startswith(("everyday", "retrieval"))]
"""Files of which no question may stand in the recipe. Some of the everyday ones and of the search's do: they are left
out when it draws, and of the index."""


def last_questions(path) -> dict[str, str]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row["turns"][-1] if "turns" in row else row["prompt"] for row in rows}


def words(text: str) -> str:
    """The words of a question in any script, in small letters."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def marks(text: str) -> str:
    """A question in small letters that keeps the marks of names, addresses and slots."""
    return " ".join(re.sub(r"[^\w\s{}.:/@~*-]", " ", text.casefold()).split()).rstrip(".")


def shape(question: str) -> str:
    """A pattern of what a question becomes with its slots filled, each by one word with the slot's ending."""
    parts = re.split(SLOT, marks(question))
    slots = [r"\S+" + re.escape("." + slot.partition(".")[2] if "." in slot else "") for slot in parts[1::2]]
    return "".join(re.escape(part) + slot for part, slot in zip(parts[::2], [*slots, ""]))


def learnt() -> Iterator[str]:
    for path in sorted(EVERYDAY.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            need = json.loads(line)
            for part in (need, *need.get("followups", [])):
                yield from part["questions"]


@pytest.fixture(scope="module")
def questions() -> set[str]:
    found = set(learnt())
    assert len(found) > 15_000
    return found


@pytest.fixture(scope="module")
def shapes(questions: set[str]) -> re.Pattern[str]:
    templates = [shape(question) for question in questions if SLOT.search(question)]
    assert len(templates) > 1_000
    return re.compile("|".join(f"(?:{template})" for template in templates))


@pytest.mark.parametrize("path", NEVER, ids=lambda path: path.stem)
def test_the_recipe_has_none_of_the_questions_and_no_value_makes_one(path, questions, shapes) -> None:
    known, asked = {words(question) for question in questions}, last_questions(path)
    assert [name for name, one in asked.items() if words(one) in known or shapes.fullmatch(marks(one))] == []


def test_a_question_with_its_slot_filled_is_seen(shapes: re.Pattern[str], questions: set[str]) -> None:
    asked = [question for question in sorted(questions) if SLOT.findall(question) == ["file"]]
    assert len(asked) > 100
    assert all(shapes.fullmatch(marks(one.replace("{file}", "notes.txt"))) for one in asked[:100])
