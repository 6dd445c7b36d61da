/** The script of the SharedWorker that has the connection of all tabs. */

import { type FromTab, Host, type Tab } from "./share_host.ts";

const host = new Host();

(globalThis as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = ({ ports }) => {
  const port = ports[0]!;
  let tab: Tab | undefined;
  port.onmessage = ({ data }: { data: FromTab }) => {
    tab = host.receive((told) => port.postMessage(told), data, tab);
  };
};
