"""How an answer ends: at a stop string, or for a reason in the terms of OpenAI, Anthropic, Google, vLLM and others."""

from __future__ import annotations

from typing import Literal

End = Literal["whole", "length", "context", "filter", "broken", "failed", "tools", "unknown"]
"""whole: the model ended it. length, context: cut at a limit. filter: cut for its content. broken: the server could not
continue. failed: an error came instead. tools: the model wants to call one. unknown: an unknown reason, so half an
answer may look complete."""

ENDS: dict[End, tuple[str, ...]] = {
    "whole": (
        "stop", "stopped", "end", "eos", "eos_token", "eos_token_id", "end_turn", "end_of_turn", "end_of_text",
        "end_of_sequence", "stop_sequence", "stop_str", "stop_token", "stop_word", "stop_words", "complete",
        "completed", "finish", "finished", "done", "normal", "success",
    ),
    "length": (
        "length", "max_length", "max_tokens", "max_token", "max_output_tokens", "max_completion_tokens",
        "max_new_tokens", "max_output_reached", "model_length", "token_limit", "limit", "truncated", "incomplete",
    ),
    "context": (
        "model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded", "context_length",
        "context_limit", "context_full",
    ),
    "filter": (
        "content_filter", "content_filtered", "filtered", "safety", "image_safety", "unsafe", "sensitive", "refusal",
        "refused", "blocked", "blocklist", "prohibited_content", "image_prohibited_content", "spii", "recitation",
        "image_recitation", "language", "error_toxic", "toxicity", "moderation", "moderated", "guardrail",
        "guardrail_intervened", "guardrails", "policy_violation",
    ),
    "broken": (
        "network_error", "insufficient_system_resource", "abort", "aborted", "cancel", "canceled", "cancelled",
        "user_cancel", "interrupted", "timeout", "time_limit", "timed_out", "disconnect", "disconnected", "preempted",
        "overloaded", "server_shutdown", "shutdown", "pause_turn", "malformed_response", "deadline_exceeded",
    ),
    "failed": ("error", "failed", "failure", "server_error", "internal_error", "internal_server_error", "model_error"),
    "tools": (
        "tool_calls", "tool_call", "tool_use", "function_call", "function_calls", "malformed_function_call",
        "unexpected_tool_call", "malformed_tool_use", "malformed_tool_call", "too_many_tool_calls",
    ),
}  # fmt: skip
BY_REASON: dict[str, End] = {reason: end for end, reasons in ENDS.items() for reason in reasons}
GOES_ON = ("", "null", "none", "finish_reason_unspecified", "unspecified")
"""Reasons in pieces of an answer that has not ended."""
PREFIXES = ("finish_reason_", "finishreason_", "stop_reason_")


def end_of(reason: str | None) -> End:
    """What a server's reason means. Without one, the server has indicated the complete answer in another way.

    Case and punctuation do not count: `MAX_TOKENS`, `max-tokens` and `FinishReason.MAX_TOKENS` are one reason.
    """
    return BY_REASON.get(_plain(reason), "unknown") if reason else "whole"


def goes_on(reason: str) -> bool:
    """Whether a reason means that the answer has not ended."""
    return _plain(reason) in GOES_ON


def _plain(reason: str) -> str:
    plain = reason.strip().casefold().replace("-", "_").replace(" ", "_").replace(".", "_")
    for prefix in PREFIXES:
        plain = plain.removeprefix(prefix)
    return plain
