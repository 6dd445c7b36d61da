// A hub whose name is mistyped: the client says which, and what to do.
import assert from "node:assert/strict";

const { connect } = await import(`${process.env.SDK}/hubbub.js`);
const warned = [];
console.warn = (words) => warned.push(words);
for (const token of [undefined, process.env.TOKEN]) {
  const client = connect(process.env.URL, { hub: "amce", token });
  const error = await new Promise((resolve) => client.on("state", ({ error }) => error && resolve(error)));
  console.log(`${error.code} ${client.state} ${/amce/.test(error.message)}`);
  await client.close();
}
assert.ok(warned.every((words) => /^hubbub: .*amce/.test(words)), warned.join("\n"));
assert.equal(warned.length, 2);
