/** Statuses of a proxy or a server that is not ready, whose body is not a problem. */
export const RETRYABLE = new Set([408, 429, 500, 502, 503, 504]);

/** The base of all errors of this package. */
export class ReviewQueueError extends Error {
  override name = "ReviewQueueError";
}

export interface Problem {
  code?: string;
  title?: string;
  detail?: string;
  retryable?: boolean;
  errors?: { pointer: string; message: string }[];
  [member: string]: unknown;
}

/** A problem (RFC 9457) from the server. `code` is for programs, the message is for people. */
export class Refused extends ReviewQueueError {
  override name = "Refused";
  readonly code: string;
  readonly retryable: boolean;

  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail ?? problem.title ?? `HTTP status ${status}`);
    this.code = problem.code ?? "";
    this.retryable = problem.retryable ?? false;
  }

  /** Whether the same request would be refused again. */
  get isFinal(): boolean {
    return !this.retryable;
  }
}

/** The server gave no usable answer, also after the retries. `status`: of a proxy's response, 0 without one. */
export class Unreachable extends ReviewQueueError {
  override name = "Unreachable";
  readonly status: number;

  constructor(message: string, options: ErrorOptions & { status?: number } = {}) {
    super(message, options);
    this.status = options.status ?? 0;
  }

  /** Whether the same request would be refused again. */
  get isFinal(): boolean {
    return this.status >= 400 && this.status < 500 && !RETRYABLE.has(this.status);
  }
}

/** The run ended without a result: it failed, was cancelled, or expired. `outcome` is its error, if it has one. */
export class RunEnded extends ReviewQueueError {
  override name = "RunEnded";

  constructor(
    readonly run: string,
    readonly status: string,
    readonly outcome: unknown = null,
  ) {
    super(`The run ${run} has ended: ${status}.`);
  }
}

/** The effect is recorded as failed and is not tried again. */
export class EffectFailed extends ReviewQueueError {
  override name = "EffectFailed";

  constructor(
    readonly key: string,
    error: unknown,
  ) {
    super(`The effect ${key} failed: ${typeof error === "string" ? error : "no error was recorded"}`);
  }
}

/** The bytes that arrived are not those that the digest names. `arrived`: their digest. */
export class DigestMismatch extends ReviewQueueError {
  override name = "DigestMismatch";

  constructor(
    readonly digest: string,
    readonly arrived: string,
  ) {
    super(`The bytes have the digest ${arrived}; the answer names ${digest}.`);
  }
}

/**
 * Throw this in the function of an effect if the call surely did not happen. The effect is then recorded as failed; with
 * `retryable` the next attempt begins it again. After any other error the outcome is unknown.
 */
export class NotPerformed extends Error {
  override name = "NotPerformed";

  constructor(
    message: string,
    readonly retryable = true,
  ) {
    super(message);
  }
}

/**
 * Ends the function that works on a run, because this process must not continue it now. Do not catch it: after it, every
 * call of the run throws it again.
 */
export class Stopped extends Error {
  override name = "Stopped";

  constructor(readonly reason: string) {
    super(reason);
  }
}
