// OpenAI's own client for JavaScript, unmodified: prints what it got from the service as JSON.
const OpenAI = require("openai");

const messages = [{ role: "user", content: "What is the capital of France?" }];
const asked = { model: "cocoa", messages, max_completion_tokens: 24, seed: 1 };
const scored = { ...asked, uncertainty: { num_samples: 4, estimators: ["cocoa_sp"] } };

async function streamed(client) {
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ ...scored, stream: true })) {
    chunks.push(chunk.choices[0]);
  }
  const text = chunks.map((choice) => choice.delta.content ?? "").join("");
  return { text, uncertainty: chunks.at(-1).uncertainty };
}

async function failure(request) {
  try {
    await request;
  } catch (error) {
    return { type: error.constructor.name, status: error.status, code: error.code, param: error.param };
  }
  return null;
}

async function main() {
  const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
  const { data, response } = await client.chat.completions.create(scored).withResponse();
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  const completion = await client.completions.create({
    model: "cocoa:light",
    prompt: messages[0].content,
    max_tokens: 24,
  });
  const late = { ...asked, uncertainty: { timeout_s: 0.001, cache: false } };
  console.log(
    JSON.stringify({
      text: data.choices[0].message.content,
      uncertainty: data.choices[0].uncertainty,
      id: data.id,
      request_id: response.headers.get("x-request-id"),
      models,
      streamed: await streamed(client),
      light: completion.choices[0],
      refused: await failure(client.chat.completions.create({ ...asked, store: true })),
      unknown: await failure(client.chat.completions.create({ ...asked, model: "gpt-9" })),
      late: await failure(client.chat.completions.create(late)),
    }),
  );
}

main();
