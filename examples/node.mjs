// A program for Node 22 and later that follows a channel and says hello: node examples/node.mjs [URL]
const url = process.argv[2] ?? "http://localhost:8000";
const { connect } = await import(new URL("../src/hubbub/web/sdk/hubbub.js", import.meta.url).href);

const client = connect(url, { hub: "demo" });
const room = client.channel("room:lobby");
const subscription = room.subscribe();
await subscription.ready;
await room.publish({ text: "hello from Node", name: "node" });
for await (const message of subscription) {
  console.log(message.at.toISOString(), message.data.text ?? message.data);
  if (message.data.name === "node") break;
}
await client.close();
