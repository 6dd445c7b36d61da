/** Server-sent events and HTTP as a transport, for networks that let no WebSocket through. */

import { CALLS, type Call, http } from "./calls.ts";
import type { Transport, Wire } from "./types.ts";
import { encoder, sizeOf } from "./websocket.ts";
import { Bytes } from "./wire.ts";

const LONGEST = 8 * 1024 * 1024;
/** Refusals that concern the channels of a stream, not the client. */
const OF_CHANNELS = /^(not_permitted|bad_request|too_large|(invalid|incomplete|too_many)_.*)$/;

/** One stream follows all channels, and is opened anew, from where it is, when they change. Requests go over HTTP. */
export function serverSentEvents(): Transport {
  return {
    name: "sse",
    open(base, hub, _codec, token, events) {
      const channels = new Set<string>();
      const filters = new Map<string, Wire>();
      /** The event id, by channel: what the stream goes on from. */
      let positions = new Map<string, string>();
      /** Requests that the next stream answers. */
      let asked: [event: string, payload: Wire][] = [];
      let stream: AbortController | undefined;
      let reading: ReadableStreamDefaultReader | undefined;
      /** What the hub said of the session. */
      let info: Wire;
      /** What the hub gave for credentials. */
      let own: string | undefined;
      let over = false;
      let publishing = Promise.resolve();
      let publishes = 0;

      const tell = (event: string, payload: Wire) => over || events.receive([[event, payload]]);

      function leave(): void {
        stream?.abort();
        stream = undefined;
        reading?.cancel().catch(() => {}); // Deno keeps the stream open after an abort, and its process alive
      }

      function end(): void {
        if (over) return;
        over = true;
        leave();
        events.ended(0, "");
      }

      const request = async (call: Call, signal?: AbortSignal) =>
        http(base, hub, own ?? (await token()), call, signal);

      async function call(event: string, { reqID, ...payload }: Wire): Promise<void> {
        let result: (i: number) => Wire;
        try {
          const response = await request(CALLS[event]!(payload));
          const answer = event === "RPC" ? { payload: await readPayload(response) } : await response.json();
          if (event !== "Publish") tell(event, { reqID, ...answer });
          result = (i) => answer.published[i];
        } catch (error) {
          if ((error as Wire).retry === undefined) return end(); // whether it was carried out is not known
          if (event !== "Publish") tell("Error", { ...(error as Wire).details, reqID, error });
          result = () => ({ error });
        }
        const items: Wire[] = payload.publishes ?? [];
        const published = items.map((item, i) => ({ reqID: item.reqID, ...result(i) }));
        tell("Ack", { published: published.filter((each) => each.reqID) });
      }

      function place(channel: string, epoch: string, serial: string): void {
        const name = base64(channel);
        positions.set(name, `${name}.${base64(epoch)}.${serial}`);
      }

      async function subscribe(wanted: Wire[]): Promise<void> {
        leave(); // what the stream would bring from here on comes again
        for (const { channel, serial, epoch, timestamp, byPattern } of wanted) {
          if (!byPattern) channels.add(channel);
          if (/[*#]/.test(channel)) {
            const since = Number(positions.get("")?.slice(1) ?? timestamp);
            if (timestamp) positions.set("", `@${Math.min(since, timestamp)}`);
          } else if (epoch) place(channel, epoch, serial);
          else if (serial || timestamp) {
            try {
              const query = { channel, after: serial, afterTime: timestamp, limit: 1 };
              const page = await (await request(CALLS.History!(query))).json();
              const [first] = page.messages;
              place(channel, page.epoch, serial ?? (first ? String(first.channelSerial - 1) : page.head));
            } catch (error) {
              if ((error as Wire).retry !== false) return end(); // else the stream says why
            }
          }
        }
        void open();
      }

      async function open(): Promise<void> {
        leave();
        const mine = new AbortController();
        stream = mine;
        const names = new Set([...channels].map(base64));
        const since = positions.get("");
        const id = [...positions].filter(([name]) => name && (since || names.has(name)));
        const filter = [...filters.values()].filter(({ channel }) => channels.has(channel));
        try {
          const lastId = [since, ...id.map(([, position]) => position)].filter(Boolean).join("~");
          const response = await request(
            ["GET", ["events"], { channel: [...channels], empty: channels.size ? undefined : true, filter: filter.map((each) => JSON.stringify(each)) }, undefined, lastId ? { "Last-Event-ID": lastId } : {}],
            mine.signal,
          ); // biome-ignore format: dense
          const reader = response.body!.getReader();
          reading = reader;
          const decoder = new TextDecoder();
          for (let rest = ""; rest.length < LONGEST; ) {
            const { value, done } = await reader.read();
            if (done || stream !== mine) break;
            const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
            rest = blocks.pop()!;
            events.receive([]); // also a heartbeat is a sign of life
            for (const block of blocks) if (stream === mine) read(block);
          }
          if (stream === mine) end();
        } catch (error) {
          if (stream !== mine) return;
          const { code } = error as Wire;
          if (code === "not_authenticated" && !own && (await token()) === "") tell("SessionInfo", { hubID: hub });
          else refused(error as Wire);
        }
      } // biome-ignore format: dense

      /** Credentials are exchanged for a token, with which the next stream is opened. */
      async function exchange({ reqID, credentials }: Wire): Promise<void> {
        try {
          const { token, extra } = await (await request(["POST", ["token"], {}, credentials])).json();
          own = token;
          asked.push(["Auth", { reqID, extra }]);
          void open();
        } catch (error) {
          if ((error as Wire).retry === undefined) return end();
          tell("Error", { reqID, error });
        }
      }

      function read(block: string): void {
        let event = "Publish";
        let payload: Wire;
        for (const line of block.split("\n")) {
          const [, field, value] = /^(\w+): (.*)$/.exec(line) ?? [];
          if (field === "event") event = value!;
          else if (field === "data") payload = JSON.parse(value!);
          else if (field === "id")
            positions = new Map(
              value!.split("~").map((each) => [each[0] === "@" ? "" : each.split(".")[0]!, each]),
            );
        }
        if (!payload) return;
        for (const { channel } of payload.failures ?? []) channels.delete(channel);
        if (event === "Subscribe") confirm(payload);
        else if (event === "Disconnect") refused({ ...payload, message: payload.reason, retry: payload.reconnect });
        else tell(event, payload);
        if (event !== "SessionInfo") return;
        info = payload;
        if (!channels.size) confirm({});
      } // biome-ignore format: dense

      /** The stream follows its channels: that answers what it was opened for. */
      function confirm(payload: Wire): void {
        const answered = asked;
        asked = [];
        let said = payload;
        for (const [event, { reqID, extra }] of answered.reverse()) {
          if (event === "Subscribe") {
            tell(event, { ...said, reqID });
            said = {};
          } else if (event === "Auth") tell(event, { ...info, extra, reqID });
        }
        if (said.channels?.length) tell("Subscribe", said);
      }

      /** The hub takes channels away from the stream, or ends the connection. */
      function refused(error: Wire): void {
        const { code, message, retry, retryAfter } = error;
        if (!channels.size || retry !== false || !OF_CHANNELS.test(code)) {
          if (retry !== undefined) tell("Disconnect", { code, reason: message, reconnect: retry, retryAfter });
          end();
          return;
        }
        const names: string[] = asked.flatMap(([, payload]) => payload.channels ?? []).map(({ channel }) => channel);
        const lost = names.length ? names : [...channels];
        const failures = lost.map((channel) => ({ channel, error: { code, message } }));
        for (const channel of lost) channels.delete(channel);
        if (names.length) confirm({ failures });
        else tell("Unsubscribe", { failures });
        void open();
      } // biome-ignore format: dense

      void open();
      return {
        send(envelopes, maxBytes) {
          for (const [event, payload] of envelopes) {
            const { reqID, channel, channels: named = [], name: _, ...rest } = payload;
            if (event === "Publish") {
              if (maxBytes && sizeOf(JSON.stringify(payload), maxBytes) > maxBytes) return false;
              publishes++; // one request at a time keeps the order
              publishing = publishing.then(() => call(event, payload)).then(() => void publishes--);
            } else if (CALLS[event]) void call(event, payload);
            else if (event === "Subscribe" || event === "Ping" || rest.token) {
              if (rest.token) own = undefined;
              asked.push([event, payload]); // Auth: the new stream has the new token
              void subscribe(named);
            } else if (rest.credentials) void exchange(payload);
            else if (reqID) {
              const known = /^Un|^Set/.test(event);
              if (event === "SetFilter") filters.set(channel, { channel, ...rest });
              else if (event === "UnsetFilter") filters.delete(channel);
              for (const each of named) channels.delete(each);
              if (event === "Unsubscribe") void open();
              const message = `${event} needs a WebSocket, and none gets through`;
              queueMicrotask(() =>
                known
                  ? tell(event, { reqID })
                  : tell("Error", { reqID, error: { code: "not_supported", message } }),
              );
            }
          }
          return true;
        },
        get buffered() {
          return publishes ? Infinity : 0;
        },
        close: () => end(),
      };
    },
  };
}

async function readPayload(response: Response): Promise<Wire> {
  const type = response.headers.get("Content-Type") ?? "";
  if (type.includes("json")) return { json: await response.json() };
  if (type.startsWith("text/")) return { text: await response.text() };
  return { base64: new Uint8Array(await response.arrayBuffer()) };
}

function base64(text: string): string {
  return new Bytes(encoder.encode(text)).toJSON().replace(/[+/=]/g, (c) => ({ "+": "-", "/": "_" })[c] ?? "");
}
