"""Asks through OpenAI's Python client (see benchmarks/clients.py)."""

import json
import sys

import openai


def ask(client, case):
    if "models" in case:
        return {"models": [model.id for model in client.models.list()]}
    fields = {"model": "shell-guide", **{key: value for key, value in case.items() if key != "token"}}
    if "prompt" in case:
        answer = client.completions.create(**fields)
        return {"texts": [choice.text for choice in answer.choices], "tokens": answer.usage.completion_tokens}
    answer = client.chat.completions.create(**fields)
    if case.get("stream"):
        text, told = "", {}
        for chunk in answer:
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            if chunk.usage is not None:
                told["tokens"] = chunk.usage.completion_tokens
        return {"texts": [text], **told}
    told = {"texts": [choice.message.content for choice in answer.choices], "tokens": answer.usage.completion_tokens}
    if answer.choices[0].logprobs is not None:
        told["logprobs"] = [[one.token, round(one.logprob, 4)] for one in answer.choices[0].logprobs.content]
    return told


def main():
    told = json.load(sys.stdin)
    found = {"version": openai.__version__}
    for name, case in told["cases"].items():
        with openai.OpenAI(base_url=told["url"], api_key=case.get("token", told["token"]), max_retries=0) as client:
            try:
                found[name] = ask(client, case)
            except openai.APIStatusError as error:
                found[name] = {"status": error.status_code, "message": str(error)}
    json.dump(found, sys.stdout)


main()
