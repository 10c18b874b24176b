// Vercel's AI SDK: streamText and generateText over its providers. The same lines in and out as adapter.py.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const home = process.env.ENGINE_MODULES;
const resolve = createRequire(join(home, "package.json")).resolve;
const load = (name) => import(pathToFileURL(resolve(name)).href);
const version = (name) => JSON.parse(readFileSync(join(home, "node_modules", name, "package.json"), "utf8")).version;
const PACKAGES = ["ai", "@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google", "@ai-sdk/mistral", "@ai-sdk/cohere", "@ai-sdk/amazon-bedrock", "@ai-sdk/openai-compatible"];

console.error = console.warn = () => {};
const { streamText, generateText, tool, jsonSchema } = await load("ai");
const any = () => tool({ inputSchema: jsonSchema({ type: "object", additionalProperties: true }) });
const named = Object.fromEntries(["open_lock", "level", "flow", "now"].map((name) => [name, any()]));
const openai = (await load("@ai-sdk/openai")).createOpenAI({ apiKey: "none" });
const patch = openai.tools.customTool({ name: "patch", format: { type: "text" } });
const compatible = async (url) => (await load("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "vendor", apiKey: "none", baseURL: url + "/v1" })("m");

const modelOf = {
  openai_chat: async (url) => (await load("@ai-sdk/openai")).createOpenAI({ apiKey: "none", baseURL: url + "/v1" }).chat("m"),
  openai_responses: async (url) => (await load("@ai-sdk/openai")).createOpenAI({ apiKey: "none", baseURL: url + "/v1" }).responses("m"),
  anthropic_messages: async (url) => (await load("@ai-sdk/anthropic")).createAnthropic({ apiKey: "none", baseURL: url + "/v1" })("claude-sonnet-4-5"),
  google_gemini: async (url) => (await load("@ai-sdk/google")).createGoogleGenerativeAI({ apiKey: "none", baseURL: url + "/v1beta" })("gemini-2.5-pro"),
  mistral_chat: async (url) => (await load("@ai-sdk/mistral")).createMistral({ apiKey: "none", baseURL: url + "/v1" })("m"),
  cohere_chat: async (url) => (await load("@ai-sdk/cohere")).createCohere({ apiKey: "none", baseURL: url + "/v2" })("m"),
  bedrock_converse: async (url) =>
    (await load("@ai-sdk/amazon-bedrock")).createAmazonBedrock({ region: "eu-north-1", accessKeyId: "none", secretAccessKey: "none", baseURL: url })("anthropic.claude-x"),
};

const opaque = (metadata) =>
  Object.values(metadata ?? {}).flatMap((one) =>
    [one?.signature, one?.redactedData, one?.redactedContent, one?.thoughtSignature, one?.reasoningEncryptedContent].filter(Boolean));

async function read(one) {
  // What only OpenAI-compatible vendors send has a provider of its own.
  const make = one.case.startsWith("openai_chat/reasoning") ? compatible : modelOf[one.family];
  if (!make) return { not_offered: "no client for this family" };
  const ask = { model: await make(one.url), prompt: "Open the lock.", tools: one.family === "openai_responses" ? { ...named, patch } : named, maxRetries: 0, abortSignal: AbortSignal.timeout(20000) };
  let failed = null, content, finish, counts;
  if (one.is_stream) {
    const result = streamText({ ...ask, onError() {} });
    for await (const part of result.fullStream) if (part.type === "error") failed ??= part.error;
    if (failed) return { error: { type: failed?.name ?? "error part" } };
    [content, finish, counts] = await Promise.all([result.content, result.finishReason, result.totalUsage]);
  } else {
    const result = await generateText(ask);
    [content, finish, counts] = [result.content, result.finishReason, result.totalUsage];
  }
  const of = (type) => content.filter((part) => part.type === type);
  const calls = of("tool-call").filter((part) => !part.providerExecuted);
  if (calls.some((part) => part.invalid) && finish === "tool-calls") return { error: { type: "invalid tool call" } };
  const kept = content.flatMap((part) => opaque(part.providerMetadata));
  return {
    text: of("text").map((part) => part.text).join(""),
    reasoning: of("reasoning").map((part) => part.text).join(""),
    continuations: [...new Set(kept)],
    annotations: of("source").map((part) => part.url).filter(Boolean),
    media: of("file").map((part) => part.file.mediaType),
    calls: calls.filter((part) => !part.invalid).map((part) => ({
      id: one.family === "google_gemini" ? null : part.toolCallId, name: part.toolName, arguments: part.input, input: part.input })),
    usage: counts?.inputTokens === undefined && counts?.outputTokens === undefined ? null : {
      input: counts.inputTokens, output: counts.outputTokens,
      cached: counts.inputTokenDetails?.cacheReadTokens ?? counts.cachedInputTokens ?? null,
      reasoning: counts.outputTokenDetails?.reasoningTokens ?? counts.reasoningTokens ?? null },
    finish,
  };
}

process.stdout.write(JSON.stringify({ versions: Object.fromEntries(PACKAGES.map((name) => [name, version(name)])) }) + "\n");
for await (const line of createInterface({ input: process.stdin })) {
  const one = JSON.parse(line);
  let outcome;
  try {
    outcome = await read(one);
  } catch (error) {
    outcome = { error: { type: error?.name ?? "Error" } };
  }
  process.stdout.write(JSON.stringify({ case: one.case, outcome }) + "\n");
}
