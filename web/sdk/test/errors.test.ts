import { expect, test } from "vitest";
import { HubbubError } from "../src/index.ts";

test("an error tells its code, whether to try again, and its cause", () => {
  const cause = new Error("broken pipe");
  const error = new HubbubError("connection_lost", "the connection was lost", { retry: true, cause });
  expect(error).toBeInstanceOf(Error);
  expect([error.code, error.retry, error.retryAfter, error.cause]).toEqual([
    "connection_lost",
    true,
    undefined,
    cause,
  ]);
});
