import { describe, expect, it } from "vitest";
import { shownFrame } from "../src/core/frames";
import { outline } from "../src/ui/json";

describe("frames in the inspector's log", () => {
  it("show payloads that are not text as bytes, wherever they are", () => {
    const frame = {
      publishes: [{ channel: "a", payload: { base64: "AP8=" } }],
      payload: { base64: "AQI=" },
    };
    expect(shownFrame(frame)).toEqual({
      publishes: [{ channel: "a", payload: { base64: Uint8Array.of(0, 255) } }],
      payload: { base64: Uint8Array.of(1, 2) },
    });
  });

  it("leave what people sent as it is", () => {
    const frame = { payload: { json: { base64: "not base64!", token: "mine" } }, extra: { base64: "%" } };
    expect(shownFrame(frame)).toEqual(frame);
    expect(shownFrame({ payload: { base64: "%%%" } })).toEqual({ payload: { base64: "%%%" } });
  });

  it("hide tokens, credentials and restore keys", () => {
    const frame = { reqID: 1, token: "ey", credentials: { password: "x" }, restoreKey: "r" };
    expect(shownFrame(frame)).toEqual({
      reqID: 1,
      token: "(hidden)",
      credentials: "(hidden)",
      restoreKey: "(hidden)",
    });
  });

  it("are told in one line, with what cannot be seen spelled out", () => {
    expect(outline({ channel: "a\u202eb", list: [1, 2], of: {}, bytes: Uint8Array.of(1) })).toBe(
      'channel: "a⟨202e⟩b", list: Array(2), of: {}, bytes: 1 byte',
    );
  });
});
