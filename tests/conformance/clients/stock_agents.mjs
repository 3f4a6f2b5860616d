// @openai/agents-realtime (JavaScript): RealtimeSession over its WebSocket transport.

import { readFileSync } from "node:fs";
import { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } from "@openai/agents-realtime";

const { CONFORMANCE_URL, CONFORMANCE_KEY, CONFORMANCE_SPEECH } = process.env;
const MODEL = "gpt-realtime";
const FRAME_MS = 40;
const FRAME = (24000 * 2 * FRAME_MS) / 1000;
const PATIENCE_MS = 30_000;
const HEARD = "please tell me something about this server";
const ANSWER = "This is the answer of a model that was written for tests.";

const noted = [];
let changed = () => {};

function note(kind, thing) {
  noted.push([kind, thing]);
  changed();
}

const since = (mark, kind) => noted.slice(mark).filter(([each]) => each === kind).map(([, thing]) => thing);

async function wait(kind, mark, count = 1) {
  const until = Date.now() + PATIENCE_MS;
  while (since(mark, kind).length < count) {
    const left = until - Date.now();
    if (left <= 0) {
      const last = noted.slice(mark).map(([each]) => each);
      const runs = last.filter((each, at) => each !== last[at - 1]).slice(-12);
      throw new Error(`no ${kind} within ${PATIENCE_MS / 1000} s; last: ${runs}`);
    }
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, left);
      changed = () => { clearTimeout(timer); resolve(); };
    });
  }
  return since(mark, kind)[0];
}

function check(condition, what) {
  if (!condition) throw new Error(what);
}

async function step(name, work) {
  const began = Date.now();
  const tell = (passed, told) => {
    const line = { step: name, passed, told, s: Math.round((Date.now() - began) / 100) / 10 };
    process.stdout.write(JSON.stringify(line) + "\n");
  };
  try {
    tell(true, (await work()) ?? "");
  } catch (error) {
    console.error(error);
    tell(false, `${error}`.slice(0, 400));
    process.exit(1);
  }
}

const weather = tool({
  name: "weather",
  description: "The weather of a city.",
  strict: true,
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
  execute: async ({ city }) => `rain in ${city}`,
});

const agent = new RealtimeAgent({ name: "caller", instructions: "Be brief.", tools: [weather] });
const url = `${CONFORMANCE_URL.replace("http", "ws")}/v1/realtime?model=${MODEL}`;
const transport = new OpenAIRealtimeWebSocket({ url });
const session = new RealtimeSession(agent, { transport, model: MODEL, tracingDisabled: true });
session.on("transport_event", (event) => note(event.type, event));
for (const kind of ["audio", "audio_interrupted", "agent_tool_end", "error"]) {
  session.on(kind, (...things) => note(`session ${kind}`, things));
}

const frames = [];
let due = Date.now();
function send() {
  const frame = frames.shift() ?? Buffer.alloc(FRAME);
  session.sendAudio(frame.buffer.slice(frame.byteOffset, frame.byteOffset + frame.length));
  due += FRAME_MS;
  setTimeout(send, Math.max(0, due - Date.now()));
}

function say() {
  const audio = readFileSync(CONFORMANCE_SPEECH);
  for (let at = 0; at + FRAME <= audio.length; at += FRAME) frames.push(audio.subarray(at, at + FRAME));
}

const said = (done) => {
  const [item] = done.response.output;
  check(item?.content?.length === 1, `no words in ${JSON.stringify(done.response)}`);
  return item.content[0].transcript;
};
const TRANSCRIBED = "conversation.item.input_audio_transcription.completed";

await step("spoken turn", async () => {
  await session.connect({ apiKey: CONFORMANCE_KEY });
  due = Date.now();
  send();
  await wait("session.updated", 0);
  say();
  const words = await wait(TRANSCRIBED, 0);
  check(words.transcript === HEARD, `heard ${words.transcript}`);
  await wait("session audio", 0);
  return said(await wait("response.done", 0));
});

await step("barge-in", async () => {
  const mark = noted.length;
  session.sendMessage("Tell me a long story.");
  await wait("session audio", mark);
  await new Promise((resolve) => setTimeout(resolve, 800));
  say();
  await wait("session audio_interrupted", mark);
  const cut = await wait("conversation.item.truncated", mark);
  const done = await wait("response.done", mark);
  check(done.response.status === "cancelled", `it is ${done.response.status}`);
  await wait("response.done", mark, 2);
  return `cut at ${cut.audio_end_ms} ms`;
});

await step("tool call", async () => {
  const mark = noted.length;
  session.sendMessage("What is the weather in Bergen?");
  const [, , , result] = await wait("session agent_tool_end", mark);
  check(result === "rain in Bergen", `the tool gave ${result}`);
  await wait("response.done", mark, 2);
  const answer = said(since(mark, "response.done")[1]);
  check(answer.includes("rain in Bergen"), `said ${answer}`);
  const runs = since(mark, "session agent_tool_end").length;
  check(runs === 1, `the tool ran ${runs} times`);
  return answer;
});

await step("text turn", async () => {
  const mark = noted.length;
  session.sendMessage("Hello, this is typed.");
  const answer = said(await wait("response.done", mark));
  check(answer === ANSWER, `said ${answer}`);
  const errors = since(0, "session error");
  check(errors.length === 0, JSON.stringify(errors));
});

process.exit(0);
