// Calls of a service, events for a stream, and a browser that registers for push, over the wire of a real hub.
import assert from "node:assert/strict";
import { open } from "./connection.mjs";

const { pushRegistration } = await import(`${process.env.SDK}/hubbub.js`);
const client = await open();

// The service answers what it is asked.
for (const data of [{ pear: 2 }, "text", new Uint8Array([0, 255]), null, 7])
  assert.deepEqual(await client.call("cart.echo", data, { timeoutMs: 10_000 }), data);
await assert.rejects(client.call("till.open", 1), { code: "not_permitted" });

assert.match(await client.submit("clicks", { x: 1 }, "click"), /./);
await assert.rejects(client.submit("secrets", { x: 1 }), { code: "not_permitted" });

// As a browser with a service worker has it.
let subscription;
let given;
const pushManager = {
  async subscribe(options) {
    if (subscription && given.applicationServerKey !== options.applicationServerKey)
      throw new DOMException("a subscription with a different applicationServerKey exists", "InvalidStateError");
    given = options;
    const endpoint = JSON.parse(process.env.SUBSCRIPTION);
    subscription = { endpoint: endpoint.endpoint, toJSON: () => endpoint, unsubscribe: async () => (subscription = null) };
    return subscription;
  },
  getSubscription: async () => subscription,
};
const push = pushRegistration(client);
await push.register({ pushManager });
assert.equal(given.userVisibleOnly, true);
assert.ok(given.applicationServerKey.length > 80);
await push.register({ pushManager }); // as on another day
given = { applicationServerKey: "the hub's key before its rotation" };
await push.register({ pushManager });
assert.ok(given.applicationServerKey.length > 80);
await push.follow("news");
const list = async (what) => {
  const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
  const answer = await fetch(`${process.env.URL}/v1/hubs/${process.env.HUB}/${what}`, { headers });
  return (await answer.json()).items.length;
};
assert.deepEqual([await list("push-tokens"), await list("push-subscriptions")], [1, 1]);
await push.unfollow("news");
await push.unregister({ pushManager });
assert.equal(subscription, null);
await push.unregister({ pushManager }); // nothing is left to do
assert.deepEqual([await list("push-tokens"), await list("push-subscriptions")], [0, 0]);
await client.close();
console.log("done");
