// The fake server: what is executed again after a kill, and what people's wishes lead to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ExactNumber, Refused, RunEnded, isApproved } from "reviewqueue-client";
import { FakeServer, MissingAnswer } from "reviewqueue-client/testing";

const PROPOSAL = { name: "issueOrder", arguments: { supplier: "S-17", amount: "184000.00" } };
const ORDER = { reason: "approval.action", title: "Order the hoist", proposal: PROPOSAL };

/** Return an agent that dies once at `place`, and what it did. */
function buyer(place = "") {
  const did = { lookedUp: 0, ordered: [] };
  const reach = (here) => {
    if (here !== place) return;
    place = "";
    throw new Error("killed");
  };
  const issueOrder = (call) => {
    did.ordered.push(call);
    reach("in an effect");
    return { order: "PO-2231" };
  };
  const agent = async (run) => {
    const offer = await run.step("offer", () => {
      did.lookedUp += 1;
      return { score: new ExactNumber("0.10") };
    });
    reach("after a step");
    const answer = await run.ask("order", ORDER);
    reach("after the answer");
    if (!isApproved(answer)) return { ordered: false, why: answer.message };
    const receipt = await run.effect("order:PR-1", issueOrder, { permit: answer.permit, repeat: "by_key" });
    return { receipt, score: String(offer.score) };
  };
  return { agent, did };
}

async function execute(server, agent, options) {
  return (await server.client().run("PR-1")).execute(agent, options);
}

test("an agent works, asks, and gets the same result after its end", async () => {
  const server = new FakeServer();
  server.answer("order", "edit", { arguments: { supplier: "S-17", amount: "180000.00" } });
  const { agent, did } = buyer();
  const result = { receipt: { order: "PO-2231" }, score: "0.10" };
  assert.deepEqual(await execute(server, agent), result);
  assert.deepEqual(await execute(server, agent), result);
  assert.deepEqual(did, { lookedUp: 1, ordered: [{ supplier: "S-17", amount: "180000.00" }] });
  const run = server.runs.get("PR-1");
  assert.deepEqual([run.status, run.effects.get("order:PR-1").status], ["completed", "applied"]);
});

for (const place of ["after a step", "after the answer", "in an effect"]) {
  test(`an agent that is killed ${place} repeats nothing that was recorded`, async () => {
    const server = new FakeServer();
    server.answer("order");
    const { agent, did } = buyer(place);
    await assert.rejects(execute(server, agent), /killed/);
    server.loseLease("PR-1");
    assert.deepEqual(await execute(server, agent), { receipt: { order: "PO-2231" }, score: "0.10" });
    assert.deepEqual([did.lookedUp, did.ordered.length], [1, place === "in an effect" ? 2 : 1]);
  });
}

test("a rejection and an expiry are answers", async () => {
  const server = new FakeServer();
  server.answer("order", "reject", { message: "Too expensive." });
  assert.deepEqual(await execute(server, buyer().agent), { ordered: false, why: "Too expensive." });
  const expired = new FakeServer();
  expired.answer("order", null);
  assert.deepEqual(await execute(expired, buyer().agent), { ordered: false, why: null });
});

test("an unknown outcome waits for its owner", async () => {
  const server = new FakeServer();
  const mail = async (run) => run.effect("mail:1", () => assert.fail("no reply"), { name: "mail" });
  await assert.rejects(execute(server, mail), /no reply/);
  assert.equal(server.runs.get("PR-1").status, "blocked");
  server.resolve("PR-1", "mail:1", { applied: true, receipt: "sent" });
  assert.equal(await execute(server, mail), "sent");
});

test("a cancelled run compensates what it did", async () => {
  const server = new FakeServer();
  const released = [];
  const hold = async (run) => {
    const compensation = { name: "release", arguments: { hoist: 1 } };
    await run.effect("hold:1", () => "H-1", { name: "hold", compensation });
    server.cancel("PR-1");
    await run.progress("waiting");
  };
  const compensations = { release: (...given) => void released.push(given) };
  await assert.rejects(execute(server, hold, { compensations }), (error) => error instanceof RunEnded);
  assert.deepEqual(released, [[{ hoist: 1 }, "H-1"]]);
  assert.equal(server.runs.get("PR-1").status, "cancelled");
});

test("a paused run continues after it is resumed", async () => {
  const server = new FakeServer();
  const work = async (run) => {
    await run.step("first", () => server.pause("PR-1"));
    return "done";
  };
  const handle = await server.client().run("PR-1");
  await server.client().worker().everyStep(work).runOnce(0);
  assert.equal(server.runs.get("PR-1").status, "paused");
  server.resume("PR-1");
  assert.equal(await handle.execute(work), "done");
});

test("faults of the network are repeated, and refusals are thrown", async () => {
  const server = new FakeServer();
  server.failNext(2, { status: 0 });
  server.failNext(1);
  await server.client().run("PR-1");
  assert.equal(server.calls.length, 4);
  await assert.rejects(server.client().run("PR-1", { title: "Other" }), (error) => error instanceof Refused && error.code === "key_reused");
});

test("another call than the approved one is refused", async () => {
  const server = new FakeServer();
  server.answer("order");
  const other = async (run) => {
    const { permit } = await run.ask("order", ORDER);
    return run.effect("order:PR-1", () => assert.fail("performed"), { name: "payInvoice", permit });
  };
  await assert.rejects(execute(server, other), /issueOrder is approved, not payInvoice/);
});

test("an attached file comes with the answer that names it", async () => {
  const server = new FakeServer();
  server.answer("load test/1", "respond", { input: { certificate: await server.attach("LT.pdf", new TextEncoder().encode("%PDF")) } });
  const read = async (run) => {
    const { attachments } = await run.ask("load test/1", { reason: "evidence", title: "Attach it" });
    return [attachments[0].name, new TextDecoder().decode(await run.download(attachments[0]))];
  };
  assert.deepEqual(await execute(server, read), ["LT.pdf", "%PDF"]);
});

test("a missing answer is named", async () => {
  const error = { name: "MissingAnswer", message: /The request 'order' has no answer/ };
  await assert.rejects(execute(new FakeServer(), buyer().agent), error);
  assert.ok(new MissingAnswer("") instanceof Error);
});
