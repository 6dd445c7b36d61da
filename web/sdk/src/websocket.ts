/** The WebSocket of the platform, or one that is given, as a transport. */

import type { Transport } from "./types.ts";

export const encoder: TextEncoder = /* @__PURE__ */ new TextEncoder();

/** The parts of a WebSocket class that are used; that of `ws` fits, too. */
export interface SocketClass {
  // biome-ignore lint/suspicious/noExplicitAny: browsers and `ws` disagree on the types of their events
  new (url: string, protocols: string[]): any;
}

export function webSocket(Socket?: SocketClass): Transport {
  return {
    name: "websocket",
    open(base, hub, codec, _token, events) {
      const url = new URL(`v1/hubs/${encodeURIComponent(hub)}/socket`, base);
      url.protocol = url.protocol.replace("http", "ws");
      const socket = new (Socket ?? (globalThis.WebSocket as unknown as SocketClass))(url.href, [
        codec.subprotocol,
      ]);
      socket.binaryType = "arraybuffer";
      let over = false;
      const end = (code: number, reason: string) => {
        if (over) return;
        over = true;
        socket.onmessage = socket.onclose = socket.onerror = null;
        events.ended(code, reason);
      };
      socket.onmessage = (event: { data: string | ArrayBuffer }) => {
        try {
          events.receive(codec.decode(event.data));
        } catch (error) {
          socket.close(4400, "cannot be read");
          end(0, `the hub cannot be read: ${error}`);
        }
      };
      socket.onclose = (event: { code: number; reason: string }) => end(event.code, event.reason);
      // Where nothing answers, some runtimes tell an error and no close.
      socket.onerror = () => socket.readyState === 3 && end(1006, "");
      return {
        send(envelopes, maxBytes) {
          const data = codec.encode(envelopes);
          if (maxBytes && sizeOf(data, maxBytes) > maxBytes) return false;
          if (!over) socket.send(data);
          return true;
        },
        get buffered() {
          return socket.bufferedAmount;
        },
        close(returns) {
          socket.close(returns ? 4000 : 1000);
          end(1000, "the client closed the connection");
        },
      };
    },
  };
}

/** Of a text that is surely small enough, only a bound. */
export function sizeOf(data: string | Uint8Array, maxBytes: number): number {
  if (typeof data !== "string") return data.length;
  return data.length * 3 <= maxBytes ? data.length * 3 : encoder.encode(data).length;
}
