"""Reads requests for completions: they become choices to write, or are refused with the name of the field at fault.

A field that would change the answer but is not supported is refused, never ignored. A field that changes nothing is
ignored.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from models.text.call_reader import CallReader
from models.text.chat_text import ChatText
from models.text.detokenizer import Detokenizer
from models.text.seam import Seam, Spellings, seam, unhealed
from models.text.template import TemplateFailed
from remote.openai.request_fields import (
    CHAT_ALONE,
    FUNCTIONS,
    TEXT_ALONE,
    AskedChat,
    FieldRefused,
    offers_tools,
    prepared,
    read_request,
    refuse_fields,
    refuse_tools,
    role_of,
    text_of,
    text_said,
    unsupported,
)
from remote.openai.schema import CompletionRequest, FinishReason, Prediction, ResponseFormat, TextRequest
from remote.protocol import Card, ErrorCode, Sampling
from remote.verifier.completions.tool_requests import ToolRequest, read_tools
from remote.verifier.refusals import RoundRefused
from remote.verifier.sessions.answer_options import (
    AnswerOptions,
    Forced,
    LogitBias,
    LogitsProcessor,
    Penalties,
    PredictedText,
)
from remote.verifier.sessions.grammar import ANY_OBJECT, Grammar, Grammars, NoGrammar

MOST_CHOICES = 64
"""Choices of one request: its prompts, each `n` times."""
TEXT_TOKENS = 16
"""Most tokens of a plain text if the request names no number: OpenAI's default."""
TOKEN_ID = re.compile(r"[0-9]{1,10}")
NO_SEAM = unhealed([])
PROBE = "a"
"""A beginning that shows what a template writes before an answer. Some templates cut white space off the real one."""
Request = TypeVar("Request", bound=CompletionRequest)
CHAT, TEXT = prepared(AskedChat), prepared(TextRequest)


class CompletionRefused(RoundRefused):
    """A request that this verifier cannot fulfil.

    `reason`: the error's code in OpenAI's API, if it differs from ours.
    """

    def __init__(
        self, message: str, code: ErrorCode = "bad_request", *, param: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.param, self.reason = code, param, reason


@dataclass(eq=False)
class ChoiceState:
    """One answer of a request, and its progress."""

    index: int
    prompt: list[int]
    most: int
    """Tokens."""
    forced: int
    """Bytes of its given beginning that its first tokens spell again."""
    sampling: Sampling
    options: AnswerOptions
    pieces: Detokenizer
    echo: str = ""
    """Text to put in front of the answer."""
    again: bool = False
    """Whether another choice has the same prompt, and counts its tokens."""
    tokens: int = 0
    reason: FinishReason = "length"
    calls: CallReader | None = None
    """Reads its tool calls, or None if it may make none."""
    marker: int | None = None
    """The special token with which its calls begin, if it is one."""


class CallForms:
    """How the answers of one request call tools."""

    def __init__(self, request: ToolRequest, text: ChatText) -> None:
        self.request, self.marker = request, text.special(request.form.opening.rstrip())


@dataclass(frozen=True, eq=False)
class CompletionCall:
    """A request that can be answered."""

    choices: Sequence[ChoiceState]
    stream: bool
    counts: bool
    """Whether a stream ends with the token counts."""
    prompt_tokens: int


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turns `FieldRefused` into `CompletionRefused`, and what comes of a body that is nested very deeply."""
    try:
        yield
    except RecursionError:
        raise CompletionRefused("The request is nested too deeply. Make it flatter.") from None
    except FieldRefused as error:
        raise CompletionRefused(str(error), param=error.param, reason=error.reason) from None


class RequestReader:
    """Reads requests for one target. Any thread may read. `text`: the target's tokenizer and chat template."""

    def __init__(self, card: Card, text: ChatText) -> None:
        self._card, self._text = card, text
        self._grammars = Grammars(text, card.vocabulary, card.stop_tokens)

    @_refusals()
    def chat(self, body: bytes) -> CompletionCall:
        """Read a request for chat. Raises `CompletionRefused`."""
        given, request = self._read(body, CHAT)
        refuse_fields(given, TEXT_ALONE, "it is a field of plain text, and not of chat")
        if not offers_tools(given):
            refuse_tools(given)
        if not self._card.chat_template:
            raise FieldRefused(f"{self._card.target} has no chat template, so it takes no messages.")
        if request.top_logprobs and not request.logprobs:
            raise FieldRefused("top_logprobs needs logprobs: true.", "logprobs")
        if offers_tools(given):
            return self._chat_with_tools(given, request)
        messages = [(str(role_of(message)), text_said(message)) for message in request.messages]
        begun = _begun(request, messages)
        if not self._text.takes_system:
            messages = _without_system(messages)
        try:
            prompt, joint = self._continued(messages, begun) if begun else (self._text.render(messages), NO_SEAM)
        except TemplateFailed as error:
            raise FieldRefused(str(error), "messages") from None
        top, most = self._limits(request)
        follows = [*joint.taken_back, *self._predicted(request.prediction)]
        predicted = PredictedText(follows, len(joint.taken_back)) if follows else None
        wanted = self._schema(request.response_format)
        if begun and wanted is not None:
            raise unsupported("response_format", "a continued answer has begun without its grammar")

        def options() -> AnswerOptions:
            grammar = None if wanted is None else self._grammar(wanted)
            processors = self._processors(request, [*joint.read, *joint.taken_back])
            if joint.forced:
                processors.append(Forced(self._spellings, joint.forced))
            return AnswerOptions(processors, top, copy(predicted), grammar)

        return self._call(request, [prompt], most, options, joint)

    def _limits(self, request: AskedChat) -> tuple[int | None, int]:
        """How many log-probabilities are reported, and how many tokens are written."""
        top = (request.top_logprobs or 0) if request.logprobs else None
        return top, request.max_completion_tokens or request.max_tokens or self._card.limits.max_tokens

    def _chat_with_tools(self, given: Mapping[str, Any], request: AskedChat) -> CompletionCall:
        refuse_fields(given, FUNCTIONS, "it has been replaced by tools", "Send tools instead.")
        wanted = read_tools(request, self._text, self._card.target)
        if self._schema(request.response_format) is not None:
            raise unsupported("response_format", "together with tools it would exclude their calls")
        try:
            prompt = self._text.render_tools(wanted.messages, wanted.tools or None)
        except TemplateFailed as error:
            raise FieldRefused(str(error), "messages") from None
        schema, forms = wanted.schema, CallForms(wanted, self._text)
        if schema is not None:
            prompt = [*prompt, *self._text.opening(wanted.form)]
        top, most = self._limits(request)
        follows = self._predicted(request.prediction)

        def options() -> AnswerOptions:
            grammar = None if schema is None else self._grammar(schema, "tool_choice")
            predicted = PredictedText(follows) if follows else None
            return AnswerOptions(self._processors(request, ()), top, predicted, grammar)

        return self._call(request, [prompt], most, options, NO_SEAM, forms if wanted.tools else None)

    def _continued(self, messages: Sequence[tuple[str, str]], begun: str) -> tuple[list[int], Seam]:
        """The prompt for the rest of an answer, and where it continues. Raises `TemplateFailed`."""
        probe = self._text.encode(PROBE)
        opened = self._text.render_begun([*messages, ("assistant", PROBE)])
        if opened[len(opened) - len(probe) :] == probe:
            joint = seam(self._text, begun)
            return [*opened[: len(opened) - len(probe)], *joint.read], joint
        return self._text.render_begun([*messages, ("assistant", begun)]), unhealed(self._text.encode(begun))

    @_refusals()
    def text(self, body: bytes) -> CompletionCall:
        """Read a request for plain text. Raises `CompletionRefused`."""
        given, request = self._read(body, TEXT)
        refuse_fields(given, CHAT_ALONE, "it is a field of chat, not of plain text")
        refuse_tools(given)
        if given.get("best_of") not in (None, 1) and given["best_of"] != request.n:
            raise unsupported("best_of", "this server does not choose among answers")
        if request.echo and request.logprobs is not None:
            raise unsupported("echo", "with logprobs: the prompt's own log-probabilities are not known")
        prompts = self._prompts(request.prompt)
        most = request.max_tokens or TEXT_TOKENS
        return self._call(
            request, prompts, most, lambda: AnswerOptions(self._processors(request, ()), request.logprobs), NO_SEAM
        )

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self._text, self._card.vocabulary)

    def check_model(self, name: str) -> None:
        """Raise `CompletionRefused` if this is another model's name."""
        if name != self._card.target:
            told = f"There is no model {name!r} here; ask for {self._card.target!r}."
            raise CompletionRefused(told, "not_found", param="model", reason="model_not_found")

    def _read(self, body: bytes, kind: type[Request]) -> tuple[dict[str, Any], Request]:
        """All fields of a request, and the typed ones."""
        given, request = read_request(body, kind)
        if request.model:
            self.check_model(request.model)
        return given, request

    def _call(
        self,
        request: CompletionRequest,
        prompts: Sequence[list[int]],
        most: int,
        options: Callable[[], AnswerOptions],
        joint: Seam,
        calls: CallForms | None = None,
    ) -> CompletionCall:
        """`joint`: where the answer continues. `calls`: how it may call tools."""
        count = request.n or 1
        if len(prompts) * count > MOST_CHOICES:
            told = f"{len(prompts)} prompts with {count} answers each; this server writes {MOST_CHOICES} in all."
            raise FieldRefused(told, "n")
        stops = (request.stop,) if isinstance(request.stop, str) else request.stop or ()
        stops = stops if calls is None else (*stops, *calls.request.stops)
        seed = secrets.randbits(32) if request.seed is None else request.seed
        echo = isinstance(request, TextRequest) and bool(request.echo)
        choices = [
            ChoiceState(
                index=at * count + number,
                prompt=prompt,
                most=most,
                forced=len(joint.forced),
                sampling=_sampling(request, seed + number),
                options=options(),
                pieces=Detokenizer(self._text, stops, joint.read, joint.known),
                echo=self._text.decode(prompt) if echo else "",
                again=number > 0,
                calls=None if calls is None else calls.request.reader(),
                marker=None if calls is None else calls.marker,
            )
            for at, prompt in enumerate(prompts)
            for number in range(count)
        ]
        wishes = request.stream_options
        counts = wishes is not None and bool(wishes.include_usage)
        return CompletionCall(choices, bool(request.stream), counts, sum(map(len, prompts)))

    def _prompts(self, given: str | tuple[str | int | tuple[int, ...], ...]) -> list[list[int]]:
        """The tokens of each prompt. Raises `FieldRefused`."""
        texts, ids = list[list[int]](), list[int]()
        for one in (given,) if isinstance(given, str) else given:
            if isinstance(one, int):
                ids.append(one)
            else:
                texts.append(self._text.encode_whole(one) if isinstance(one, str) else list(one))
        if ids and texts:
            raise FieldRefused("The prompt mixes token ids with prompts; send one kind.", "prompt")
        prompts = [ids] if ids else texts
        if not prompts or not all(prompts):
            raise FieldRefused("The prompt is empty; a text needs at least one token.", "prompt")
        if max(map(max, prompts)) >= self._card.vocabulary:
            told = f"The prompt names an unknown token: ids are numbers below {self._card.vocabulary}."
            raise FieldRefused(told, "prompt")
        return prompts

    def _predicted(self, prediction: Prediction | None) -> list[int]:
        if prediction is None:
            return []
        return self._text.encode(text_of(prediction.content, "prediction"))[: self._card.limits.max_tokens]

    def _processors(self, request: CompletionRequest, before: Sequence[int]) -> list[LogitsProcessor]:
        processors = list[LogitsProcessor]()
        if request.logit_bias:
            processors.append(LogitBias(self._bias(request.logit_bias)))
        if request.presence_penalty or request.frequency_penalty:
            processors.append(Penalties(request.presence_penalty or 0.0, request.frequency_penalty or 0.0, before))
        return processors

    def _bias(self, given: Mapping[str, float]) -> dict[int, float]:
        if not all(TOKEN_ID.fullmatch(name) and int(name) < self._card.vocabulary for name in given):
            told = f"logit_bias names an unknown token: ids are numbers below {self._card.vocabulary}."
            raise FieldRefused(told, "logit_bias")
        return {int(name): added for name, added in given.items()}

    def _schema(self, wanted: ResponseFormat | None) -> Mapping[str, Any] | None:
        """The JSON schema that an answer must match, or None for any text."""
        if wanted is None or wanted.type == "text":
            return None
        if wanted.type not in ("json_object", "json_schema"):
            told = f"response_format is {wanted.type!r}; known are text, json_object and json_schema."
            raise FieldRefused(told, "response_format")
        schema = (wanted.json_schema or {}).get("schema", wanted.schema)
        if wanted.type == "json_object" and schema in (None, {}):
            return ANY_OBJECT
        if not isinstance(schema, dict):
            raise FieldRefused("response_format needs a schema, which is an object.", "response_format")
        return schema

    def _grammar(self, schema: Mapping[str, Any], field: str = "response_format") -> Grammar:
        try:
            return self._grammars.json(schema)
        except NoGrammar as error:
            raise FieldRefused(str(error).replace("response_format", field), field) from None


def _begun(request: AskedChat, messages: list[tuple[str, str]]) -> str:
    """The given beginning of the answer, removed from the messages; may be empty. Raises `FieldRefused`."""
    if not request.continue_final_message:
        if request.add_generation_prompt is False:
            why = "every answer begins with it, unless continue_final_message goes on with one"
            raise unsupported("add_generation_prompt", why)
        return ""
    if request.add_generation_prompt:
        told = "add_generation_prompt begins a new answer; continue_final_message needs none."
        raise FieldRefused(told, "add_generation_prompt")
    if messages[-1][0] != "assistant" or len(messages) < 2:
        told = "continue_final_message needs a message of the assistant after a question."
        raise FieldRefused(told, "continue_final_message")
    return messages.pop()[1]


def _without_system(messages: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The messages for a template without a system role: the system prompt begins the first question."""
    system = dict.fromkeys(said for role, said in messages if role == "system" and said)
    spoken = [(role, said) for role, said in messages if role != "system"]
    first = next((at for at, (role, _) in enumerate(spoken) if role == "user"), None)
    if first is None:
        return messages
    spoken[first] = "user", "\n\n".join([*system, spoken[first][1]])
    return spoken


def _sampling(request: CompletionRequest, seed: int) -> Sampling:
    """OpenAI's defaults, but those of llama.cpp's server if no temperature is given: at OpenAI's 1, a small model
    writes nonsense. Without a seed, each answer is different.
    """
    free = request.temperature is None
    temperature, top_k, top_p = (0.8, 40, 0.95) if free else (request.temperature, 0, 1.0)
    return Sampling(
        temperature=temperature or 0.0,
        top_k=max(0, top_k if request.top_k is None else request.top_k),
        top_p=top_p if request.top_p is None else request.top_p,
        seed=(seed + (1 << 63)) % (1 << 64) - (1 << 63),
    )
