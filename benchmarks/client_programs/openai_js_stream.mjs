// Streams answers through OpenAI's JavaScript client, and says when each piece came (see benchmarks/gateway.py).
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
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
const say = (told) => process.stdout.write(JSON.stringify(told) + "\n");
// The same clock as Python's time.perf_counter, on Linux and on macOS.
const now = () => Number(process.hrtime.bigint()) / 1e9;

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
say({ version: VERSION });
for await (const line of createInterface({ input: process.stdin })) {
  try {
    for await (const chunk of await client.chat.completions.create({ ...JSON.parse(line), stream: true })) {
      say({ at: now(), chunk });
    }
    say({ done: true });
  } catch (error) {
    say({ error: error.message });
  }
}
