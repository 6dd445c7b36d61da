// The SDK in a worker of Cloudflare: channels, topics and documents over a WebSocket and over server-sent events.
import assert from "node:assert/strict";
import { connect, liveDocument, topic } from "./hubbub.js";

export default {
  async test(_controller, env) {
    await use(env, "websocket");
    globalThis.WebSocket = class {
      constructor() {
        setTimeout(() => this.onclose?.({ code: 1006, reason: "" }));
      }
      close() {}
    };
    await use(env, "sse");
  },
};

async function use(env, transport) {
  await using client = connect(env.URL, { hub: env.HUB, token: env.TOKEN, backoff: { firstMs: 1 } });
  await client.ready;
  assert.deepEqual([client.transport, client.session.userId], [transport, "ann"]);

  const room = client.channel(`room:${transport}`);
  const subscription = room.subscribe();
  await subscription.ready;
  const sent = [{ deep: [null, "ü"] }, "text", new Uint8Array([0, 255, 10])];
  for (const data of sent) await room.publish(data);
  const got = [];
  for await (const message of subscription) if (got.push(message.data) === sent.length) break;
  assert.deepEqual(got, sent);
  const { messages } = await room.history({ limit: 10 });
  assert.equal(messages.length, sent.length);

  const jobs = topic(client, `orders:${transport}`);
  await jobs.subscribe("worker", { start: "first" });
  const puts = await Promise.all([1, 2].map((n) => jobs.put({ n })));
  assert.deepEqual(puts.map((each) => each.serial), [1n, 2n]);
  const [first] = await jobs.get("worker");
  assert.deepEqual(first.data, { n: 1 });
  assert.equal(await jobs.ack(1n, "worker"), 1n);

  const plan = liveDocument(client, `doc:${transport}`);
  await plan.ready;
  await plan.change([{ op: "add", path: "/title", value: "Plan" }]);
  assert.equal(plan.value.title, "Plan");
  plan.close();
}
