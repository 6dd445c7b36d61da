// A client for each address of URLS: a line of JSON for every change of state, and one for what it had received when all was over.
import { createInterface } from "node:readline";

const { connect } = await import(`${process.env.SDK}/hubbub.js`);
const say = (what) => process.stdout.write(`${JSON.stringify({ at: Date.now(), ...what })}\n`);
const clients = process.env.URLS.split(" ").map((url, index) => {
  const client = connect(url, { hub: process.env.HUB, token: process.env.TOKEN });
  const got = [];
  let gaps = 0;
  client.on("gap", () => gaps++);
  client.on("state", ({ state, transport, retryInMs, error }) => {
    const { id: session, restored } = client.session ?? {};
    say({ index, state, transport, retryInMs, error: error?.message, session, restored });
  });
  client.channel("room").subscribe(({ data }) => got.push(data));
  return { client, received: () => ({ index, got, gaps }) };
});
for await (const _line of createInterface({ input: process.stdin })) {
  for (const { received } of clients) say(received());
}
process.exit(0);
