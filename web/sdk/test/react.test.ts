import { createElement, StrictMode } from "react";
import { renderToString } from "react-dom/server";
import { expect, test } from "vitest";
import { connect, webSocket } from "../src/index.ts";
import {
  HubbubProvider,
  useChannel,
  useClient,
  useConnection,
  useLiveDocument,
  useNotifications,
  usePresence,
} from "../src/react.ts";
import { FakeSocket } from "./fake_hub.ts";

function Everything() {
  const { state } = useConnection();
  const channel = useChannel("a", () => {});
  const { members } = usePresence("a");
  const { value } = useLiveDocument("doc:a");
  const { unread } = useNotifications("ann");
  return createElement("p", null, [state, channel.name, members.length, String(value), unread].join(" "));
}

test("on a server every hook shows its empty state and subscribes to nothing", async () => {
  FakeSocket.all = [];
  const client = connect("http://hub.test", { hub: "h", transports: [webSocket(FakeSocket as never)] });
  const html = renderToString(
    createElement(StrictMode, null, createElement(HubbubProvider, { client }, createElement(Everything))),
  );
  expect(html).toBe("<p>idle a 0 undefined 0</p>");
  expect(FakeSocket.last?.sent ?? []).toEqual([]);
  await client.close();
});

test("without a provider the error says what to do", () => {
  const Lonely = () => createElement("p", null, useClient().state);
  expect(() => renderToString(createElement(Lonely))).toThrow("HubbubProvider");
});
