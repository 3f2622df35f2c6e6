"""OpenAI's own client for Python, if it is installed, reads what the gateway writes, marks included."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.gateway.conftest import own_text, settled
from tests.support.gateways import GatewayProcess
from tests.support.serving import VerifierProcess

openai = pytest.importorskip("openai")
QUESTION: Any = {"role": "user", "content": "how do I unpack a tar archive?"}


async def test_it_reads_answers_streams_models_and_errors(gateway: GatewayProcess, verifier: VerifierProcess) -> None:
    own = await own_text(verifier, [QUESTION], 40)
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["outrider", "target"]
        asked = {"model": "outrider", "messages": [QUESTION], "temperature": 0, "max_tokens": 40}
        whole = await client.chat.completions.create(**asked)
        assert whole.choices[0].message.content == own and whole.usage.completion_tokens == 40
        assert whole.outrider["source"] == "verified" and whole.outrider["checked"] == len(own)
        text, marks = "", []
        stream = await client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
        async for chunk in stream:
            marks.append(chunk.outrider)
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        assert text == own and chunk.usage.completion_tokens == 40 and marks[-1]["state"] == "checked"
        async with gateway.client() as plain:
            assert (await settled(plain, marks[-1]["answer"]))["text"] == own
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(**{**asked, "n": 2})
        assert refused.value.param == "n" and refused.value.code == "unsupported_parameter"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt")
