// The AI SDK, unmodified: prints what it got by its default, /v1/responses, and by chats, as JSON.
const { generateText, streamText, Output } = require("ai");
const { createOpenAI } = require("@ai-sdk/openai");
const { z } = require("zod");

const openai = createOpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none" });
const prompt = "What is the capital of France?";
const format = Output.object({ schema: z.object({ city: z.enum(["Paris", "Rome"]) }) });

async function answered(model, store) {
  const asked = { model, maxRetries: 0, maxOutputTokens: 24, providerOptions: { openai: { store } } };
  const whole = await generateText({ ...asked, prompt, include: { responseBody: true } });
  let [text, last] = [""];
  for await (const part of streamText({ ...asked, prompt, include: { rawChunks: true } }).fullStream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "raw") last = part.rawValue.response ?? part.rawValue.choices?.[0] ?? last;
  }
  const messages = [{ role: "user", content: prompt }, ...whole.response.messages];
  messages.push({ role: "user", content: "And of Italy?" });
  const again = await generateText({ ...asked, messages }).then((one) => one.text, (error) => error.message);
  return {
    text: whole.text,
    usage: whole.usage,
    body: whole.response.body,
    streamed: text,
    last,
    parsed: (await generateText({ ...asked, prompt, output: format })).output,
    again,
  };
}

async function main() {
  const responses = await answered(openai("cocoa"), false);
  const stored = await answered(openai("cocoa"), undefined);
  console.log(JSON.stringify({ responses, stored, chat: await answered(openai.chat("cocoa")) }));
}

main();
