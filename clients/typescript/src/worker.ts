import { sleep, type Client } from "./client.js";
import { Refused, ReviewQueueError, Stopped } from "./errors.js";
import { Run, type CompensationFunction, type RunFunction } from "./run.js";
import type { Claim } from "./values.js";

export interface WorkerOptions {
  codeVersion?: string;
  accepts?: string[];
  leaseSeconds?: number;
  /** Seconds of a long poll, and so the longest time until an idle worker ends after SIGTERM; at most 30. */
  wait?: number;
  /** Called with an error of a function or of a claim; writes to the console when left out. */
  onError?: (error: unknown, run: string) => void;
}

/** Claims runs of one agent, one at a time; start more processes to work on more runs at once. */
export class Worker {
  readonly #client: Client;
  readonly #options: WorkerOptions;
  readonly #leaseSeconds: number;
  readonly #steps = new Map<string, RunFunction>();
  readonly #compensations = new Map<string, CompensationFunction>();
  #everyStep: RunFunction | undefined;
  #stopping = false;
  #current: Run | undefined;

  constructor(client: Client, options: WorkerOptions) {
    this.#client = client;
    this.#options = options;
    this.#leaseSeconds = options.leaseSeconds ?? 60;
  }

  /** Register the function of a step. A new run begins at the step `start`, a run of `POST asks` at `ask`. */
  step(name: string, work: RunFunction): this {
    this.#steps.set(name, work);
    return this;
  }

  /** Register one function for every step that has none of its own. */
  everyStep(work: RunFunction): this {
    this.#everyStep = work;
    return this;
  }

  /** Register the function of a compensation. It gets the arguments, and the receipt of the effect to undo. */
  compensation(name: string, undo: CompensationFunction): this {
    this.#compensations.set(name, undo);
    return this;
  }

  /** Work until `stop` is called or, in Node, the process gets SIGTERM or SIGINT. */
  async run(): Promise<void> {
    for (const signal of ["SIGTERM", "SIGINT"]) globalThis.process?.once?.(signal, () => this.stop());
    for (let failures = 0; !this.#stopping; ) {
      try {
        await this.runOnce();
        failures = 0;
      } catch (error) {
        const isFinal = error instanceof Refused && !error.retryable && error.code !== "agent_halted";
        if (isFinal || !(error instanceof ReviewQueueError)) throw error;
        this.#report(error, "");
        await sleep(this.#client.backoff(++failures));
      }
    }
  }

  /** Claim at most one run and work on it. Returns how many runs were claimed: 0 or 1. */
  async runOnce(wait = this.#options.wait ?? 10): Promise<number> {
    const { codeVersion, accepts } = this.#options;
    const body = {
      max: 1,
      wait,
      lease_seconds: this.#leaseSeconds,
      ...(codeVersion ? { code_version: codeVersion } : {}),
      ...(accepts?.length ? { accepts } : {}),
    };
    const idempotencyKey = crypto.randomUUID();
    const claimed = await this.#client.exchange<Claim[]>("POST", "continuations/claim", body, { idempotencyKey, wait });
    for (const claim of claimed.content) {
      try {
        await this.perform(claim);
      } catch (error) {
        this.#report(error, claim.run.key);
      }
    }
    if (!claimed.content.length) await sleep(claimed.retryAfter);
    return claimed.content.length;
  }

  /** Let the worker end: a run stops at its next safe point and is released. */
  stop(): void {
    this.#stopping = true;
    this.#current?.stop();
  }

  /** Work on a claimed run until it is suspended, stopped or ended. Errors of functions are thrown. */
  async perform(claim: Claim): Promise<void> {
    const run = new Run(this.#client, claim, this.#leaseSeconds);
    this.#current = run;
    if (this.#stopping) run.stop();
    run.startHeartbeat();
    try {
      if (claim.kind === "compensate") await this.#compensate(run, claim);
      else await this.#continue(run);
    } catch (error) {
      if (error instanceof Stopped) return;
      if (run.attempt > 1) await sleep(this.#client.backoff(run.attempt - 1)); // not claimed again in a tight loop
      const isIncompatible = error instanceof Refused && error.code === "step_mismatch";
      await run.release(isIncompatible ? "incompatible" : "retry", String(error));
      throw error;
    } finally {
      run.endHeartbeat();
      this.#current = undefined;
    }
  }

  async #continue(run: Run): Promise<void> {
    await run.readMoreAnswers();
    for (;;) {
      const step = run.stepName;
      const number = run.checkpointNumber;
      const work = this.#steps.get(step) ?? this.#everyStep;
      if (!work) return run.release("unknown_checkpoint", `no function is registered for the step ${step}`);
      const result = await work(run);
      if (run.ended) return;
      // A checkpoint can continue at the same step.
      if (run.checkpointNumber === number) return run.complete(result);
    }
  }

  async #compensate(run: Run, claim: Claim): Promise<void> {
    let due = claim.compensations;
    let hasMore = Boolean(claim.more_compensations);
    while (due.length) {
      for (const effect of due) {
        const undo = this.#compensations.get(effect.name);
        if (!undo) throw new Error(`No function is registered for the compensation ${effect.name}.`);
        await run.compensate(effect, undo);
      }
      if (!hasMore) break;
      const page = await this.#client.call("GET", `runs/${run.id}/compensations`);
      due = page.compensations;
      hasMore = page.more;
    }
    run.ended = true;
  }

  #report(error: unknown, run: string): void {
    if (this.#options.onError) this.#options.onError(error, run);
    else console.error(`reviewqueue-client: ${run}`, error);
  }
}
