/** What the inspector does, as a program. */

export function codeOf(
  language: "js" | "python" | "curl",
  origin: string,
  hub: string,
  channel: string,
): string {
  const h = JSON.stringify(hub);
  const c = JSON.stringify(channel);
  if (language === "js") {
    return `import { connect } from "${origin}/sdk/hubbub.js";

const client = connect(${JSON.stringify(origin)}, { hub: ${h}, token: "…" });
const channel = client.channel(${c});
channel.subscribe((message) => console.log(message.event, message.data));
await channel.publish("Hello");
`;
  }
  if (language === "python") {
    return `from hubbub.client import connect

async with connect(${JSON.stringify(origin.replace(/^http/, "ws"))}, hub=${h}, token="…") as client:
    subscription = await client.subscribe(${c})
    await client.publish(${c}, "Hello")
    async for message in subscription:
        print(message.event, message.payload)
`;
  }
  const at = `${origin}/v1/hubs/${encodeURIComponent(hub)}`;
  return `curl -H 'Authorization: Bearer …' -d Hello '${at}/channels/${encodeURIComponent(channel)}/messages'
curl -N -H 'Authorization: Bearer …' '${at}/events?channel=${encodeURIComponent(channel)}'
`;
}
