export { Client, type CallOptions, type ClientOptions, type RunOptions } from "./client.js";
export {
  DigestMismatch,
  EffectFailed,
  NotPerformed,
  Refused,
  ReviewQueueError,
  RunEnded,
  Stopped,
  Unreachable,
  type Problem,
} from "./errors.js";
export { ExactNumber, dumps, loads } from "./exact-json.js";
export { Run, RunHandle, type CompensationFunction, type ExecuteOptions, type RunFunction } from "./run.js";
export { isApproved, type Answer, type Attachment, type Claim, type EffectOptions, type Question, type Request } from "./values.js";
export { Worker, type WorkerOptions } from "./worker.js";
