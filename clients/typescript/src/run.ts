import { sleep, type Client } from "./client.js";
import { EffectFailed, NotPerformed, Refused, ReviewQueueError, RunEnded, Stopped, Unreachable } from "./errors.js";
import { dumps } from "./exact-json.js";
import {
  STATE_FORMAT,
  packState,
  unpackState,
  type Answer,
  type Attachment,
  type Claim,
  type EffectOptions,
  type Question,
  type Request,
  type Steps,
} from "./values.js";

/** The lease has ended: another worker continues, or none does. */
const LOST = new Set(["lease_lost", "facts_changed", "approval_lost", "run_finished"]);
/** A person must act before any worker can continue; the lease is released. */
const BLOCKED = new Set(["agent_halted", "in_doubt", "was_compensated", "record_changed", "file_spoilt"]);
/** The server's own stop: a checkpoint ends the lease. */
const STOPPING = new Set(["run_paused", "run_cancelled"]);
const ENDED = new Set(["completed", "failed", "cancelled", "expired"]);
/** The causes of a `fetch` that sent nothing. */
const NOT_CONNECTED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"]);

export type RunFunction = (run: Run) => unknown;
export type CompensationFunction = (args: any, receipt: any) => unknown;

/**
 * A run that this process holds the lease of. A function gets it, and can be executed again from its beginning: names of
 * steps and keys of effects and requests must be the same in every execution.
 */
export class Run {
  readonly id: string;
  readonly key: string;
  readonly title: string;
  readonly epoch: number;
  readonly metadata: Record<string, unknown>;
  readonly cause: string;
  readonly attempt: number;
  readonly answers: Record<string, Answer>;
  readonly overtaken: Record<string, Answer>;
  readonly changed: Claim["changed"];
  readonly facts: Claim["facts"];
  readonly compensatedSince: string[];
  stepName: string;
  state: any;
  ended = false;

  readonly #client: Client;
  readonly #lease: string;
  readonly #leaseSeconds: number;
  #number: number;
  #carried: Steps;
  #done: Steps = {};
  #used = new Set<string>();
  #recorded: Steps | undefined;
  #stop = "";
  #hasMoreAnswers: boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Client, claim: Claim, leaseSeconds: number) {
    this.#client = client;
    this.#lease = claim.lease.token;
    this.#leaseSeconds = leaseSeconds;
    this.id = claim.run.id;
    this.key = claim.run.key;
    this.title = claim.run.title;
    this.epoch = claim.run.epoch;
    this.metadata = claim.run.metadata;
    this.cause = claim.cause;
    this.attempt = claim.attempt;
    this.answers = { ...claim.answers };
    this.overtaken = { ...claim.overtaken };
    this.#hasMoreAnswers = Boolean(claim.more_answers);
    this.changed = claim.changed;
    this.facts = claim.facts;
    this.compensatedSince = claim.checkpoint.compensated_since ?? [];
    this.stepName = claim.checkpoint.step;
    this.#number = claim.checkpoint.number;
    const { state, steps } = unpackState(claim.checkpoint);
    this.state = state;
    // After a changed fact, what was computed from it must be computed again.
    this.#carried = Object.keys(this.overtaken).length ? {} : steps;
    this.#recorded = this.attempt <= 1 ? {} : undefined;
  }

  /** Read the answers that the claim did not list, if there are any; `answers` and `overtaken` are whole then. */
  async readMoreAnswers(): Promise<void> {
    for (let next: string | null = this.#hasMoreAnswers ? "" : null; next !== null; ) {
      const more: string = next ? `&next=${encodeURIComponent(next)}` : "";
      const page: any = await this.#client.call("GET", `runs/${this.id}/answers?limit=100${more}`);
      for (const sent of page.answers) (sent.overtaken ? this.overtaken : this.answers)[sent.key] = sent;
      next = page.next;
    }
    this.#hasMoreAnswers = false;
    if (Object.keys(this.overtaken).length) this.#carried = {};
  }

  /** The number of the last checkpoint; each new one has a higher number. */
  get checkpointNumber(): number {
    return this.#number;
  }

  // --- steps ----------------------------------------------------------------------------------------------------------

  /**
   * Return the recorded result of the step, or call `work` and record its result, a JSON value. A step can be executed
   * again if the process dies before its result is recorded: calls to the outside world belong into `effect`.
   */
  async step<T = any>(name: string, work: () => T | Promise<T>): Promise<T> {
    if (this.#used.has(name)) throw new Error(`The step name '${name}' is used twice. Number the steps of a loop.`);
    if (Object.hasOwn(this.#carried, name)) {
      this.#used.add(name);
      return this.#carried[name] as T;
    }
    await this.#safePoint();
    const recorded = await this.#recordedSteps();
    const result = Object.hasOwn(recorded, name) ? recorded[name] : await work();
    const reply = await this.#call("PUT", `steps/${encodeURIComponent(name)}`, { result: result ?? null });
    this.#used.add(name);
    this.#done[name] = reply.result;
    this.#obey(reply);
    await this.#safePoint();
    return reply.result as T;
  }

  async #recordedSteps(): Promise<Steps> {
    if (this.#recorded === undefined) {
      const found: Steps = {};
      for (let next: string | null = ""; next !== null; ) {
        const more: string = next ? `?next=${encodeURIComponent(next)}` : "";
        const page: any = await this.#client.call("GET", `runs/${this.id}/steps${more}`);
        for (const step of page.steps) found[step.name] = step.result;
        next = page.next;
      }
      this.#recorded = found;
    }
    return this.#recorded;
  }

  // --- effects --------------------------------------------------------------------------------------------------------

  /**
   * Perform a call to the outside world once, and return its receipt. `perform` gets the arguments: with a `permit` those
   * that people approved. `name` is the function's name when left out. A receipt that is not a JSON value, or that the
   * server refuses, is returned now; recorded is `{ receipt_not_recorded: reason }`.
   */
  async effect<T = any>(key: string, perform: (args: any) => T | Promise<T>, options: EffectOptions = {}): Promise<T> {
    await this.#safePoint();
    const body = {
      name: options.name ?? perform.name,
      repeat: options.repeat ?? "never",
      ...(options.permit ? { permit: options.permit } : {}),
      ...(options.permit && options.arguments === undefined ? {} : { arguments: options.arguments ?? {} }),
      ...(options.stableKey === false ? { stable_key: false } : {}),
      ...(options.inFlight ? { in_flight: options.inFlight } : {}),
      ...(options.compensation ? { compensation: options.compensation } : {}),
      ...(options.probe ? { probe: options.probe } : {}),
    };
    return (await this.#perform(key, body, perform)) as T;
  }

  async #perform(key: string, body: unknown, perform: (args: any) => unknown): Promise<unknown> {
    const path = `effects/${encodeURIComponent(key)}`;
    const begun = await this.#call("PUT", path, body, crypto.randomUUID());
    if (!begun.perform) {
      if (begun.status === "failed") throw new EffectFailed(key, begun.error);
      return begun.receipt;
    }
    const report = (outcome: object): Promise<unknown> =>
      this.#client.call("POST", `runs/${this.id}/${path}/outcome`, { attempt_token: begun.attempt_token, ...outcome });
    let receipt: unknown;
    try {
      receipt = (await perform(begun.arguments)) ?? null;
    } catch (error) {
      let outcome: object = { status: "unknown" };
      if (error instanceof NotPerformed) outcome = { status: "failed", retryable: error.retryable };
      else if (isNotConnected(error)) outcome = { status: "failed", retryable: true };
      try {
        await report({ ...outcome, error: plain(String(error), 2000) });
      } catch (problem) {
        console.error(`reviewqueue-client: the outcome of ${key} of the run ${this.key} was not reported`, problem);
      }
      throw error;
    }
    const reason = await this.#reportApplied(report, receipt);
    if (reason) {
      console.warn(`reviewqueue-client: the receipt of ${key} of the run ${this.key} was not recorded: ${reason}`);
      await report({ status: "applied", receipt: { receipt_not_recorded: plain(reason, 2000) } });
    }
    return receipt;
  }

  /** Report the receipt. Returns why it cannot be recorded: it is not JSON, or the server refuses it. */
  async #reportApplied(report: (outcome: object) => Promise<unknown>, receipt: unknown): Promise<string> {
    try {
      dumps(receipt);
    } catch (error) {
      return String(error);
    }
    try {
      await report({ status: "applied", receipt });
    } catch (problem) {
      if (!((problem instanceof Refused || problem instanceof Unreachable) && problem.isFinal)) throw problem;
      return problem.message;
    }
    return "";
  }

  /** Perform a compensation of a claim. */
  async compensate(due: Claim["compensations"][number], undo: CompensationFunction): Promise<void> {
    await this.#perform(due.key, { name: due.name }, (args) => undo(args, due.receipt));
  }

  // --- requests to people ---------------------------------------------------------------------------------------------

  /** Return the answer to the request with this key; without one, suspend the run until people answer. */
  async ask(key: string, question: Question): Promise<Answer> {
    return (await this.askAll([{ ...question, key }]))[key] as Answer;
  }

  /** Ask several requests at once and return the answers by key. `anyOf`: the first answer is enough. */
  async askAll(requests: Request[], options: { anyOf?: boolean } = {}): Promise<Record<string, Answer>> {
    const given = () => Object.fromEntries(
      requests.flatMap(({ key }) => (this.answers[key] ? [[key, this.answers[key]] as const] : [])),
    );
    const known = Object.keys(given()).length;
    if (known === requests.length || (options.anyOf && known)) return given();
    await this.#safePoint();
    const reply = await this.#call("POST", "interrupts", {
      after: this.#number,
      checkpoint: this.#checkpoint(),
      interrupts: requests.filter(({ key }) => !this.answers[key]),
      resume_when: options.anyOf ? "any" : "all",
    });
    if (reply.run.status !== "running") this.#end("suspended");
    Object.assign(this.answers, reply.answers);
    return given();
  }

  /** Return the verified bytes of a file that a reviewer attached (`Client.download`). */
  async download(attachment: Attachment): Promise<Uint8Array> {
    return this.#client.download(attachment);
  }

  /** Report the facts that this worker checks. Returns `continue`, or `refresh` if a credential is not valid. */
  async reportFacts(values: Record<string, unknown>): Promise<"continue" | "refresh"> {
    const facts = Object.entries(values).map(([name, value]) => ({ name, value }));
    const judged = await this.#call("POST", "facts", { facts });
    if (judged.control === "replan" || judged.control === "renew") this.#end("facts_changed");
    return judged.control;
  }

  // --- checkpoints and the end ----------------------------------------------------------------------------------------

  /**
   * Commit a checkpoint: any process continues at `step` with `state`. A function of a worker returns after this, and the
   * worker calls the function of `step`.
   */
  async checkpoint(step: string, state: unknown = null): Promise<void> {
    const content = { step, state: packState(state, {}), format: STATE_FORMAT, after: this.#number };
    const reached = await this.#call("POST", "checkpoints", content);
    this.#number = reached.number;
    if (reached.control !== "continue") this.#end(reached.control);
    this.stepName = step;
    this.state = state;
    this.#carried = {};
    this.#done = {};
    this.#used = new Set();
    this.#recorded = {};
    await this.#safePoint();
  }

  #checkpoint(): object {
    const state = packState(this.state, { ...this.#carried, ...this.#done });
    return { step: this.stepName, state, format: STATE_FORMAT };
  }

  /** Tell people what the run does now. This is also a heartbeat. */
  async progress(text: string, more: { done?: number; of?: number; spent?: string } = {}): Promise<void> {
    this.#obey(await this.#call("POST", "lease", { progress: { text, ...more } }));
    await this.#safePoint();
  }

  /** Complete the run. A function that returns does the same with its result. */
  async complete(result: unknown = null): Promise<void> {
    await this.#call("POST", "complete", { result: result ?? null });
    this.ended = true;
  }

  /** End the run as failed. Declared compensations follow. */
  async fail(error: unknown): Promise<void> {
    await this.#call("POST", "fail", { error });
    this.ended = true;
  }

  /** Return the run, so that another worker can claim it at once. */
  async release(reason: "retry" | "incompatible" | "unknown_checkpoint" = "retry", detail = ""): Promise<void> {
    this.#stop = "released";
    const body = { reason, detail: plain(detail, 300) };
    await this.#ignoringRefusals(this.#client.call("POST", `runs/${this.id}/lease/release`, body, { lease: this.#lease }));
  }

  // --- the lease ------------------------------------------------------------------------------------------------------

  async #call(method: string, path: string, body: unknown, idempotencyKey = ""): Promise<any> {
    try {
      return await this.#client.call(method, `runs/${this.id}/${path}`, body, { lease: this.#lease, idempotencyKey });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (STOPPING.has(error.code)) await this.#stopHere();
      else if (BLOCKED.has(error.code)) await this.release("retry", error.code);
      else if (!LOST.has(error.code)) throw error;
      return this.#end(error.code);
    }
  }

  #end(reason: string): never {
    this.#stop = reason === "pause" || reason === "cancel" ? "stopped" : reason;
    throw new Stopped(reason);
  }

  async #stopHere(): Promise<void> {
    this.#stop = "stopped";
    const content = { ...this.#checkpoint(), after: this.#number };
    await this.#ignoringRefusals(this.#client.call("POST", `runs/${this.id}/checkpoints`, content, { lease: this.#lease }));
  }

  async #ignoringRefusals(call: Promise<unknown>): Promise<void> {
    try {
      await call;
    } catch (error) {
      if (!(error instanceof Refused)) throw error; // a refusal says that the lease has ended already
    }
  }

  #obey(reply: { control: string }): void {
    if (reply.control !== "continue" && !this.#stop) this.#stop = reply.control;
  }

  async #safePoint(): Promise<void> {
    const reason = this.#stop;
    if (!reason) return;
    if (reason === "pause" || reason === "cancel") await this.#stopHere();
    if (reason === "shutdown") await this.release("retry", "the worker shuts down");
    throw new Stopped(reason);
  }

  /** Let the run stop at its next safe point and return it. */
  stop(): void {
    this.#stop ||= "shutdown";
  }

  /** Send heartbeats until `endHeartbeat`. */
  startHeartbeat(): void {
    const beat = async (): Promise<void> => {
      if (!this.#needsHeartbeat()) return;
      try {
        const reply = await this.#client.call("POST", `runs/${this.id}/lease`, {}, { lease: this.#lease, attempts: 2 });
        this.#obey(reply);
      } catch (error) {
        if (error instanceof Refused && LOST.has(error.code)) this.#stop ||= error.code;
        else if (!(error instanceof ReviewQueueError)) throw error;
      }
      if (this.#timer !== undefined && this.#needsHeartbeat()) this.#timer = setTimeout(beat, pause);
    };
    const pause = (this.#leaseSeconds * 1000) / 3;
    this.#timer = setTimeout(beat, pause);
  }

  #needsHeartbeat(): boolean {
    return !this.ended && !["stopped", "released", "suspended"].includes(this.#stop) && !LOST.has(this.#stop);
  }

  endHeartbeat(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** Return a text that the server accepts as an error: without lone surrogates and NUL, and not too long. */
function plain(text: string, maxLength: number): string {
  return text.slice(0, maxLength).replace(/[\0\p{Surrogate}]/gu, "\ufffd");
}

function isNotConnected(error: unknown): boolean {
  const cause = error instanceof Error ? ((error as any).code ?? (error.cause as any)?.code) : undefined;
  return NOT_CONNECTED.has(cause);
}

export interface ExecuteOptions {
  leaseSeconds?: number;
  compensations?: Record<string, CompensationFunction>;
}

/** A run that was started or found by its key. `execute` carries it to its end, in this process. */
export class RunHandle {
  readonly id: string;
  readonly key: string;
  readonly #client: Client;
  readonly #codeVersion: string;

  constructor(client: Client, started: { id: string; key: string }, codeVersion: string) {
    this.#client = client;
    this.#codeVersion = codeVersion;
    this.id = started.id;
    this.key = started.key;
  }

  /** Return the run as the server describes it (`GET runs/{id}`). */
  async details(): Promise<any> {
    return this.#client.call("GET", `runs/${this.id}`);
  }

  /**
   * Call `work` with the run until it returns, and return the result that the run was completed with. While people decide,
   * this process waits. If it is killed, start it again: recorded results, answers and receipts are returned instead of
   * repeating work. Throws `RunEnded` if the run ended without a result.
   */
  async execute(work: RunFunction, options: ExecuteOptions = {}): Promise<any> {
    const leaseSeconds = options.leaseSeconds ?? 30;
    const worker = this.#client.worker({ codeVersion: this.#codeVersion, leaseSeconds }).everyStep(work);
    for (const [name, undo] of Object.entries(options.compensations ?? {})) worker.compensation(name, undo);
    for (let idle = 0; ; ) {
      const { status, continuation, lease, outcome } = await this.details();
      if (status === "completed") return outcome?.result ?? null;
      if (ENDED.has(status)) throw new RunEnded(this.id, status, outcome?.result ?? null);
      const isOffered = continuation !== null && lease === null && status !== "revalidating";
      const claimed = isOffered ? await this.#claim(continuation, leaseSeconds) : null;
      if (claimed) {
        idle = 0;
        await worker.perform(claimed);
      } else if (status === "waiting") {
        await this.#waitForAnAnswer();
      } else {
        await sleep(Math.min(2, 0.1 * 1.5 ** Math.min(++idle, 20)));
      }
    }
  }

  async #claim(continuation: string, leaseSeconds: number): Promise<Claim | null> {
    const body = { lease_seconds: leaseSeconds, ...(this.#codeVersion ? { code_version: this.#codeVersion } : {}) };
    try {
      const idempotencyKey = crypto.randomUUID();
      const claimed = await this.#client.call<Claim[]>("POST", `continuations/${continuation}/claim`, body, { idempotencyKey });
      return claimed[0] ?? null;
    } catch (error) {
      const passing = ["already_claimed", "not_ready", "not_found", "agent_halted"];
      if (error instanceof Refused && passing.includes(error.code)) return null;
      throw error;
    }
  }

  async #waitForAnAnswer(): Promise<void> {
    const page = await this.#client.call("GET", `runs/${this.id}/interrupts?limit=100`);
    const waiting = page.interrupts.filter((interrupt: { status: string }) => interrupt.status === "waiting");
    if (!waiting.length) return;
    const wait = waiting.length === 1 ? 30 : 5;
    const { retryAfter } = await this.#client.exchange("GET", `interrupts/${waiting[0].id}?wait=${wait}`, undefined, { wait });
    await sleep(retryAfter);
  }
}
