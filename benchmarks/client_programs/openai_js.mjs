// Asks through OpenAI's JavaScript client (see benchmarks/clients.py).
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.OUTRIDER_NODE_MODULES ?? process.cwd()}/_`);
const path = (name) => {
  try {
    return pathToFileURL(require.resolve(name)).href;
  } catch {
    throw new Error(`ERR_MODULE_NOT_FOUND: ${name}`);
  }
};
const { OpenAI } = await import(path("openai"));
const { VERSION } = await import(path("openai/version"));

async function ask(client, { token, ...fields }) {
  if (fields.models) {
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    return { models };
  }
  const request = { model: "shell-guide", ...fields };
  if (fields.prompt !== undefined) {
    const answer = await client.completions.create(request);
    return { texts: answer.choices.map((choice) => choice.text), tokens: answer.usage.completion_tokens };
  }
  const answer = await client.chat.completions.create(request);
  if (fields.stream) {
    const told = { texts: [""] };
    for await (const chunk of answer) {
      told.texts[0] += chunk.choices.map((choice) => choice.delta.content ?? "").join("");
      if (chunk.usage) told.tokens = chunk.usage.completion_tokens;
    }
    return told;
  }
  const noted = answer.choices[0].logprobs?.content;
  return {
    texts: answer.choices.map((choice) => choice.message.content),
    tokens: answer.usage.completion_tokens,
    ...(noted ? { logprobs: noted.map((one) => [one.token, Number(one.logprob.toFixed(4))]) } : {}),
  };
}

const told = JSON.parse(readFileSync(0, "utf8"));
const found = { version: VERSION };
for (const [name, fields] of Object.entries(told.cases)) {
  const client = new OpenAI({ baseURL: told.url, apiKey: fields.token ?? told.token, maxRetries: 0 });
  try {
    found[name] = await ask(client, fields);
  } catch (error) {
    found[name] = { status: error.status, message: error.message };
  }
}
console.log(JSON.stringify(found));
