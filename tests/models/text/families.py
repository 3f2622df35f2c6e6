"""Chat templates in the forms of public model families, each written anew and short.

They use the same variables, functions, filters, blocks and white space. None is a copy of a published template. They
lie in tests/data/templates; their special tokens are here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.serving import REPOSITORY

TEMPLATES = REPOSITORY / "tests" / "data" / "templates"


@dataclass(frozen=True)
class Family:
    """`special`: texts of the special tokens. `swallow`: those that swallow the white space after them."""

    file: str
    special: tuple[str, ...]
    bos: str | None = None
    eos: str | None = None
    swallow: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """Added tokens that are not special."""

    @property
    def template(self) -> str:
        return (TEMPLATES / f"{self.file}.jinja").read_text(encoding="utf-8")


LLAMA_3 = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
GEMMA = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
MISTRAL = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]")
PHI_3 = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
COMMAND_R = ("START_OF_TURN_TOKEN", "END_OF_TURN_TOKEN", "SYSTEM_TOKEN", "USER_TOKEN", "CHATBOT_TOKEN")
GPT_OSS = ("startoftext", "endoftext", "return", "start", "message", "channel", "end")
DIALECT = "everything else of the dialect"
FAMILIES = {
    "ChatML": Family("chatml", ("<|im_start|>", "<|im_end|>"), eos="<|im_end|>"),
    "Gemma 3": Family("gemma-3", GEMMA, bos="<bos>", eos="<eos>"),
    "Llama 2": Family("llama-2", ("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>"),
    "Llama 3.1 to 3.3": Family("llama-3-1-to-3-3", LLAMA_3, bos="<|begin_of_text|>", eos="<|eot_id|>"),
    "Mistral": Family("mistral", MISTRAL, bos="<s>", eos="</s>"),
    "Qwen 3": Family(
        "qwen-3", ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), eos="<|im_end|>", extra=("<think>", "</think>")
    ),
    "gpt-oss": Family("gpt-oss", tuple(f"<|{name}|>" for name in GPT_OSS), bos="<|startoftext|>", eos="<|return|>"),
    "Phi 3": Family("phi-3", ("<s>", "<|endoftext|>", *PHI_3), bos="<s>", eos="<|endoftext|>", swallow=PHI_3),
    "DeepSeek": Family(
        "deepseek",
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        bos="<｜begin▁of▁sentence｜>",
        eos="<｜end▁of▁sentence｜>",
        extra=("<think>", "</think>"),
    ),
    "Command R": Family(
        "command-r",
        ("<BOS_TOKEN>", "<EOS_TOKEN>", *(f"<|{name}|>" for name in COMMAND_R)),
        bos="<BOS_TOKEN>",
        eos="<|END_OF_TURN_TOKEN|>",
    ),
    "SmolLM 3": Family("smollm-3", ("<|im_start|>", "<|im_end|>"), eos="<|im_end|>", extra=("<think>", "</think>")),
    "Zephyr": Family("zephyr", ("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>"),
    "GLM": Family(
        "glm", ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"), eos="<|endoftext|>"
    ),
    DIALECT: Family("dialect", ("<unk>", "<s>", "</s>", "<pad>", "<a>"), bos="<s>", eos="</s>"),
}
