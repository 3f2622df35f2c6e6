"""Asks through litellm (see benchmarks/clients.py)."""

import contextlib
import json
import sys
from importlib.metadata import version

import litellm


def ask(told, case):
    if "models" in case:
        return {"unsupported": True}
    fields = {"model": "shell-guide", **{key: value for key, value in case.items() if key != "token"}}
    # `openai/` before a model's name says which API its server speaks.
    fields["model"] = f"openai/{fields['model']}"
    server = {"api_base": told["url"], "api_key": case.get("token", told["token"]), "num_retries": 0}
    if "prompt" in case:
        fields["model"] = f"text-completion-{fields['model']}"
        answer = litellm.text_completion(**fields, **server)
        return {"texts": [choice.text for choice in answer.choices], "tokens": answer.usage.completion_tokens}
    answer = litellm.completion(**fields, **server)
    if case.get("stream"):
        text, count = "", {}
        for chunk in answer:
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            if "stream_options" in case and getattr(chunk, "usage", None):
                count["tokens"] = chunk.usage.completion_tokens
        return {"texts": [text], **count}
    found = {"texts": [choice.message.content for choice in answer.choices], "tokens": answer.usage.completion_tokens}
    if getattr(answer.choices[0], "logprobs", None):
        found["logprobs"] = [[one.token, round(one.logprob, 4)] for one in answer.choices[0].logprobs.content]
    return found


def main():
    told = json.load(sys.stdin)
    found = {"version": version("litellm")}
    with contextlib.redirect_stdout(sys.stderr):  # It prints advice.
        for name, case in told["cases"].items():
            try:
                found[name] = ask(told, case)
            except Exception as error:  # Each kind of error is a class of its own there.
                found[name] = {"status": getattr(error, "status_code", None), "message": str(error)}
    json.dump(found, sys.stdout)


main()
