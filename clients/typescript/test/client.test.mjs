// The client without a server: exact numbers, retries, refusals, and what a run sends.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, DigestMismatch, ExactNumber, NotPerformed, Refused, Unreachable, dumps, isApproved, loads } from "../dist/index.js";

const PROBLEM = { "Content-Type": "application/problem+json" };

/** Return a client whose server gives these replies in order: [status, body, headers] or an Error. */
function scripted(...replies) {
  const sent = [];
  const fetch = async (url, { method, body, headers }) => {
    sent.push({ method, path: new URL(url).pathname.slice(8), body: body && JSON.parse(body), headers });
    const [status, content, extra = {}] = replies.shift() ?? [500, {}];
    if (status === 0) throw new TypeError("fetch failed");
    return new Response(JSON.stringify(content), { status, headers: extra });
  };
  const client = new Client({ server: "http://desk/", key: "rq_k", retries: { base: 0 }, fetch });
  return { client, sent };
}

test("numbers keep all their digits in both directions", () => {
  const text = '{"cents":1.10,"large":1208925819614629174706177,"small":1e-30,"count":3}';
  const value = loads(text);
  assert.equal(dumps(value), text);
  assert.equal(value.count, 3);
  assert.equal(value.large, 2n ** 80n + 1n);
  assert.ok(value.cents instanceof ExactNumber);
  assert.throws(() => dumps({ amount: NaN }), /NaN is not a JSON number/);
});

test("a request is sent again after a fault that passes, with the same key", async () => {
  const busy = [503, { code: "busy", retryable: true }, PROBLEM];
  const { client, sent } = scripted([0], busy, [502, "proxy"], [200, { id: "run_1", key: "PR-1" }]);
  assert.equal((await client.run("PR-1")).id, "run_1");
  assert.equal(sent.length, 4);
  assert.deepEqual(new Set(sent.map((it) => it.body.key)), new Set(["PR-1"]));
});

test("a refusal is thrown at once with its code", async () => {
  const { client, sent } = scripted([409, { code: "key_reused", detail: "Used.", retryable: false }, PROBLEM]);
  await assert.rejects(client.run("PR-1"), (error) => error instanceof Refused && error.code === "key_reused");
  assert.equal(sent.length, 1);
});

test("a batch of asks has a result for each", async () => {
  const results = [{ status: 201, ask: { run: { id: "run_1" } } }, { status: 422, problem: { code: "payload_invalid" } }];
  const { client, sent } = scripted([207, { asks: results }]);
  const asks = ["a", "b"].map((key) => ({ key, title: "Order", reason: "approval.action" }));
  assert.deepEqual(await client.askBatch(asks), results);
  assert.deepEqual(sent[0].body, { asks });
});

const FILE = {
  digest: "sha256:b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9", // of "hello world"
  name: "note.pdf",
  media_type: "application/pdf",
  size: 11,
  url: "/api/v1/interrupts/int_1/attachments/sha256:b94d",
};

/** Return a client whose server refuses the first request and then sends these bytes. */
function sending(bytes) {
  const asked = [];
  const fetch = async (url) => {
    asked.push(url);
    return asked.length === 1 ? new Response("", { status: 503 }) : new Response(bytes);
  };
  return { client: new Client({ server: "http://desk/", key: "rq_k", retries: { base: 0 }, fetch }), asked };
}

test("a download is repeated like any other request and verified", async () => {
  const { client, asked } = sending("hello world");
  assert.equal(new TextDecoder().decode(await client.download(FILE)), "hello world");
  assert.deepEqual(asked, Array(2).fill("http://desk/api/v1/interrupts/int_1/attachments/sha256:b94d"));
});

test("other bytes than those of the digest are refused, and the key is sent to no other place", async () => {
  await assert.rejects(sending("hello worlt").client.download(FILE), DigestMismatch);
  const { client, asked } = sending("hello world");
  for (const url of [
    "https://other/file",
    "/api/v1/https://other/interrupts/int_1/attachments/sha256:b94d",
    "/api/v1/interrupts/../attachments/sha256:b94d",
    "/api/v1/interrupts/int_1?x=/attachments/sha256:b94d",
    "/api/v1/interrupts/int_1/attachments/sha256:b94d/../../../agents/me",
    "/api/v1/interrupts/int_1/attachments/sha256:b94d\n",
  ]) {
    await assert.rejects(client.download({ ...FILE, url }), /must be \/api\/v1\/interrupts\/ID\/attachments\/DIGEST/);
  }
  assert.deepEqual(asked, []);
});

test("a server that stays away is unreachable", async () => {
  await assert.rejects(scripted(...Array(8).fill([0])).client.run("PR-1"), Unreachable);
});

const CLAIM = {
  id: "con_1", kind: "resume", cause: "start", attempt: 1,
  run: { id: "run_1", key: "PR-1", title: "One", epoch: 1, metadata: {} },
  lease: { token: "lse_1" }, checkpoint: { number: 0, step: "start", state: null, format: "json" },
  answers: {}, overtaken: {}, changed: [], facts: [], compensations: [],
};

test("a run that asks stores the results of its steps, and gets them back", async () => {
  const work = async (run) => {
    const offer = await run.step("offer", () => ({ amount: "1.00" }));
    const answer = await run.ask("order", { reason: "approval.action", title: "Order" });
    return isApproved(answer) ? offer : null;
  };
  const first = scripted(
    [200, [CLAIM]],
    [201, { result: { amount: "1.00" }, control: "continue" }],
    [201, { run: { status: "waiting" }, answers: {} }],
  );
  assert.equal(await first.client.worker().everyStep(work).runOnce(0), 1);
  const { checkpoint } = first.sent[2].body;
  assert.deepEqual(checkpoint.state, { state: null, steps: { offer: { amount: "1.00" } } });

  const again = { ...CLAIM, checkpoint: { number: 1, ...checkpoint }, answers: { order: { verdict: "approve" } } };
  const second = scripted([200, [again]], [200, { status: "completed" }]);
  await second.client.worker().everyStep(work).runOnce(0);
  assert.deepEqual(second.sent[1].body, { result: { amount: "1.00" } });
});

test("the answers that a claim does not list are read page by page", async () => {
  const listed = { key: "new", new: true, overtaken: false, verdict: "reject" };
  const claim = { ...CLAIM, answers: { new: listed }, more_answers: "http://desk/api/v1/runs/run_1/answers" };
  const { client, sent } = scripted(
    [200, [claim]],
    [200, { answers: [{ ...listed, key: "old" }], next: "dec_1" }],
    [200, { answers: [listed, { ...listed, key: "moved", overtaken: true }], next: null }],
    [200, { status: "completed" }],
  );
  await client.worker().everyStep((run) => [Object.keys(run.answers), Object.keys(run.overtaken)]).runOnce(0);
  assert.deepEqual(sent.at(-1).body, { result: [["new", "old"], ["moved"]] });
  assert.deepEqual(sent.slice(1, 3).map((it) => it.path), Array(2).fill("runs/run_1/answers"));
});

test("the compensations that a claim does not list follow the listed ones", async () => {
  const due = (key) => ({ key: `undo:${key}`, undoes: key, name: "release", arguments: {}, receipt: key });
  const begun = [201, { perform: true, attempt_token: "att_1", arguments: {} }];
  const more_compensations = "http://desk/api/v1/runs/run_1/compensations";
  const { client } = scripted(
    [200, [{ ...CLAIM, kind: "compensate", compensations: [due("c")], more_compensations }]],
    begun, [200, {}],
    [200, { compensations: [due("b")], more: true }],
    begun, [200, {}],
    [200, { compensations: [due("a")], more: false }],
    begun, [200, {}],
  );
  const undone = [];
  await client.worker().compensation("release", (_, receipt) => void undone.push(receipt)).runOnce(0);
  assert.deepEqual(undone, ["c", "b", "a"]);
});

test("a paused run commits a checkpoint and stops", async () => {
  const { client, sent } = scripted(
    [200, [CLAIM]],
    [201, { result: 1, control: "pause" }],
    [201, { number: 1, control: "pause" }],
  );
  await client.worker().everyStep((run) => run.step("first", () => 1)).runOnce(0);
  assert.deepEqual(sent.map((it) => it.path), ["continuations/claim", "runs/run_1/steps/first", "runs/run_1/checkpoints"]);
});

test("an effect whose function throws has an unknown outcome, and the run is released", async () => {
  const errors = [];
  const { client, sent } = scripted(
    [200, [CLAIM]],
    [201, { perform: true, attempt_token: "att_1", arguments: {} }],
    [200, {}],
    [200, {}],
  );
  const worker = client.worker({ onError: (error) => errors.push(error.message) });
  const send = () => {
    throw new Error("no reply");
  };
  await worker.everyStep((run) => run.effect("mail:1", send)).runOnce(0);
  assert.equal(sent[2].body.status, "unknown");
  assert.deepEqual(errors, ["no reply"]);
  assert.equal(sent[3].path, "runs/run_1/lease/release");
});

const BEGUN = [201, { perform: true, attempt_token: "att_1", arguments: {} }];
const TOO_LARGE = { code: "payload_too_large", detail: "The body is too large.", retryable: false };

/** Return what a run with one effect sent and logged, after its claim and the begin of the effect. */
async function performed(send, ...replies) {
  const errors = [];
  const { client, sent } = scripted([200, [CLAIM]], BEGUN, ...replies, [200, {}]);
  const work = async (run) => typeof (await run.effect("mail:1", send));
  await client.worker({ onError: (error) => errors.push(error.message) }).everyStep(work).runOnce(0);
  return { sent: sent.slice(2), errors };
}

test("a call whose receipt is not JSON is applied, and its result is returned", async () => {
  const circular = {};
  circular.self = circular;
  for (const receipt of [() => 1, NaN, Symbol("id"), circular]) {
    const { sent, errors } = await performed(() => receipt, [200, {}]);
    assert.equal(sent[0].body.status, "applied");
    assert.match(sent[0].body.receipt.receipt_not_recorded, /not a JSON|Maximum call stack/);
    assert.deepEqual([sent[1].path, sent[1].body.result, errors], ["runs/run_1/complete", typeof receipt, []]);
  }
});

test("a receipt that the server or a proxy refuses is replaced by the reason", async () => {
  for (const refusal of [[413, TOO_LARGE, PROBLEM], [413, "<html>"]]) {
    const { sent, errors } = await performed(() => "large", refusal, [200, {}]);
    assert.equal(sent[0].body.receipt, "large");
    assert.equal(sent[1].body.status, "applied");
    assert.match(sent[1].body.receipt.receipt_not_recorded, /too large|HTTP status 413/);
    assert.deepEqual([sent[2].path, errors], ["runs/run_1/complete", []]);
  }
});

test("a receipt is not replaced while the server is unreachable", async () => {
  const { sent, errors } = await performed(() => "sent", ...Array(8).fill([0]));
  assert.deepEqual(new Set(sent.slice(0, 8).map((it) => it.body.receipt)), new Set(["sent"]));
  assert.equal(sent[8].path, "runs/run_1/lease/release");
  assert.match(errors[0], /fetch failed/);
});

test("an error of a call is thrown when it cannot be reported", async () => {
  const send = () => {
    throw new NotPerformed("no supplier \ud800\0");
  };
  const { sent, errors } = await performed(send, [413, TOO_LARGE, PROBLEM]);
  assert.deepEqual([sent[0].body.status, sent[0].body.error], ["failed", "NotPerformed: no supplier \ufffd\ufffd"]);
  assert.deepEqual(errors, ["no supplier \ud800\0"]);
});

test("a checkpoint at the same step calls its function again", async () => {
  const { client, sent } = scripted(
    [200, [CLAIM]],
    [201, { number: 1, control: "continue" }],
    [201, { number: 2, control: "continue" }],
    [200, { status: "completed" }],
  );
  const pages = [];
  const work = async (run) => {
    pages.push(run.state ?? 1);
    return pages.at(-1) < 3 ? run.checkpoint("start", pages.at(-1) + 1) : "done";
  };
  await client.worker().everyStep(work).runOnce(0);
  assert.deepEqual(pages, [1, 2, 3]);
  assert.deepEqual([sent.at(-1).path, sent.at(-1).body], ["runs/run_1/complete", { result: "done" }]);
});

test("the name of a step is used once", async () => {
  const errors = [];
  const step = [201, { result: 1, control: "continue" }];
  const { client } = scripted([200, [CLAIM]], step, [200, {}]);
  const work = async (run) => {
    for (const page of [1, 2]) await run.step("page", () => page);
  };
  await client.worker({ onError: (error) => errors.push(error.message) }).everyStep(work).runOnce(0);
  assert.match(errors[0], /Number the steps of a loop/);
});
