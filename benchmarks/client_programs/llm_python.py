"""Asks through the plugin API of `llm`, with a model that its own file of extra OpenAI models names."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

OPTIONS = {
    "temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty", "stop", "logit_bias", "seed",
}  # fmt: skip


def ask(llm, openai, told, case):
    if "models" in case or "prompt" in case:
        return {"unsupported": True}
    fields = {key: value for key, value in case.items() if key not in ("messages", "token", "stream", "model")}
    schema = fields.pop("response_format", None)
    fields.pop("stream_options", None)
    if not fields.keys() <= OPTIONS or isinstance(case["messages"][-1]["content"], list):
        return {"unsupported": True}
    if "stop" in fields:
        fields["stop"] = fields["stop"][0]
    model = llm.get_model(case.get("model", "shell-guide"))
    said = [message["content"] for message in case["messages"]]
    try:
        answer = model.prompt(
            said[-1],
            system=said[0] if len(said) > 1 else None,
            stream=bool(case.get("stream")),
            key=case.get("token", told["token"]),
            schema=None if schema is None else schema["json_schema"]["schema"],
            **fields,
        )
        found = {"texts": [answer.text()]}
        if (count := answer.usage().output) is not None:
            found["tokens"] = count
        return found
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": str(error)}
    except Exception as error:
        return {"message": str(error)}


def main():
    told = json.load(sys.stdin)
    shared = f"api_base: {told['url']}\n  supports_schema: true\n  api_key_name: outrider\n"
    names = ("shell-guide", "another")
    models = "".join(f"- model_id: {name}\n  model_name: {name}\n  {shared}" for name in names)
    (Path(os.environ["LLM_USER_PATH"]) / "extra-openai-models.yaml").write_text(models)
    import llm
    import openai

    found = {"version": version("llm")}
    found |= {name: ask(llm, openai, told, case) for name, case in told["cases"].items()}
    json.dump(found, sys.stdout)


main()
