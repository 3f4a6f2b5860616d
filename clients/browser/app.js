// A caller of the Realtime door in one page: microphone in, loudspeaker out, captions between.
// The page owns playback, so it also keeps the account of what was heard (see Speaker).

const RATE = 24000; // Hz, what the wire carries
const FRAME = 480; // samples, 20 ms
const PREBUFFER_MS = 80; // rides out the jitter of a home network without being felt
const LOG_LENGTH = 300;
const TURNS_SHOWN = 6;
const LEAST_SCALE_MS = 1500; // what a whole bar is, unless a turn took longer
const $ = (id) => document.getElementById(id);

// --- audio worklets --------------------------------------------------------------------------
// They run on the audio thread and are loaded from a Blob, so that the page stays one file.
const WORKLETS = `
const RATE = ${RATE}, FRAME = ${FRAME}, PREBUFFER = ${(RATE * PREBUFFER_MS) / 1000};

// Windowed-sinc resampling that remembers where the last block ended. Used where the browser
// will not run at 24 kHz; a step of 1 passes samples through.
class Resampler {
  constructor(from, to) {
    this.step = from / to;
    this.cutoff = Math.min(1, to / from);
    this.half = Math.ceil(12 / this.cutoff);
    this.past = new Float32Array(2 * this.half);
    this.at = this.half;
  }
  push(block) {
    if (this.step === 1) return block;
    const all = new Float32Array(this.past.length + block.length);
    all.set(this.past);
    all.set(block, this.past.length);
    const out = [];
    for (; this.at + this.half < all.length; this.at += this.step) out.push(this.value(all, this.at));
    const kept = Math.max(0, Math.floor(this.at) - this.half);
    this.past = all.slice(kept);
    this.at -= kept;
    return Float32Array.from(out);
  }
  value(all, at) {
    let sum = 0;
    for (let i = Math.ceil(at - this.half); i <= at + this.half; i++) {
      const x = (i - at) * this.cutoff, w = 0.5 + 0.5 * Math.cos((Math.PI * (i - at)) / this.half);
      sum += all[i] * w * (x ? Math.sin(Math.PI * x) / (Math.PI * x) : 1);
    }
    return sum * this.cutoff;
  }
}

const loudness = (samples) => Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / (samples.length || 1));

class Ear extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(sampleRate, RATE);
    this.frame = new Float32Array(FRAME);
    this.filled = 0;
  }
  process([channels]) {
    if (!channels.length) return true;
    // channelCount: 1 is a wish; two channels are mixed down.
    const mono = channels[0].map((_, i) => channels.reduce((sum, c) => sum + c[i], 0) / channels.length);
    for (const sample of this.resampler.push(mono)) {
      this.frame[this.filled++] = sample;
      if (this.filled === FRAME) this.send();
    }
    return true;
  }
  send() {
    const pcm = Int16Array.from(this.frame, (x) => Math.max(-1, Math.min(1, x)) * 32767);
    this.port.postMessage({ pcm, level: loudness(this.frame) }, [pcm.buffer]);
    this.filled = 0;
  }
}

class Speaker extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(RATE, sampleRate);
    this.ratio = RATE / sampleRate;
    this.ramp = 1 / (0.005 * sampleRate); // 5 ms from silence to sound and back
    Object.assign(this, { queue: [], buffered: 0, ended: false, playing: false });
    Object.assign(this, { tag: null, played: 0, total: 0, gain: 0, last: 0, blocks: 0 });
    this.port.onmessage = ({ data }) => this[data.do](data);
  }
  put({ tag, pcm }) {
    const samples = this.resampler.push(Float32Array.from(pcm, (x) => x / 32768));
    this.queue.push({ tag, samples, next: 0 });
    this.buffered += samples.length;
    this.ended = false;
  }
  // All of the reply is here: do not wait for more before playing a short one.
  end() { this.ended = true; }
  clear() {
    const tag = this.queue[0]?.tag;
    if (tag) this.port.postMessage({ cleared: tag, played: tag === this.tag ? this.played : 0 });
    Object.assign(this, { queue: [], buffered: 0, ended: false, playing: false });
  }
  process(_, [[out]]) {
    if (!this.playing && this.buffered * this.ratio >= (this.ended ? 1 : PREBUFFER)) this.playing = true;
    for (let i = 0; i < out.length; i++) {
      if (this.playing && !this.queue.length) this.playing = false;
      this.gain = Math.max(0, Math.min(1, this.gain + (this.playing ? this.ramp : -this.ramp)));
      if (this.playing) this.last = this.take();
      out[i] = this.last * this.gain; // after the end, the last sample fades out
    }
    if (++this.blocks % 8 === 0) {
      this.port.postMessage({ level: loudness(out), total: this.total, sounding: this.buffered > 0 });
    }
    return true;
  }
  take() {
    const chunk = this.queue[0];
    if (chunk.tag !== this.tag) this.begin(chunk.tag);
    const sample = chunk.samples[chunk.next++] ?? 0;
    this.played += this.ratio;
    this.total += this.ratio;
    this.buffered -= 1;
    if (chunk.next >= chunk.samples.length) this.queue.shift();
    return sample;
  }
  begin(tag) {
    this.tag = tag;
    this.played = 0;
    this.port.postMessage({ begun: tag });
  }
}
registerProcessor("ear", Ear);
registerProcessor("speaker", Speaker);
`;

// --- what is shown ---------------------------------------------------------------------------

const captions = {
  entry(id, role) {
    let line = $("captions").querySelector(`[data-item="${CSS.escape(id)}"]`);
    if (line) return line;
    line = document.createElement("li");
    Object.assign(line.dataset, { item: id, role, final: "false" });
    line.setAttribute("aria-label", role === "user" ? "You" : "Agent");
    $("captions").append(line);
    return line;
  },
  add(id, role, delta) {
    this.entry(id, role).append(delta);
    this.follow();
  },
  set(id, role, text) {
    const line = this.entry(id, role);
    if (!text) return line.remove();
    line.textContent = text;
    line.dataset.final = "true";
    this.follow();
  },
  // What was not heard leaves the history; on the page it stays, struck out.
  cut(id, share) {
    const line = this.entry(id, "agent"), text = line.textContent;
    const end = share >= 1 ? text.length : Math.max(0, text.lastIndexOf(" ", text.length * share));
    const lost = document.createElement("span");
    lost.className = "unheard";
    lost.textContent = text.slice(end);
    line.replaceChildren(text.slice(0, end), lost);
    Object.assign(line.dataset, { final: "true", interrupted: "true" });
  },
  follow() { $("captions").scrollTop = $("captions").scrollHeight; },
};

const STAGES = [
  ["silence", "silence awaited"], ["transcript", "words"], ["reply", "first text"],
  ["voice", "first audio"], ["playback", "audible"],
];

// The times of one turn, by the page's clock, from the caller's last sound (by level) on, or from
// when a text was sent.
class Delays {
  constructor(from, kind) { Object.assign(this, { from, kind, at: {} }); }
  mark(stage, laterMs = 0) { this.at[stage] ??= performance.now() + laterMs; }
  show() {
    const line = document.createElement("li"), bar = document.createElement("span");
    const kind = document.createElement("span");
    kind.className = "quiet";
    kind.textContent = this.kind;
    bar.className = "bar";
    // Stages may overtake each other (the reply can be ready before the words are shown), so
    // each is drawn from the end of the one that came before it in time.
    const reached = STAGES.filter(([name]) => this.at[name]).sort(([a], [b]) => this.at[a] - this.at[b]);
    let before = this.from;
    for (const [name, label] of reached) {
      const part = document.createElement("i"), took = Math.max(0, this.at[name] - before);
      part.dataset.stage = name;
      part.dataset.ms = Math.round(took);
      part.title = `${label}: ${Math.round(took)} ms`;
      part.style.flexGrow = took;
      bar.append(part);
      before = Math.max(before, this.at[name]);
    }
    const total = document.createElement("b");
    total.textContent = `${Math.round(before - this.from)} ms`;
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", [...bar.children].map((part) => part.title).join(", "));
    line.dataset.totalMs = Math.round(before - this.from);
    line.append(kind, bar, total);
    $("turns").append(line);
    while ($("turns").children.length > TURNS_SHOWN) $("turns").firstChild.remove();
    this.scale([...$("turns").children]);
  }
  // All bars by one scale, which holds the longest.
  scale(lines) {
    const most = Math.max(LEAST_SCALE_MS, ...lines.map(({ dataset }) => dataset.totalMs));
    for (const line of lines) line.querySelector(".bar").style.width = `${(100 * line.dataset.totalMs) / most}%`;
  }
}

const log = {
  total: 0,
  frames: 0,
  count() { $("count").textContent = `${this.total}, and ${this.frames} frames of microphone`; },
  // Fifty a second would hide all others: frames are only counted.
  addFrame() {
    this.frames++;
    this.count();
  },
  add(direction, event) {
    this.total++;
    this.count();
    const last = $("events").lastElementChild;
    // Audio comes by the hundred: a run of one type is one line with a count.
    if (last?.dataset.type === event.type && last.dataset.direction === direction) {
      last.dataset.times = +last.dataset.times + 1;
      last.querySelector(".detail").textContent = ` ×${last.dataset.times}`;
      return;
    }
    const line = document.createElement("li");
    Object.assign(line.dataset, { type: event.type, direction, times: 1 });
    line.innerHTML = `<time></time><span></span><span><span class="name"></span><span class="detail"></span></span>`;
    line.children[0].textContent = (performance.now() / 1000).toFixed(2);
    line.children[1].textContent = direction === "in" ? "←" : "→";
    line.querySelector(".name").textContent = event.type;
    line.querySelector(".detail").textContent = ` ${this.detail(event)}`;
    $("events").append(line);
    if ($("events").children.length > LOG_LENGTH) $("events").firstChild.remove();
    $("events").scrollTop = $("events").scrollHeight;
  },
  detail(event) {
    return event.error?.message ?? event.transcript ?? event.response?.status ?? event.item_id ?? event.item?.id ?? "";
  },
};

// --- sound -----------------------------------------------------------------------------------

class Sound {
  constructor(onFrame, onPlayback) { Object.assign(this, { onFrame, onPlayback, contexts: [] }); }

  async context(options) {
    const context = new AudioContext(options);
    this.contexts.push(context);
    const source = URL.createObjectURL(new Blob([WORKLETS], { type: "text/javascript" }));
    await context.audioWorklet.addModule(source).finally(() => URL.revokeObjectURL(source));
    return context;
  }

  async open() {
    if (!isSecureContext) throw new Error("Browsers allow sound in and out on https or localhost only.");
    this.main = await this.context({ sampleRate: RATE, latencyHint: "interactive" });
    this.speaker = new AudioWorkletNode(this.main, "speaker", { numberOfInputs: 0, outputChannelCount: [1] });
    this.speaker.port.onmessage = ({ data }) => this.onPlayback(data);
    this.speaker.connect(this.main.destination);
    await this.main.resume();
  }

  async listen() {
    this.stream = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 },
    });
    let context = this.main, source;
    try {
      source = context.createMediaStreamSource(this.stream);
    } catch { // Firefox joins a microphone only to a context of the microphone's own rate
      context = await this.context({});
      source = context.createMediaStreamSource(this.stream);
    }
    const ear = new AudioWorkletNode(context, "ear", { outputChannelCount: [1] });
    ear.port.onmessage = ({ data }) => this.onFrame(data);
    source.connect(ear).connect(context.destination); // it emits silence, but must be pulled
  }

  mute(on) { this.stream?.getAudioTracks().forEach((track) => { track.enabled = !on; }); }
  put(tag, pcm) { this.speaker.port.postMessage({ do: "put", tag, pcm }, [pcm.buffer]); }
  end() { this.speaker.port.postMessage({ do: "end" }); }
  clear() { this.speaker?.port.postMessage({ do: "clear" }); }
  get delayMs() { return 1000 * ((this.main.outputLatency || 0) + (this.main.baseLatency || 0)); }

  close() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.contexts.splice(0).forEach((context) => context.close());
  }
}

const toBase64 = (pcm) => btoa(String.fromCharCode(...new Uint8Array(pcm.buffer)));
const fromBase64 = (text) => new Int16Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

// --- the call --------------------------------------------------------------------------------

class Call {
  constructor() {
    this.sound = new Sound((frame) => this.onFrame(frame), (report) => this.onPlayback(report));
    this.silenced = new Set(); // responses that were interrupted: what still comes is not played
    this.received = new Map(); // item → milliseconds of audio
    Object.assign(this, { response: null, waiting: false, hearing: false, sounding: false, replyWanted: false });
    Object.assign(this, { delays: null, lastSound: 0, floor: 0.01, muted: false, deaf: true, ended: false });
  }

  async open(withMicrophone) {
    await this.sound.open();
    await admitted();
    introduce();
    if (withMicrophone) await this.listen();
    if (this.ended) return this.sound.close();
    const address = new URL("v1/realtime", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const model = new URLSearchParams(location.search).get("model") ?? "antiphon";
    address.search = new URLSearchParams({ model, busy: "event" }); // a page sees no HTTP status
    this.socket = new WebSocket(address, ["realtime", ...(key() ? [`openai-insecure-api-key.${key()}`] : [])]);
    this.socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    this.socket.onclose = ({ code, reason }) => this.close(
      code === 1000 || code === BUSY ? "" : `${WHY[code] ?? `The call ended (code ${code})`}${reason && `: ${reason}`}.`);
  }

  // A call that was begun in writing gets its microphone later.
  async listen() {
    notify("");
    this.deaf = false;
    await this.sound.listen().catch((error) => {
      this.deaf = true;
      notify(`No microphone: ${error.message.replace(/\.$/, "")}. You can write.`, "quiet");
    });
    if (this.ended) this.sound.close();
    render();
  }

  get connected() { return this.socket?.readyState === WebSocket.OPEN; }

  get state() {
    if (!this.connected) return "connecting";
    if (this.hearing) return "hearing";
    if (this.sounding) return "speaking";
    return this.response || this.waiting ? "thinking" : "listening";
  }

  send(event) {
    if (!this.connected) return;
    log.add("out", event);
    this.socket.send(JSON.stringify(event));
  }

  take(event) {
    log.add("in", event);
    handlers[event.type]?.(this, event);
    render();
  }

  configure() { this.send({ type: "session.update", session: session(this.own) }); }

  // A network that stalls must not be paid for with minutes of stale microphone.
  onFrame({ pcm, level }) {
    this.level = level;
    this.floor = level < this.floor ? level : this.floor + (level - this.floor) * 0.001;
    if (level > Math.max(0.006, 3 * this.floor)) this.lastSound = performance.now();
    if (!this.connected || this.socket.bufferedAmount > 2 ** 18) return;
    log.addFrame();
    this.socket.send(`{"type":"input_audio_buffer.append","audio":"${toBase64(pcm)}"}`);
  }

  onPlayback({ begun, cleared, played, level, total, sounding }) {
    if (begun) {
      this.delays?.mark("playback", this.sound.delayMs);
      this.showDelays();
    }
    if (cleared) this.truncate(cleared, played);
    if (level === undefined) return;
    this.level = this.sounding ? level : this.level;
    document.body.dataset.playedMs = Math.round((1000 * total) / RATE);
    if (sounding !== this.sounding) { this.sounding = sounding; render(); }
  }

  // Played is not heard yet: what lies between the page and the ear is taken off.
  truncate(tag, played) {
    const [item_id, content_index] = JSON.parse(tag);
    const audio_end_ms = Math.max(0, Math.round((1000 * played) / RATE - this.sound.delayMs));
    this.send({ type: "conversation.item.truncate", item_id, content_index, audio_end_ms });
    captions.cut(item_id, audio_end_ms / (this.received.get(item_id) || 1));
  }

  silence() {
    if (this.response) this.silenced.add(this.response);
    this.sound.clear();
  }

  interrupt() {
    this.silence();
    if (this.response) this.send({ type: "response.cancel" });
  }

  write(text) {
    this.interrupt();
    const id = `item_${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
    captions.set(id, "user", text);
    const content = [{ type: "input_text", text }];
    this.send({ type: "conversation.item.create", item: { id, type: "message", role: "user", content } });
    this.delays = new Delays(performance.now(), "written");
    // The server takes one reply at a time: the next is asked for when the last has ended.
    if (this.response) this.replyWanted = true;
    else this.ask();
  }

  ask() {
    this.replyWanted = false;
    this.waiting = true;
    this.send({ type: "response.create" });
  }

  play(event) {
    if (this.silenced.has(event.response_id)) return;
    this.delays?.mark("voice");
    const pcm = fromBase64(event.delta);
    this.received.set(event.item_id, (this.received.get(event.item_id) ?? 0) + (1000 * pcm.length) / RATE);
    this.sound.put(JSON.stringify([event.item_id, event.content_index]), pcm);
  }

  showDelays() {
    this.delays?.show();
    this.delays = null;
  }

  close(reason = "") {
    if (this.ended) return;
    this.ended = true;
    this.socket?.close(1000);
    this.sound.close();
    if (reason) notify(reason);
    call = null;
    render();
  }
}

const agentText = (call, event) => {
  if (call.silenced.has(event.response_id)) return;
  captions.add(event.item_id, "agent", event.delta);
  call.delays?.mark("reply");
};

const handlers = {
  "session.created"(call, { session: own }) {
    call.own = own;
    const silence = own.audio?.input?.turn_detection?.silence_duration_ms;
    if (silence && !$("silence").dataset.touched) setSilence(silence);
    call.configure();
    pending.splice(0).forEach((text) => call.write(text));
  },
  "input_audio_buffer.speech_started"(call, event) {
    call.hearing = true;
    call.silence();
    captions.entry(event.item_id, "user");
  },
  "input_audio_buffer.speech_stopped"(call) {
    const now = performance.now();
    Object.assign(call, { hearing: false, waiting: true });
    const known = now - call.lastSound < 3000;
    call.delays = new Delays(known ? call.lastSound : now - $("silence").value, "spoken");
    call.delays.mark("silence");
  },
  "conversation.item.input_audio_transcription.delta"(_, event) {
    captions.add(event.item_id, "user", event.delta);
  },
  "conversation.item.input_audio_transcription.completed"(call, event) {
    captions.set(event.item_id, "user", event.transcript.trim());
    call.delays?.mark("transcript");
    if (!event.transcript.trim()) call.waiting = false;
  },
  "conversation.item.input_audio_transcription.failed"(call, event) {
    captions.set(event.item_id, "user", "(not understood)");
    call.waiting = false;
  },
  "response.created"(call, { response }) { Object.assign(call, { response: response.id, waiting: false }); },
  "response.output_audio_transcript.delta": agentText,
  "response.output_text.delta": agentText,
  "response.output_audio.delta"(call, event) { call.play(event); },
  "response.output_audio.done"(call) { call.sound.end(); },
  "response.done"(call, { response }) {
    call.response = null;
    call.sound.end();
    response.output?.forEach(({ id }) => {
      const line = $("captions").querySelector(`[data-item="${CSS.escape(id)}"]`);
      if (line) line.dataset.final = "true";
    });
    if (response.status === "failed") notify(response.status_details?.error?.message ?? "The reply failed.");
    if (!call.received.size && response.status === "completed") call.showDelays();
    if (call.replyWanted) call.ask();
  },
  "error"(call, { error }) {
    // Cancelling what has just ended is no mistake of the caller's.
    if (error.code !== "response_cancel_not_active") notify(error.message);
    call.waiting = false;
  },
};

// --- the page --------------------------------------------------------------------------------

let call = null;
const pending = []; // written before the call was up
const key = () => sessionStorage.getItem("key") ?? "";

const BUSY = 1013; // an error event has said more
const WHY = {
  1001: "The server went away",
  1006: "The connection to the server broke",
  1008: "The server ended the call",
  1009: "The server ended the call",
  1011: "The server ended the call by a fault of its own; its log says why",
  1012: "The server was stopped",
};

const SAYINGS = {
  idle: ["Start talking", "Start talking"],
  connecting: ["Connecting…", "Cancel"],
  listening: ["Listening", "Mute the microphone"],
  hearing: ["Hearing you", "Mute the microphone"],
  thinking: ["Thinking…", "Interrupt"],
  speaking: ["Speaking – just talk to interrupt", "Interrupt"],
};

// Who is not heard cannot interrupt by talking.
const DEAF = { listening: "Write, or start talking", speaking: "Speaking – Esc to interrupt" };
const MUTED = { ...DEAF, listening: "Muted" };

function sayings(state) {
  const [saying, action] = SAYINGS[state];
  if (call?.connected && call.deaf) return [DEAF[state] ?? saying, "Start talking"];
  if (call?.muted) return [MUTED[state] ?? saying, action.replace("Mute", "Unmute")];
  return [saying, action];
}

const MANNERS = {
  "The server’s own": "",
  "Brief": "You are on a phone call. Answer in one short sentence of plain spoken English.",
  "Patient tutor": "You are a patient tutor. Explain one step at a time and ask a question back.",
  "Storyteller": "You are a calm storyteller. Speak in vivid, short sentences.",
  "Receptionist": "You are a friendly receptionist. Find out who calls and why, one question at a time.",
};

// The server's name for its models is antiphon/ASR+LLM+TTS. It needs no key, and may be loading.
async function introduce() {
  const { model = "", voices = [] } = await fetch("ready").then((answer) => answer.json()).catch(() => ({}));
  offer(voices);
  const [, asr, llm, tts] = model.match(/^antiphon\/(.+)\+(.+)\+(.+)$/) ?? [];
  if (!llm) return;
  $("server").textContent = `${asr} hears, ${llm} answers, ${tts} speaks`;
  $("demonstration").hidden = llm !== "smollm2";
}

// Voices that are known are chosen from; any other is written.
function offer(voices) {
  if (!voices.length || $("voice").options) return;
  const choice = document.createElement("select");
  choice.append(new Option("the server’s own", ""), ...voices.map((name) => new Option(name)));
  choice.onchange = $("voice").onchange;
  choice.id = "voice";
  $("voice").replaceWith(choice);
}

// A call without a key is refused before it begins, and a WebSocket cannot say why: so ask first.
async function admitted() {
  const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
  const answer = await fetch("v1/models", { headers }).catch(() => {
    throw new Error("The server does not answer. Is it running?");
  });
  if (answer.status !== 401 && answer.status !== 403) return;
  $("key-form").hidden = false;
  $("key").focus();
  throw new Error(key() ? "The server refused this API key." : "");
}

function session(own = {}) {
  const format = { type: "audio/pcm", rate: RATE };
  const voice = $("voice").value.trim() || own.audio?.output?.voice;
  const instructions = $("instructions").value.trim() || own.instructions;
  const turn_detection = {
    type: "server_vad", silence_duration_ms: +$("silence").value, create_response: true, interrupt_response: true,
  };
  return {
    type: "realtime", output_modalities: ["audio"], ...(instructions && { instructions }),
    audio: {
      input: { format, turn_detection, transcription: { model: "whisper-1" } },
      output: { format, ...(voice && { voice }) },
    },
  };
}

async function start(withMicrophone) {
  notify("");
  $("key-form").hidden = true;
  const mine = (call = new Call());
  render();
  await mine.open(withMicrophone).catch((error) => mine.close(error.message));
}

function notify(text, kind = "alert") {
  $("notice").textContent = text;
  $("notice").className = kind;
  $("notice").hidden = !text;
}

function setSilence(ms) {
  $("silence").value = ms;
  $("silence-ms").textContent = `${ms} ms`;
}

function render() {
  const state = call?.state ?? "idle", [saying, action] = sayings(state);
  if (document.body.dataset.state !== state) document.body.dataset.state = state;
  document.body.classList.toggle("deaf", Boolean(call?.deaf || call?.muted));
  $("status").textContent = saying;
  $("status").hidden = !call && !$("key-form").hidden;
  $("orb").setAttribute("aria-label", action);
  $("hint").textContent = `Press the circle to ${action[0].toLowerCase()}${action.slice(1)}`;
  $("hint").hidden = !call;
  $("controls").hidden = !call?.connected;
  $("interrupt").disabled = state !== "speaking" && state !== "thinking";
  $("mute").hidden = Boolean(call?.deaf);
  $("mute").textContent = call?.muted ? "Unmute" : "Mute";
  $("mute").classList.toggle("on", Boolean(call?.muted));
}

function toggleMute() {
  call.muted = !call.muted;
  call.sound.mute(call.muted);
  render();
}

function pressOrb() {
  if (!call) return start(true);
  if (call.state === "connecting") return call.close();
  if (call.deaf) return call.listen();
  if (call.state === "speaking" || call.state === "thinking") return call.interrupt();
  toggleMute();
}

function submitText(event) {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text) return;
  $("text").value = "";
  if (call?.own) return call.write(text);
  pending.push(text);
  if (!call) start(false);
}

function submitKey(event) {
  event.preventDefault();
  sessionStorage.setItem("key", $("key").value.trim());
  $("key").value = "";
  start(true);
}

// The orb moves with whoever speaks; loudness is heard by its logarithm, roughly its root.
let shownLevel = 0;
function breathe() {
  const level = call?.connected ? Math.min(1, 2.4 * Math.sqrt(call.level ?? 0)) : 0;
  shownLevel += (level - shownLevel) * 0.25;
  document.body.style.setProperty("--level", shownLevel.toFixed(3));
  requestAnimationFrame(breathe);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
}

function wire() {
  setTheme(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  $("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  $("orb").onclick = pressOrb;
  $("mute").onclick = toggleMute;
  $("interrupt").onclick = () => call?.interrupt();
  $("hang-up").onclick = () => call?.close();
  $("write").onsubmit = submitText;
  $("key-form").onsubmit = submitKey;
  document.onkeydown = ({ key: pressed }) => { if (pressed === "Escape") call?.interrupt(); };
  $("preset").append(...Object.keys(MANNERS).map((name) => new Option(name)));
  $("preset").onchange = () => { $("instructions").value = MANNERS[$("preset").value]; call?.configure(); };
  for (const id of ["voice", "instructions", "silence"]) $(id).onchange = () => call?.configure();
  $("silence").oninput = () => { $("silence").dataset.touched = "true"; setSilence($("silence").value); };
  $("legend").append(...STAGES.map(([name, label]) => {
    const entry = document.createElement("li");
    entry.dataset.stage = name;
    entry.textContent = label;
    return entry;
  }));
  breathe();
  introduce();
}

wire();
