// Asks through Vercel's ai SDK and its provider for OpenAI-compatible servers (see benchmarks/clients.py).
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.OUTRIDER_NODE_MODULES ?? process.cwd()}/_`);
const path = (name) => {
  try {
    return pathToFileURL(require.resolve(name)).href;
  } catch {
    throw new Error(`ERR_MODULE_NOT_FOUND: ${name}`);
  }
};
const { generateText, streamText, jsonSchema, generateObject } = await import(path("ai"));
const { createOpenAICompatible } = await import(path("@ai-sdk/openai-compatible"));
const { version } = JSON.parse(readFileSync(join(dirname(require.resolve("ai")), "../package.json"), "utf8"));
const KNOWN = {
  temperature: "temperature", max_tokens: "maxOutputTokens", top_p: "topP", seed: "seed", stop: "stopSequences",
  presence_penalty: "presencePenalty", frequency_penalty: "frequencyPenalty",
};

async function ask(provider, { token, messages, model, stream, stream_options, response_format, ...fields }) {
  const names = Object.keys(fields);
  if (fields.prompt !== undefined) {
    const { prompt, ...rest } = fields;
    const settings = Object.fromEntries(Object.entries(rest).map(([name, value]) => [KNOWN[name], value]));
    const answer = await generateText({ model: provider.completionModel("shell-guide"), prompt, maxRetries: 0, ...settings });
    return { unsupported: true, texts: [answer.text] }; // It writes a prompt of its own around the text.
  }
  if (!names.every((name) => name in KNOWN)) return { unsupported: true };
  const settings = Object.fromEntries(names.map((name) => [KNOWN[name], fields[name]]));
  const call = { model: provider.chatModel(model ?? "shell-guide"), messages, maxRetries: 0, ...settings };
  if (response_format) {
    const answer = await generateObject({ ...call, schema: jsonSchema(response_format.json_schema.schema) });
    return { object: answer.object };
  }
  if (stream) {
    const answer = streamText({ ...call, onError: () => {} });
    let text = "";
    for await (const piece of answer.textStream) text += piece;
    return { texts: [text], ...(stream_options ? { tokens: (await answer.usage).outputTokens } : {}) };
  }
  const answer = await generateText(call);
  return { texts: [answer.text], tokens: answer.usage.outputTokens };
}

const told = JSON.parse(readFileSync(0, "utf8"));
const found = { version };
for (const [name, fields] of Object.entries(told.cases)) {
  const provider = createOpenAICompatible({
    name: "outrider", baseURL: told.url, apiKey: fields.token ?? told.token, includeUsage: true,
    supportsStructuredOutputs: true,
  });
  try {
    found[name] = await ask(provider, fields);
  } catch (error) {
    found[name] = { status: error.statusCode, message: error.message };
  }
}
console.log(JSON.stringify(found));
