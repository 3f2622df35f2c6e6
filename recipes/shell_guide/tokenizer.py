"""Train the byte-level BPE tokenizer, and give it the chat template and the marks of names.

python -m recipes.shell_guide.tokenizer --pages PAGES.jsonl --out DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from models.guide.names import MARKS
from recipes.shell_guide.conversations import ConversationSource
from recipes.shell_guide.phrasing import SYSTEM_PROMPT

VOCABULARY = 4096
SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
# Letters with their leading space, digits one by one, punctuation in runs of at most three. Commands are full of
# `--flags`, paths and quotes, and longer runs would glue unrelated symbols together.
SPLIT = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]{1,3}|\s+(?!\S)|\s+"

CHAT_TEMPLATE = (
    "{%- if not messages or messages[0]['role'] != 'system' -%}<|system|>" + SYSTEM_PROMPT + "<|end|>{%- endif -%}"
    "{%- for message in messages -%}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


def train(pages: Path, conversations: int = 60_000) -> PreTrainedTokenizerBase:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(ConversationSource(pages, seed=1).texts(conversations), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", model_max_length=2048
    )
    fast.chat_template = CHAT_TEMPLATE
    return with_marks(fast)


def with_marks(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The tokenizer with a token for each mark. These are not special tokens, because they occur in texts."""
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--pages", type=Path, help="tldr pages as JSON lines")
    source.add_argument("--old", type=Path, help="give the marks to this tokenizer instead, whose model is trained on")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    tokenizer = with_marks(AutoTokenizer.from_pretrained(arguments.old)) if arguments.old else train(arguments.pages)
    tokenizer.save_pretrained(arguments.out)
    sample = "Use `tar` to extract a gzip-compressed archive:\n\n```sh\ntar xzf archive.tar.gz\n```"
    print(len(tokenizer), "tokens;", tokenizer.tokenize(sample))


if __name__ == "__main__":
    main()
