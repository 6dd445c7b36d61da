import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { topic } from "../src/index.ts";
import { connected, FakeSocket } from "./fake_hub.ts";
import { FakeTopics } from "./fake_topics.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("puts go on after one that is stored although the hub says that its store is away", async () => {
  const client = await connected();
  const topics = new FakeTopics();
  topics.serve(FakeSocket.last);
  const jobs = topic(client, "jobs");
  await jobs.put("a");
  topics.doubt = (data) => data === "b";
  await expect(jobs.put("b")).rejects.toMatchObject({ code: "store_unavailable" });
  const third = await jobs.put("c");
  expect(third.duplicate).toBe(false);
  topics.refuse = (data) => data === "d";
  await expect(jobs.put("d")).rejects.toMatchObject({ code: "bad_request" });
  await jobs.put("e");
  expect(topics.stored).toEqual(["a", "b", "c", "e"]);
  await client.close();
});
