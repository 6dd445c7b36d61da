// A chat in React: `npm install @hubbub/client react react-dom`, then render <App /> in any bundler's template.
import { connect } from "@hubbub/client";
import { HubbubProvider, useChannel, useConnection, usePresence } from "@hubbub/client/react";
import { useState } from "react";

const client = connect("http://localhost:8000", { hub: "demo" });

export function App() {
  return (
    <HubbubProvider client={client}>
      <Room name="room:lobby" />
    </HubbubProvider>
  );
}

function Room({ name }: { name: string }) {
  const { state } = useConnection();
  const { members } = usePresence(name);
  const [lines, setLines] = useState<{ id: string; text: string }[]>([]);
  const room = useChannel<{ text: string }>(name, ({ id, data }) => setLines((all) => [...all, { id, text: data.text }]));

  const send = (form: FormData) => void room.publish({ text: String(form.get("text")) });
  return (
    <main>
      <p>{state}, {members.length} here</p>
      <ul>{lines.map(({ id, text }) => <li key={id}>{text}</li>)}</ul>
      <form action={send}><input name="text" /><button>Send</button></form>
    </main>
  );
}
