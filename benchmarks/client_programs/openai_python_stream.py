"""Streams answers through OpenAI's Python client, and says when each piece came (see benchmarks/gateway.py)."""

import json
import sys
import time

import openai


def say(**told):
    print(json.dumps(told), flush=True)


def main():
    url = sys.argv[1]
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    say(version=openai.__version__)
    for line in sys.stdin:
        try:
            for chunk in client.chat.completions.create(**json.loads(line), stream=True):
                at = time.perf_counter()
                say(at=at, chunk=chunk.model_dump(mode="json"))
            say(done=True)
        except openai.APIError as error:
            say(error=str(error))


main()
