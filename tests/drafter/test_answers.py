"""Training data is what the target says if it is asked as the app asks, in any batch."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from drafter.training.answers import (
    ANSWERS,
    FEWEST,
    SHARE,
    AnsweredConversation,
    draft_vocabulary,
    generate_answers,
    hold_out,
    question_alone,
    read_answers,
)
from tests.support.tiny_text import END

QUESTIONS = [
    ["list files"],
    ["unpack a tar archive", "and delete it?"],
    ["show disk usage of all the large folders"],
    ["find"],
    ["delete a file", "how do I list them", "all?"],
]
NEW_TOKENS = 24


@pytest.fixture(scope="module")
def tokenizer(tiny_pair):
    return AutoTokenizer.from_pretrained(tiny_pair / "target")


@pytest.fixture(scope="module")
def target(tiny_pair, tokenizer):
    """The tiny target, taught to end its answers."""
    model = AutoModelForCausalLM.from_pretrained(tiny_pair / "target").eval()
    # Where it said one of these tokens, it now says that it is done.
    said = [greedy(model, asked(tokenizer, [{"role": "user", "content": QUESTIONS[i][0]}]))[5] for i in (1, 4)]
    with torch.no_grad():
        model.lm_head.weight[END] = model.lm_head.weight[list(set(said))].sum(0) * 1.2
    return model


def asked(tokenizer, messages) -> list[int]:
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]


def greedy(model, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False)
    return out[0, len(prompt) :].tolist()


def answers(target, tokenizer, path, **options):
    generate_answers(target, tokenizer, QUESTIONS, path, batch=2, new_tokens=NEW_TOKENS, **options)
    return read_answers(path)


def test_a_batch_answers_as_one_by_one_would(target, tokenizer, tmp_path):
    conversations = answers(target, tokenizer, tmp_path / "answers.jsonl", temperatures=(0.0,))
    assert [len(conversation.learn) for conversation in conversations] == [len(turns) for turns in QUESTIONS]
    for conversation in conversations:
        for begin, end in conversation.learn:
            assert conversation.ids[begin:end] == greedy(target, conversation.ids[:begin])
        assert conversation.ids[conversation.learn[-1][1] :] == []
    ends = {conversation.ids[end - 1] for conversation in conversations for _, end in conversation.learn}
    assert END in ends


def with_hints(questions):
    """What a prompt recipe might put before an answer."""
    return [("system", f"Of {len(questions)} questions, this is the last!"), ("user", questions[-1])]


@pytest.mark.parametrize(
    ("asked_as", "new_tokens"), [(question_alone, NEW_TOKENS), (with_hints, NEW_TOKENS), (question_alone, 2)]
)
def test_every_turn_is_asked_as_the_template_asks_it(target, tokenizer, tmp_path, new_tokens, asked_as):
    path, followed = tmp_path / "answers.jsonl", []
    generate_answers(target, tokenizer, QUESTIONS, path, batch=2, new_tokens=new_tokens, asked_as=asked_as)
    for turns, conversation in zip(QUESTIONS, read_answers(path), strict=True):
        messages = []
        for number, (question, (begin, end)) in enumerate(zip(turns, conversation.learn, strict=True), 1):
            messages += [{"role": role, "content": text} for role, text in asked_as(turns[:number])]
            if number == 1:
                assert conversation.ids[:begin] == asked(tokenizer, messages)
            rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            assert tokenizer.decode(conversation.ids[:begin]) == rendered
            ended = conversation.ids[end - 1] == END
            messages.append({"role": "assistant", "content": tokenizer.decode(conversation.ids[begin : end - ended])})
            if question != turns[-1]:
                followed.append(ended)
    assert len(followed) == 3
    assert asked_as is with_hints or (new_tokens == NEW_TOKENS) in followed


def test_a_draft_vocabulary_is_what_answers_use_most():
    data = [AnsweredConversation([9, 9, 9, 9, 4, 4, 4, 2], [(4, 8)]), AnsweredConversation([9, 7, 7, 3], [(1, 4)])]
    assert draft_vocabulary(data, 2, (), 100) == ((4, 7), 5 / 7)
    assert draft_vocabulary(data, 1, (8, 3), 100) == ((3, 4, 8), 4 / 7)
    assert draft_vocabulary(data, 99, (), 100) == ((2, 3, 4, 7), 1.0)


# ---- questions that are set aside ------------------------------------------------------------------------------------


def conversations(count: int) -> list[list[str]]:
    return [[f"question {number}", "and then?"] for number in range(count)]


def test_none_of_few_is_set_aside_nor_of_what_may_have_been_learnt_from_nor_what_is_asked_again(tmp_path):
    asked, more = conversations(FEWEST * SHARE - 1), conversations(500)
    assert hold_out(asked, tmp_path) == (asked, [])
    (tmp_path / ANSWERS).write_text("")
    assert hold_out(more, tmp_path) == (more, [])
    again = ["something else", "  QUESTION  0 "]
    learnt, held = hold_out([*conversations(100), again], tmp_path / "again")
    assert len(held) == 10 and "question 0" not in held and again in learnt


def test_what_was_set_aside_stays_when_there_are_more_questions(tmp_path):
    first, held = hold_out(conversations(100), tmp_path)
    (tmp_path / ANSWERS).write_text("")
    learnt, still = hold_out([*conversations(300), [held[3].upper()], ["new", f" {held[5]}"]], tmp_path)
    assert still == held
    assert learnt[: len(first)] == first and len(learnt) == 300 - len(held)
