// All hooks on one page, under StrictMode, which mounts every component twice.
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { connect } from "../../../web/sdk/src/index.ts";
import {
  HubbubProvider,
  useChannel,
  useConnection,
  useLiveDocument,
  useNotifications,
  usePresence,
} from "../../../web/sdk/src/react.ts";

const options = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const client = connect(location.origin, { hub: "acme", token: options.token });

function Everything() {
  const { state, session } = useConnection();
  const [lines, setLines] = useState<string[]>([]);
  const room = useChannel<string>("room:1", (message) => setLines((all) => [...all, message.data]));
  const { members } = usePresence("room:1");
  const closed = [
    useChannel("closed:1", () => {}),
    usePresence("closed:2"),
    useLiveDocument("doc:closed"),
    useNotifications("notification:closed"),
  ];
  const open = useLiveDocument<{ n?: number }>("doc:1");
  const { value, change, pending } = open;
  const inbox = useNotifications("ann");
  const { unread } = inbox;
  const refused = [...closed, room, open, inbox].map(({ error }) => error?.code);
  const add = () => change((now) => [{ op: "add", path: "/n", value: (now.n ?? 0) + 1 }]);
  return (
    <>
      <button id="say" onClick={() => void room.publish(`said ${lines.length}`)}>Say</button>
      <button id="add" onClick={() => void add()}>Add</button>
      <output>{JSON.stringify({ state, user: session?.userId, lines, here: members.length, n: value?.n, pending, unread, refused })}</output>
    </>
  );
}

function Page() {
  const [shown, show] = useState(true);
  return (
    <>
      <button id="toggle" onClick={() => show(!shown)}>Toggle</button>
      {shown && <Everything />}
    </>
  );
}

Object.assign(window, { client });
createRoot(document.body).render(
  <StrictMode>
    <HubbubProvider client={client}>
      <Page />
    </HubbubProvider>
  </StrictMode>,
);
