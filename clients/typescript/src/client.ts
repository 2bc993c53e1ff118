import { DigestMismatch, RETRYABLE, Refused, ReviewQueueError, Unreachable, type Problem } from "./errors.js";
import { dumps, loads } from "./exact-json.js";
import { RunHandle } from "./run.js";
import type { Attachment, Request } from "./values.js";
import { Worker, type WorkerOptions } from "./worker.js";

const API = "/api/v1/";
/** Where the server has the bytes of an attachment. Anything else could lead the agent's key to another place. */
const ATTACHMENT_URL = /^\/api\/v1\/interrupts\/int_[A-Za-z0-9_.~%!*'()-]+\/attachments\/sha256:[0-9a-f]+$/;

export interface ClientOptions {
  /** Address of the server; `REVIEW_QUEUE` of the environment when left out. */
  server?: string;
  /** Key of the agent; `REVIEW_QUEUE_KEY` of the environment when left out. */
  key?: string;
  /** How often a request is sent at most, the shortest and the longest backoff, in seconds. */
  retries?: { attempts?: number; base?: number; cap?: number };
  /** Seconds for a request, without the time of a long poll. */
  timeout?: number;
  fetch?: typeof fetch;
}

export interface CallOptions {
  lease?: string;
  idempotencyKey?: string;
  attempts?: number;
  wait?: number;
}

export interface RunOptions {
  title?: string;
  codeVersion?: string;
  initiator?: string;
  parent?: string;
  metadata?: Record<string, unknown>;
}

/** A connection to one server with one agent's key. */
export class Client {
  readonly #address: string;
  readonly #key: string;
  readonly #attempts: number;
  readonly #base: number;
  readonly #cap: number;
  readonly #timeout: number;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    this.#address = `${(options.server ?? environment("REVIEW_QUEUE")).replace(/\/+$/, "")}${API}`;
    this.#key = options.key ?? environment("REVIEW_QUEUE_KEY");
    this.#attempts = options.retries?.attempts ?? 8;
    this.#base = options.retries?.base ?? 0.5;
    this.#cap = options.retries?.cap ?? 30;
    this.#timeout = options.timeout ?? 30;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** Exponential backoff with full jitter, in seconds, and never sooner than the server's `Retry-After`. */
  backoff(attempt: number, retryAfter = 0): number {
    const delay = Math.random() * Math.min(this.#cap, this.#base * 2 ** Math.min(attempt, 16));
    return Math.max(delay, retryAfter);
  }

  /**
   * Call any operation of the API (`path` below `/api/v1/`) and return its JSON. Sends the request again if the connection
   * fails or the server says that it is retryable: every request of this client is safe to repeat.
   */
  async call<T = any>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
    return (await this.exchange<T>(method, path, body, options)).content;
  }

  /** Do the same as `call`, and also return the seconds of `Retry-After`. */
  async exchange<T = any>(
    method: string,
    path: string,
    body?: unknown,
    options: CallOptions = {},
  ): Promise<{ content: T; retryAfter: number }> {
    return this.#send(method, path, body, options, async (response) => loads(await response.text()) as T);
  }

  /**
   * Return the bytes of a file that a reviewer attached. A person chose them: treat them as untrusted input. Throws
   * `DigestMismatch` if they are not the bytes that the answer names, `Refused` if they are erased or damaged.
   */
  async download(attachment: Attachment): Promise<Uint8Array> {
    const { digest, url } = attachment;
    if (!ATTACHMENT_URL.test(url)) {
      throw new TypeError(`The URL of an attachment must be ${API}interrupts/ID/attachments/DIGEST (got ${url}).`);
    }
    const read = async (response: Response) => new Uint8Array(await response.arrayBuffer());
    const { content } = await this.#send("GET", url.slice(API.length), undefined, {}, read);
    const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
    const arrived = `sha256:${Array.from(sum, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    if (arrived !== digest) throw new DigestMismatch(digest, arrived);
    return content;
  }

  async #send<T>(
    method: string,
    path: string,
    body: unknown,
    options: CallOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<{ content: T; retryAfter: number }> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#key}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (options.lease) headers["Run-Lease"] = options.lease;
    if (options.idempotencyKey) headers["Idempotency-Key"] = options.idempotencyKey;
    const sent = body === undefined ? null : dumps(body);
    const last = options.attempts ?? this.#attempts;
    for (let attempt = 1; ; attempt++) {
      let problem: Refused | Unreachable;
      let retryAfter = 0;
      try {
        const signal = AbortSignal.timeout((this.#timeout + (options.wait ?? 0)) * 1000);
        const response = await this.#fetch(this.#address + path, { method, headers, body: sent, signal });
        retryAfter = Number(response.headers.get("Retry-After") ?? 0) || 0;
        if (response.ok) return { content: await read(response), retryAfter };
        const text = await response.text();
        if (response.headers.get("Content-Type")?.startsWith("application/problem+json")) {
          problem = new Refused(response.status, loads(text) as Problem);
          if (!(problem as Refused).retryable) throw problem;
        } else {
          problem = new Unreachable(`${method} ${path}: HTTP status ${response.status}`, { status: response.status });
          if (!RETRYABLE.has(response.status)) throw problem;
        }
      } catch (error) {
        if (error instanceof ReviewQueueError) throw error;
        problem = new Unreachable(`${method} ${path}: ${String(error)}`, { cause: error });
      }
      if (attempt >= last) throw problem;
      await sleep(this.backoff(attempt, retryAfter));
    }
  }

  /**
   * Start the run with this key, or find the run that an earlier call with this key started. No lease is taken: `execute`
   * or a worker claims the run.
   */
  async run(key: string, options: RunOptions = {}): Promise<RunHandle> {
    const started = await this.call<{ id: string; key: string }>("POST", "runs", {
      key,
      title: options.title ?? key,
      lease_seconds: 0,
      ...(options.codeVersion ? { code_version: options.codeVersion } : {}),
      ...(options.initiator ? { initiator: options.initiator } : {}),
      ...(options.parent ? { parent: options.parent } : {}),
      ...(options.metadata ? { metadata: options.metadata } : {}),
    });
    return new RunHandle(this, started, options.codeVersion ?? "");
  }

  /** Return a worker that claims runs of this agent and dispatches them by the step of their checkpoint. */
  worker(options: WorkerOptions = {}): Worker {
    return new Worker(this, options);
  }

  /** Start a run with one request and no worker (`POST asks`). */
  async ask(request: Request & { state?: unknown }): Promise<{ interrupt: { id: string }; run: { id: string }; url: string }> {
    return this.call("POST", "asks", request);
  }

  /** Start a run for each ask (`POST asks/batch`, at most 100). A refused ask has a `problem` and stops no other. */
  async askBatch(
    asks: (Request & { state?: unknown })[],
  ): Promise<{ status: number; ask?: { interrupt: { id: string }; run: { id: string }; url: string }; problem?: unknown }[]> {
    const sent = (await this.call("POST", "asks/batch", { asks })) as { asks: { status: number }[] };
    return sent.asks;
  }

  /** Send an event. `id` is the sender's id of it: the same id is one event. */
  async signal(signal: { correlation: string; type: string; id?: string; body?: unknown }): Promise<unknown> {
    return this.call("POST", "signals", { body: null, ...signal, id: signal.id ?? crypto.randomUUID() });
  }
}

export function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

function environment(name: string): string {
  const value = globalThis.process?.env?.[name];
  if (!value) throw new TypeError(`Name the option of the client, or set ${name} in the environment.`);
  return value;
}
