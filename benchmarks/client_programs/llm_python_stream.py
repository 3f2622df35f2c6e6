"""Streams answers through `llm`, and says when each piece came (see benchmarks/gateway.py).

It passes on the text and the id of an answer, and no field that OpenAI's API does not have.
"""

import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path


def say(**told):
    print(json.dumps(told), flush=True)


def main():
    url = sys.argv[1]
    entry = f'- model_id: outrider\n  model_name: outrider\n  api_base: "{url}"\n'
    (Path(os.environ["LLM_USER_PATH"]) / "extra-openai-models.yaml").write_text(entry)
    import llm

    model = llm.get_model("outrider")
    say(version=version("llm"))
    for line in sys.stdin:
        body = json.loads(line)
        try:
            answer = model.prompt(
                body["messages"][-1]["content"],
                stream=True,
                key="none",
                temperature=body["temperature"],
                max_tokens=body["max_tokens"],
            )
            for piece in answer:
                at = time.perf_counter()
                say(at=at, text=piece)
            say(done=True, id=answer.response_json["id"])
        except Exception as error:
            say(error=f"{type(error).__name__}: {error}")


main()
