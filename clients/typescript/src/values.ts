export type Verdict = "approve" | "edit" | "reject" | "respond" | "answer" | "decline";

/** A file that a reviewer attached. `digest`: the text in the answer's `input`. `size`: in bytes. */
export interface Attachment {
  digest: string;
  name: string;
  media_type: string;
  size: number;
  url: string;
}

/** The answer to one request. `verdict` is null if the deadline passed and the run continues without an answer. */
export interface Answer {
  verdict: Verdict | null;
  input: unknown;
  arguments: Record<string, unknown> | null;
  changed: unknown[];
  message: string | null;
  decided_by: string;
  decided_at: string;
  decision: string;
  cause: string;
  permit: string | null;
  signal?: { id: string; type: string };
  /** The files that `input` names; left out if it names none. */
  attachments?: Attachment[];
}

/** Whether the proposed call may be performed, as it was proposed or edited. */
export function isApproved(answer: Answer): boolean {
  return answer.verdict === "approve" || answer.verdict === "edit";
}

/** What is asked of people, or waited for: the members of an interrupt without its key (docs/api.md). */
export interface Question {
  reason: string;
  title: string;
  kind?: "approval" | "input" | "event" | "timer";
  queue?: string;
  message?: string;
  proposal?: { name: string; arguments: Record<string, unknown>; schema?: unknown };
  input_schema?: unknown;
  verdicts?: Verdict[];
  assignees?: string[];
  deadline?: string;
  deadline_in?: string;
  on_expiry?: Record<string, unknown>;
  evidence?: { label: string; value: unknown; source?: string }[];
  facts?: Record<string, unknown>[];
  risk?: "high" | "medium" | "low";
  priority?: number;
  quorum?: number;
  external_id?: string;
  correlation?: string;
  metadata?: Record<string, unknown>;
}

/** One request, with your key of it: its answer comes back under this key. */
export interface Request extends Question {
  key: string;
}

export interface EffectOptions {
  name?: string;
  arguments?: unknown;
  permit?: string | null;
  repeat?: "never" | "by_key" | "harmless";
  stableKey?: boolean;
  inFlight?: "await" | "cancel" | "abandon";
  compensation?: { name: string; arguments: unknown; on?: ("cancel" | "expire" | "fail" | "reject")[] };
  probe?: Record<string, unknown>;
}

/** What a claim brings; members that this version does not use are left out. */
export interface Claim {
  id: string;
  kind: "resume" | "compensate";
  cause: string;
  attempt: number;
  run: { id: string; key: string; title: string; epoch: number; metadata: Record<string, unknown> };
  lease: { token: string };
  checkpoint: { number: number; step: string; state: unknown; format: string; compensated_since?: string[] };
  answers: Record<string, Answer>;
  overtaken: Record<string, Answer>;
  more_answers?: string | null;
  changed: { name: string; value: unknown; now: unknown }[];
  facts: Record<string, unknown>[];
  compensations: { key: string; undoes: string; name: string; arguments: unknown; receipt: unknown }[];
  more_compensations?: string | null;
}

/** Format of the checkpoints of this client and the Python client: the user's state, and the results of steps. */
export const STATE_FORMAT = "reviewqueue-client/1";

export type Steps = Record<string, unknown>;

export function packState(state: unknown, steps: Steps): { state: unknown; steps: Steps } {
  return { state: state ?? null, steps };
}

/** Return the user's state and the recorded steps; the state of another program's checkpoint is returned whole. */
export function unpackState(checkpoint: Claim["checkpoint"]): { state: unknown; steps: Steps } {
  const { state, format } = checkpoint;
  if (format === STATE_FORMAT && typeof state === "object" && state !== null && "steps" in state) {
    const packed = state as { state: unknown; steps: Steps };
    return { state: packed.state, steps: { ...packed.steps } };
  }
  return { state, steps: {} };
}
