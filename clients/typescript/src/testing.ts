import { Client } from "./client.js";
import { ReviewQueueError } from "./errors.js";
import { dumps, loads } from "./exact-json.js";
import type { Attachment, Question, Verdict } from "./values.js";

/** Status of the problem of each code that is refused here; all others are 409. */
const STATUS: Record<string, number> = { not_found: 404, payload_too_large: 413 };
/** The real server has the same limit. */
const BODY_LIMIT = 1024 * 1024;
const ENDED = ["completed", "failed", "cancelled", "expired"];

export interface GivenAnswer {
  input?: unknown;
  arguments?: Record<string, unknown> | null;
  message?: string | null;
  decidedBy?: string;
}

/** An effect: its call, its status, and how often it was begun. */
export interface FakeEffect {
  key: string;
  name: string;
  arguments: unknown;
  repeat: string;
  compensation: { name: string; arguments: unknown } | undefined;
  status: string;
  attempt: number;
  receipt: unknown;
  error: string | null;
  retryable: boolean;
  requestKey: string;
  fence: number;
}

/** A request to people: what was asked, and the answer. */
export interface FakeRequest {
  key: string;
  asked: Question;
  number: number;
  status: string;
  answer: Record<string, unknown> | undefined;
}

/** A run. `status` is one of the server's; `result` is what the run was completed or failed with. */
export interface FakeRun {
  id: string;
  key: string;
  title: string;
  metadata: Record<string, unknown>;
  body: any;
  status: string;
  result: unknown;
  checkpoint: { step: string; state: unknown; format: string };
  number: number;
  fence: number;
  leased: boolean;
  attempts: number;
  cause: string;
  claimedWith: string;
  control: string;
  resumeWhen: string;
  steps: Map<string, unknown>;
  passed: string[];
  effects: Map<string, FakeEffect>;
  requests: Map<string, FakeRequest>;
  compensating: boolean;
  heartbeats: number;
}

/** The agent waits for a request that the test has not answered. */
export class MissingAnswer extends ReviewQueueError {
  override name = "MissingAnswer";
}

class Refusal extends Error {
  constructor(
    readonly code: string,
    detail = code,
  ) {
    super(detail);
  }
}

/**
 * A server in this process, for the tests of agents: no network, no database, no waiting. It keeps runs, leases, steps,
 * effects and requests as the real server does, as far as this client uses them. It has no policies, schemas, permissions,
 * deadlines or facts: a test decides, with `answer`, what people answer.
 */
export class FakeServer {
  /** The runs by their key. */
  readonly runs = new Map<string, FakeRun>();
  /** Method and path of every call. */
  readonly calls: { method: string; path: string }[] = [];
  readonly #planned = new Map<string, Record<string, unknown>>();
  readonly #files = new Map<string, { shown: Omit<Attachment, "url">; content: Uint8Array }>();
  readonly #failures: { status: number; retryAfter: number | undefined }[] = [];
  #ids = 0;

  /** Return a client of this server, which repeats requests without waiting. */
  client(): Client {
    return new Client({ server: "http://fake", key: "rq_fake", retries: { base: 0 }, fetch: this.fetch });
  }

  // --- what people and the world do -----------------------------------------------------------------------------------

  /** Answer the request with this key, now or as soon as it is asked. `verdict` null: its deadline passed. */
  answer(key: string, verdict: Verdict | null = "approve", given: GivenAnswer = {}): void {
    this.#planned.set(key, {
      verdict,
      input: given.input ?? null,
      arguments: given.arguments ?? null,
      changed: [],
      message: given.message ?? null,
      decided_by: verdict ? (given.decidedBy ?? "ana@example.org") : "system:expiry",
      decided_at: "2026-01-01T12:00:00.000000Z",
      decision: `dec_${++this.#ids}`,
      cause: verdict ? "person" : "system:expiry",
      permit: verdict === "approve" || verdict === "edit" ? `per_${key}` : null,
    });
    for (const run of this.runs.values()) this.#givePlanned(run);
  }

  /** Keep a file as a reviewer attaches it. Returns its digest: an answer that has it in `input` names the file. */
  async attach(name: string, content: Uint8Array, mediaType = "application/pdf"): Promise<string> {
    const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", new Uint8Array(content)));
    const digest = `sha256:${Array.from(sum, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    this.#files.set(digest, { shown: { digest, name, media_type: mediaType, size: content.length }, content });
    return digest;
  }

  /** Pause the run: at its next safe point, or at once if no worker holds it. */
  pause(runKey: string): void {
    this.#control(runKey, "pause");
  }

  /** Resume a paused run. */
  resume(runKey: string): void {
    this.#control(runKey, "continue");
  }

  /** Cancel the run: at its next safe point, or at once. Declared compensations follow. */
  cancel(runKey: string): void {
    this.#control(runKey, "cancel");
  }

  /** End the lease, as if the process that holds it had died. */
  loseLease(runKey: string): void {
    this.#endLease(this.#named(runKey), "lease_lost");
  }

  /** Resolve an unknown outcome, as its owner does. */
  resolve(runKey: string, effectKey: string, outcome: { applied: boolean; receipt?: unknown }): void {
    const run = this.#named(runKey);
    const effect = run.effects.get(effectKey);
    if (!effect) throw new TypeError(`The run ${runKey} has no effect ${effectKey}.`);
    effect.status = outcome.applied ? "applied" : "failed";
    effect.receipt = outcome.applied ? (outcome.receipt ?? null) : null;
    effect.retryable = !outcome.applied;
    this.#settle(run);
  }

  /** Refuse the next `count` calls. `status` 0: the connection fails. */
  failNext(count = 1, options: { status?: number; retryAfter?: number } = {}): void {
    const failure = { status: options.status ?? 503, retryAfter: options.retryAfter };
    for (let left = count; left > 0; left--) this.#failures.push(failure);
  }

  #named(runKey: string): FakeRun {
    const run = this.runs.get(runKey);
    if (!run) throw new TypeError(`There is no run with the key ${runKey}.`);
    return run;
  }

  #control(runKey: string, control: string): void {
    const run = this.#named(runKey);
    run.control = control;
    this.#settle(run);
  }

  // --- transport ------------------------------------------------------------------------------------------------------

  /** The `fetch` of a client of this server. */
  readonly fetch: typeof fetch = async (input, options = {}) => {
    const url = new URL(String(input));
    const path = decodeURIComponent(url.pathname).replace(/^\/api\/v1\//, "");
    const method = options.method ?? "GET";
    this.calls.push({ method, path });
    const failure = this.#failures.shift();
    if (failure?.status === 0) throw new TypeError("fetch failed");
    if (failure) {
      const headers = failure.retryAfter === undefined ? {} : { "Retry-After": String(failure.retryAfter) };
      return new Response("", { status: failure.status, headers });
    }
    try {
      const sent = typeof options.body === "string" ? options.body : "";
      if (new TextEncoder().encode(sent).length > BODY_LIMIT) {
        throw new Refusal("payload_too_large", `The body must have at most ${BODY_LIMIT} bytes.`);
      }
      const reply = this.#dispatch(method, path, sent ? loads(sent) : {}, new Headers(options.headers));
      if (reply instanceof Uint8Array) return new Response(new Uint8Array(reply));
      return new Response(dumps(reply), { headers: { "Content-Type": "application/json" } });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const problem = { code: error.code, detail: error.message, retryable: false, errors: [] };
      const headers = { "Content-Type": "application/problem+json" };
      return new Response(dumps(problem), { status: STATUS[error.code] ?? 409, headers });
    }
  };

  #dispatch(method: string, path: string, body: any, headers: Headers): unknown {
    const key = headers.get("Idempotency-Key") ?? "";
    const run = (id: string | undefined): FakeRun => {
      for (const known of this.runs.values()) if (known.id === id) return known;
      throw new Refusal("not_found");
    };
    const leased = (id: string | undefined): FakeRun => {
      const found = run(id);
      if (ENDED.includes(found.status)) throw new Refusal("run_finished");
      if (!found.leased || headers.get("Run-Lease") !== token(found)) throw new Refusal("lease_lost");
      return found;
    };
    const handlers: [string, RegExp, (...parts: string[]) => unknown][] = [
      ["POST", /^runs$/, () => this.#start(body)],
      ["GET", /^runs\/(\w+)$/, (id) => details(run(id))],
      ["GET", /^runs\/(\w+)\/interrupts$/, (id) => ({ interrupts: marks(run(id)), next: null })],
      ["GET", /^runs\/(\w+)\/steps$/, (id) => listSteps(run(id))],
      ["POST", /^continuations\/claim$/, () => this.#claimAny(key)],
      ["POST", /^continuations\/(\w+)\/claim$/, (id = "") => [this.#claim(run(id.replace("con_", "run_")), key)]],
      ["GET", /^interrupts\/(.+)\/attachments\/(sha256:\w+)$/, (_, digest = "") => this.#readFile(digest)],
      ["GET", /^interrupts\/(.+)$/, (id = "") => this.#readRequest(id)],
      ["POST", /^runs\/(\w+)\/effects\/(.+)\/outcome$/, (id, effect = "") => this.#report(run(id), effect, body)],
      ["POST", /^runs\/(\w+)\/checkpoints$/, (id) => this.#commit(leased(id), body)],
      ["POST", /^runs\/(\w+)\/interrupts$/, (id) => this.#suspend(leased(id), body)],
      ["POST", /^runs\/(\w+)\/facts$/, (id) => reportFacts(leased(id))],
      ["POST", /^runs\/(\w+)\/lease$/, (id) => sendHeartbeat(leased(id))],
      ["POST", /^runs\/(\w+)\/lease\/release$/, (id) => this.#endLease(leased(id), "handed_back")],
      ["POST", /^runs\/(\w+)\/complete$/, (id) => this.#end(leased(id), "completed", body.result)],
      ["POST", /^runs\/(\w+)\/fail$/, (id) => this.#end(leased(id), "failed", body.error)],
      ["PUT", /^runs\/(\w+)\/steps\/(.+)$/, (id, step = "") => recordStep(leased(id), step, body.result)],
      ["PUT", /^runs\/(\w+)\/effects\/(.+)$/, (id, effect = "") => this.#begin(leased(id), effect, body, key)],
    ];
    for (const [wanted, pattern, handle] of handlers) {
      const found = method === wanted ? pattern.exec(path) : null;
      if (found) return handle(...found.slice(1));
    }
    throw new Refusal("not_found", `The fake server has no ${method} ${path}.`);
  }

  // --- runs -----------------------------------------------------------------------------------------------------------

  #start(body: any): unknown {
    let run = this.runs.get(body.key);
    if (run && canonical(run.body) !== canonical(body)) throw new Refusal("key_reused");
    if (!run) {
      run = {
        id: `run_${++this.#ids}`, key: body.key, title: body.title, metadata: body.metadata ?? {}, body,
        status: "ready", result: null, checkpoint: { step: "start", state: null, format: "json" },
        number: 0, fence: 0, leased: false, attempts: 0, cause: "start", claimedWith: "", control: "continue",
        resumeWhen: "all", steps: new Map(), passed: [], effects: new Map(), requests: new Map(),
        compensating: false, heartbeats: 0,
      };
      this.runs.set(run.key, run);
    }
    return { id: run.id, key: run.key, status: run.status, epoch: 1, checkpoint: run.number, lease: null };
  }

  #claimAny(key: string): unknown[] {
    const runs = [...this.runs.values()];
    const repeated = runs.find((run) => run.leased && key && run.claimedWith === key);
    const ready = runs.find((run) => ["ready", "cancelling"].includes(run.status) && !run.leased);
    if (repeated) return [claimed(repeated)];
    return ready ? [this.#claim(ready, key)] : [];
  }

  #claim(run: FakeRun, key: string): unknown {
    if (run.leased && key && run.claimedWith === key) return claimed(run);
    if (run.leased) throw new Refusal("already_claimed");
    if (!["ready", "cancelling"].includes(run.status)) throw new Refusal("not_ready");
    run.compensating = run.status === "cancelling";
    run.leased = true;
    run.fence += 1;
    run.attempts += 1;
    run.claimedWith = key;
    run.passed = [];
    this.#settle(run);
    return claimed(run);
  }

  #endLease(run: FakeRun, cause: string): unknown {
    run.leased = false;
    run.fence += 1;
    run.cause = cause;
    markUnknown(run);
    this.#settle(run);
    return { id: run.id, status: run.status };
  }

  #end(run: FakeRun, status: string, result: unknown): unknown {
    if (run.control === "cancel") throw new Refusal("run_cancelled");
    if (some(run, ({ status }) => status === "intended" || status === "unknown")) throw new Refusal("in_doubt");
    run.result = result;
    run.leased = false;
    if (status === "failed") {
      run.control = "fail";
      this.#settle(run);
    } else run.status = status;
    return { id: run.id, status: run.status };
  }

  /** Compute the status, as the server does. */
  #settle(run: FakeRun): void {
    if (ENDED.includes(run.status)) return;
    const requests = [...run.requests.values()];
    let waiting = requests.filter((request) => request.status === "waiting");
    const answered = requests.some((request) => request.number === run.number && request.status === "answered");
    if (run.resumeWhen === "any" && answered) {
      for (const request of waiting) request.status = "superseded";
      waiting = [];
    }
    if (run.leased) run.status = run.compensating ? "cancelling" : "running";
    else if (run.control === "cancel" || run.control === "fail") {
      const ending = run.control === "cancel" ? "cancelled" : "failed";
      run.status = some(run, mustBeCompensated) ? "cancelling" : ending;
    } else if (run.control === "pause") run.status = "paused";
    else if (some(run, (effect) => effect.status === "unknown" && effect.repeat === "never")) run.status = "blocked";
    else run.status = waiting.length ? "waiting" : "ready";
  }

  // --- checkpoints and requests ---------------------------------------------------------------------------------------

  #commit(run: FakeRun, body: any): unknown {
    writeCheckpoint(run, body.after, body);
    if (run.control !== "continue") {
      run.leased = false;
      markUnknown(run);
    }
    this.#settle(run);
    return { number: run.number, digest: "", ...instruction(run) };
  }

  #suspend(run: FakeRun, body: any): unknown {
    if (some(run, ({ status }) => status === "intended")) throw new Refusal("in_doubt");
    if (run.control === "cancel") throw new Refusal("run_cancelled");
    writeCheckpoint(run, body.after, body.checkpoint);
    run.resumeWhen = body.resume_when ?? "all";
    run.leased = false;
    for (const asked of body.interrupts) {
      const request = { key: asked.key, asked, number: run.number, status: "waiting", answer: undefined };
      run.requests.set(asked.key, request);
    }
    this.#givePlanned(run);
    return { run: { id: run.id, status: run.status }, interrupts: marks(run), answers: {}, cancel_effects: [] };
  }

  #givePlanned(run: FakeRun): void {
    for (const [key, request] of run.requests) {
      const planned = this.#planned.get(key);
      if (request.status !== "waiting" || !planned) continue;
      this.#planned.delete(key);
      const attachments = this.#filesOf(requestId(run, key), planned.input);
      request.status = "answered";
      request.answer = attachments.length ? { ...planned, attachments } : planned;
    }
    this.#settle(run);
  }

  /** Return the files that an answer names, anywhere in it. */
  #filesOf(interrupt: string, answer: unknown): Attachment[] {
    const text = dumps(answer);
    const named = [...this.#files.values()].filter(({ shown }) => text.includes(`"${shown.digest}"`));
    const place = `/api/v1/interrupts/${encodeURIComponent(interrupt)}/attachments`;
    return named.map(({ shown }) => ({ ...shown, url: `${place}/${shown.digest}` }));
  }

  #readFile(digest: string): Uint8Array {
    const file = this.#files.get(digest);
    if (!file) throw new Refusal("not_found");
    return file.content;
  }

  #readRequest(id: string): unknown {
    for (const run of this.runs.values()) {
      for (const [key, request] of run.requests) {
        if (requestId(run, key) === id && request.status === "waiting") {
          throw new MissingAnswer(`The request '${key}' has no answer: call FakeServer.answer('${key}', ...) first.`);
        }
      }
    }
    return { id, status: "answered" };
  }

  // --- effects --------------------------------------------------------------------------------------------------------

  #begin(run: FakeRun, key: string, body: any, requestKey: string): unknown {
    if (run.control === "pause") throw new Refusal("run_paused");
    if (["cancel", "fail"].includes(run.control) && !run.compensating) throw new Refusal("run_cancelled");
    let effect = run.effects.get(key);
    if (!effect) {
      effect = newEffect(run, key, body);
      run.effects.set(key, effect);
    } else if (effect.status === "applied" || (effect.status === "failed" && !effect.retryable)) {
      return { key, status: effect.status, perform: false, receipt: effect.receipt, error: effect.error };
    } else if (effect.status === "compensated") {
      throw new Refusal("was_compensated");
    } else if (effect.requestKey !== requestKey || effect.fence !== run.fence) {
      if (["intended", "unknown"].includes(effect.status) && effect.repeat === "never") {
        effect.status = "unknown";
        throw new Refusal("in_doubt");
      }
      effect.attempt += 1;
      effect.status = "intended";
    }
    effect.requestKey = requestKey;
    effect.fence = run.fence;
    const { attempt } = effect;
    return { key, status: "intended", perform: true, attempt, attempt_token: `att_${attempt}`, arguments: effect.arguments };
  }

  #report(run: FakeRun, key: string, body: any): unknown {
    const effect = run.effects.get(key);
    if (!effect) throw new Refusal("not_found");
    effect.status = body.status;
    effect.receipt = body.receipt ?? null;
    effect.error = body.error ?? null;
    effect.retryable = body.retryable ?? false;
    if (run.compensating && effect.status === "applied") {
      const undone = run.effects.get(undoes(key));
      if (undone) undone.status = "compensated";
      if (!some(run, mustBeCompensated)) run.leased = run.compensating = false;
    }
    this.#settle(run);
    return { key, status: effect.status };
  }
}

function token(run: FakeRun): string {
  return `lse_${run.id}_${run.fence}`;
}

function requestId(run: FakeRun, key: string): string {
  return `int_${run.id.slice(4)}_${key}`;
}

function undoes(key: string): string {
  return key.replace(/^undo:/, "");
}

function some(run: FakeRun, condition: (effect: FakeEffect) => boolean): boolean {
  return [...run.effects.values()].some(condition);
}

function mustBeCompensated(effect: FakeEffect): boolean {
  return effect.compensation !== undefined && effect.status === "applied";
}

function markUnknown(run: FakeRun): void {
  for (const effect of run.effects.values()) if (effect.status === "intended") effect.status = "unknown";
}

function instruction(run: FakeRun): { control: string } {
  return { control: run.compensating ? "continue" : run.control };
}

function sendHeartbeat(run: FakeRun): unknown {
  run.heartbeats += 1;
  return instruction(run);
}

function reportFacts(_: FakeRun): unknown {
  return { control: "continue", changed: [] };
}

function marks(run: FakeRun): unknown[] {
  return [...run.requests].map(([key, { status }]) => ({ id: requestId(run, key), key, status }));
}

function details(run: FakeRun): unknown {
  const isOpen = ["ready", "running", "cancelling"].includes(run.status) && !run.leased;
  const hasResult = run.status === "completed" || run.status === "failed";
  return {
    id: run.id,
    key: run.key,
    status: run.status,
    lease: run.leased ? { fence: run.fence } : null,
    continuation: isOpen ? run.id.replace("run_", "con_") : null,
    outcome: hasResult ? { kind: run.status, result: run.result } : null,
  };
}

function claimed(run: FakeRun): unknown {
  const { id, key, title, metadata, compensating } = run;
  const answers = [...run.requests].flatMap(([name, { answer }]) => (answer ? [[name, { ...answer, new: true }]] : []));
  const due = [...run.effects.values()].filter(mustBeCompensated).reverse();
  const compensations = due.map((it) => ({ key: `undo:${it.key}`, undoes: it.key, receipt: it.receipt, ...it.compensation }));
  return {
    id: id.replace("run_", "con_"),
    kind: compensating ? "compensate" : "resume",
    cause: run.cause,
    attempt: run.attempts,
    run: { id, key, title, epoch: 1, code_version: run.body.code_version ?? "", metadata },
    lease: { token: token(run), fence: run.fence },
    checkpoint: { number: run.number, ...run.checkpoint },
    answers: compensating ? {} : Object.fromEntries(answers),
    overtaken: {}, changed: [], facts: [], effects: [], permits: [],
    compensations: compensating ? compensations : [],
  };
}

function writeCheckpoint(run: FakeRun, after: number, content: any): void {
  if (after !== run.number) throw new Refusal("stale_version");
  run.checkpoint = { step: content.step, state: content.state ?? null, format: content.format ?? "json" };
  run.number += 1;
  run.attempts = 0;
  run.steps = new Map();
  run.cause = "person";
}

function listSteps(run: FakeRun): unknown {
  return { after: run.number, steps: [...run.steps].map(([name, result]) => ({ name, result })), next: null };
}

function recordStep(run: FakeRun, name: string, result: unknown): unknown {
  if (!run.passed.includes(name)) {
    const place = run.passed.length;
    const names = [...run.steps.keys()];
    if (place < names.length ? names[place] !== name : names.includes(name)) {
      throw new Refusal("step_mismatch", `Step ${place + 1} is not recorded as '${name}'.`);
    }
    if (!run.steps.has(name)) run.steps.set(name, result);
    run.passed.push(name);
  }
  return { name, result: run.steps.get(name), ...instruction(run) };
}

function newEffect(run: FakeRun, key: string, body: any): FakeEffect {
  let args = body.arguments;
  if (body.permit) {
    const request = run.requests.get(body.permit.slice("per_".length));
    const proposal = request?.asked.proposal;
    if (!request?.answer || !proposal) throw new Refusal("call_not_approved");
    const approved = request.answer.verdict === "edit" ? request.answer.arguments : proposal.arguments;
    if (args !== undefined && canonical(args) !== canonical(approved)) throw new Refusal("call_not_approved");
    if (body.name !== proposal.name) {
      throw new Refusal("call_not_approved", `${proposal.name} is approved, not ${body.name}.`);
    }
    args = approved;
  }
  if (run.compensating) args = run.effects.get(undoes(key))?.compensation?.arguments;
  return {
    key, name: body.name, arguments: args, repeat: body.repeat ?? "never", compensation: body.compensation,
    status: "intended", attempt: 1, receipt: null, error: null, retryable: false, requestKey: "", fence: 0,
  };
}

/** Return JSON text that is the same for values that differ in the order of members only. */
function canonical(value: unknown): string {
  const sorted = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(sorted);
    if (part === null || typeof part !== "object" || Object.getPrototypeOf(part) !== Object.prototype) return part;
    return Object.fromEntries(Object.entries(part).sort().map(([name, inner]) => [name, sorted(inner)]));
  };
  return dumps(sorted(value));
}
