// The agent that the kill tests kill, written with the TypeScript client. `kill_agent.py` describes it.
import { Client, RunEnded } from "../../clients/typescript/dist/index.js";

const { RECEIVER, RUN: KEY, KILL_AT = "" } = process.env;
const KILL = KILL_AT && new RegExp(`^(?:${KILL_AT})$`);

async function reach(place) {
  if (!KILL || !KILL.test(place)) return;
  process.kill(process.pid, "SIGKILL");
  await new Promise(() => {}); // the signal arrives a moment later
}

async function killing(url, options) {
  const path = new URL(url).pathname.replace(/^\/api\/v1\/((runs|continuations)\/\w{3}_\w+\/)?/, "");
  const place = `${options.method} ${decodeURIComponent(path)}`;
  await reach(`before ${place}`);
  const response = await fetch(url, options);
  const whole = new Response(await response.text(), response);
  await reach(`after ${place}`);
  return whole;
}

async function postToReceiver(path, body) {
  return (await fetch(RECEIVER + path, { method: "POST", body: JSON.stringify(body) })).json();
}

function perform(key) {
  const [name] = key.split(":");
  return async (args) => {
    await reach(`before effect ${name}`);
    const receipt = await postToReceiver(`/effects/${key}`, args);
    await reach(`after effect ${name}`);
    return receipt;
  };
}

async function work(run) {
  if (run.stepName === "start") {
    const offer = await run.step("offer", () => ({ amount: "184000.00", quote: crypto.randomUUID() }));
    await run.step("second", () => postToReceiver(`/executed/${run.key}`, { quote: offer.quote }));
    const mail = `mail:${run.key}`;
    await run.effect(mail, perform(mail), { name: "mail", arguments: offer, repeat: "by_key" });
    await run.checkpoint("order", offer);
  }
  const proposal = { name: "issue_order", arguments: run.state };
  const asked = { reason: "approval.action", queue: "purchasing", title: `Order ${run.key}`, proposal };
  const { permit } = await run.ask("order", asked);
  const note = await run.step("note", () => crypto.randomUUID());
  const key = `order:${run.key}`;
  const receipt = await run.effect(key, perform(key), { name: "issue_order", permit, repeat: "by_key" });
  return { receipt, quote: run.state.quote, note };
}

const client = new Client({ fetch: killing });
const handle = await client.run(KEY);
if (process.env.AS === "worker") {
  const worker = client.worker({ leaseSeconds: 5 }).everyStep(work);
  let found;
  while (!["completed", "failed", "cancelled", "expired"].includes((found = await handle.details()).status)) {
    if (!(await worker.runOnce(1))) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  if (found.status !== "completed") throw new RunEnded(handle.id, found.status);
  console.log(JSON.stringify(found.outcome.result));
} else {
  console.log(JSON.stringify(await handle.execute(work, { leaseSeconds: 5 })));
}
process.exit(0);
