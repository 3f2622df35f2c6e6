"""Asks through langchain-openai (see benchmarks/clients.py)."""

import json
import sys
from importlib.metadata import version

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

LIKE = {"assistant": AIMessage, "system": SystemMessage, "user": HumanMessage}
BOUND = ("tools", "response_format")


def ask(told, case):
    if "models" in case:
        return {"unsupported": True}
    given = {"model": "shell-guide", **{key: value for key, value in case.items() if key not in ("token", "messages")}}
    server = {"base_url": told["url"], "api_key": case.get("token", told["token"]), "max_retries": 0}
    if "prompt" in case:
        prompt = given.pop("prompt")
        answer = OpenAI(**given, **server).generate([prompt])
        return {"texts": [one.text for one in answer.generations[0]]}
    streams, counts = given.pop("stream", False), given.pop("stream_options", None) is not None
    bound = {key: given.pop(key) for key in BOUND if key in given}
    other = {"model_kwargs": {"prediction": given.pop("prediction")}} if "prediction" in given else {}
    messages = [LIKE[message["role"]](message["content"]) for message in case["messages"]]
    model = ChatOpenAI(**given, **server, **other, use_responses_api=False)
    if bound:
        return told_of([model.bind(**bound).invoke(messages)])
    if streams:
        text, tokens = "", {}
        for chunk in model.stream(messages, stream_usage=counts):
            text += chunk.content
            if counts and chunk.usage_metadata:
                tokens["tokens"] = chunk.usage_metadata["output_tokens"]
        return {"texts": [text], **tokens}
    return told_of([one.message for one in model.generate([messages]).generations[0]])


def told_of(messages):
    found = {"texts": [message.content for message in messages]}
    if len(messages) == 1:
        found["tokens"] = messages[0].usage_metadata["output_tokens"]
    if noted := messages[0].response_metadata.get("logprobs"):
        found["logprobs"] = [[one["token"], round(one["logprob"], 4)] for one in noted["content"]]
    return found


def main():
    told = json.load(sys.stdin)
    found = {"version": version("langchain-openai")}
    for name, case in told["cases"].items():
        try:
            found[name] = ask(told, case)
        except openai.APIStatusError as error:
            found[name] = {"status": error.status_code, "message": str(error)}
    json.dump(found, sys.stdout)


main()
