/** How to follow what passes, and the settings that the node runs with, without secrets. */

import { useState } from "preact/hooks";
import { get, post } from "../core/api";
import { bytes, plural, preciseClock, visible } from "../core/format";
import { useLoad } from "../core/load";
import { link, route, setQuery } from "../core/router";
import { everywhere, hub, mayWrite, ofHub } from "../core/session";
import { Act, Empty, Field, Head, Section, Show, Tag } from "../ui/parts";
import { List, Table, whole } from "../ui/table";

interface TraceEvent {
  at: number;
  kind: string;
  channel?: string;
  event?: string;
  serial?: string;
  publisher?: string | null;
  bytes?: number;
  payload?: string | null;
}

interface Traced {
  channels: string[];
  events: TraceEvent[];
  complete: boolean;
}

const MOST_SECONDS = 20;
const MOST_EVENTS = 500;

/** Listens for a moment to a channel, or to all channels of a session. */
function Tap() {
  const session = route.value.query.get("session") ?? "";
  const channel = route.value.query.get("channel") ?? "";
  const [what, setWhat] = useState<"channel" | "session">(session ? "session" : "channel");
  const [seconds, setSeconds] = useState(5);
  const [found, setFound] = useState<Traced | null>(null);
  const name = what === "session" ? session : channel;
  const listen = async (): Promise<void> => {
    setFound(null);
    setFound(await post<Traced>(ofHub("/traces"), { [what]: name, seconds, limit: MOST_EVENTS }));
  };
  return (
    <Section
      title={`Trace in ${hub.value}`}
      note="What reaches a channel, or the channels of a session, for some seconds. That somebody listened is in the audit log."
    >
      <div class="form">
        <Field label="Listen to">
          <select
            value={what}
            disabled={!mayWrite.value}
            onChange={(event) => setWhat(event.currentTarget.value as typeof what)}
          >
            <option value="channel">a channel</option>
            <option value="session">the channels of a session</option>
          </select>
        </Field>
        <Field label={what === "session" ? "Session" : "Channel"}>
          <input
            value={name}
            disabled={!mayWrite.value}
            onInput={(event) => setQuery({ [what]: event.currentTarget.value })}
          />
        </Field>
        <Field label="Seconds">
          <input
            type="number"
            min={1}
            max={MOST_SECONDS}
            value={seconds}
            disabled={!mayWrite.value}
            onInput={(event) =>
              setSeconds(Math.min(Math.max(event.currentTarget.valueAsNumber || 1, 1), MOST_SECONDS))
            }
          />
        </Field>
      </div>
      <div class="tools end">
        <Act kind="main" disabled={name === ""} act={listen}>
          Listen
        </Act>
      </div>
      {found && (
        <>
          <h3>
            {plural(found.events.length, "event")} in {plural(found.channels.length, "channel")}
            {!found.complete && ", and more came than are shown"}
          </h3>
          <List
            label="Traced events"
            rows={found.events.map((event, at) => ({ ...event, id: String(at) }))}
            id={(event) => event.id}
            empty={
              <p class="note">Nothing came meanwhile. Listen longer, or publish something to the channel.</p>
            }
            columns={[
              { head: "time", cell: (event) => preciseClock(event.at) },
              { head: "what", cell: (event) => <Tag>{event.kind}</Tag> },
              { head: "channel", cell: (event) => visible(event.channel ?? "") },
              { head: "event", rank: 2, cell: (event) => visible(event.event ?? "") || "–" },
              { head: "publisher", rank: 2, cell: (event) => visible(event.publisher ?? "") || "–" },
              { head: "size", rank: 2, number: true, cell: (event) => bytes(event.bytes ?? 0) },
              {
                head: "payload",
                cell: (event) =>
                  event.payload == null ? (
                    <span class="quiet">no text</span>
                  ) : (
                    <details>
                      <summary class="mono">{visible(event.payload.slice(0, 80))}</summary>
                      <pre class="text">{event.payload}</pre>
                    </details>
                  ),
              },
            ]}
          />
        </>
      )}
    </Section>
  );
}

interface Setting {
  key: string;
  value: string;
  /** It differs from the default. */
  set: boolean;
}

function Settings({ of }: { of: Setting[] }) {
  const [find, setFind] = useState("");
  const rows = of.filter((each) => each.key.toLowerCase().includes(find.toLowerCase()));
  return (
    <>
      <p class="note">
        <input
          type="search"
          data-search
          placeholder="Search settings"
          aria-label="Search settings"
          value={find}
          onInput={(event) => setFind(event.currentTarget.value)}
        />
      </p>
      <Table
        label="Settings"
        of={whole(rows)}
        id={(each) => each.key}
        empty={<p class="note">No setting is called so.</p>}
        columns={[
          { head: "setting", cell: (each) => each.key },
          { head: "value", cell: (each) => each.value },
          {
            head: "from",
            width: "112px",
            rank: 2,
            cell: (each) => (each.set ? <Tag kind="good">set</Tag> : <span class="quiet">default</span>),
          },
        ]}
      />
    </>
  );
}

export default function Trace() {
  const settings = useLoad(
    (signal) =>
      everywhere.value
        ? get<{ settings: Setting[] }>("/configuration", {}, signal)
        : Promise.resolve({ settings: [] }),
    [],
  );
  return (
    <>
      <Head title="Trace and settings" />
      <Tap />
      <p class="note">
        The <a href={link("inspector")}>inspector</a> follows channels for longer, as a client; a pattern such
        as <code>orders:*</code> follows many.
      </p>
      {everywhere.value ? (
        <Section
          title="Settings of this node"
          note="As it runs, from file, environment and defaults. Secrets are hidden."
        >
          <Show
            of={settings}
            missing={
              <Empty command="hubbub serve --config hubbub.yaml">This hub does not show its settings.</Empty>
            }
          >
            {({ settings: all }) => <Settings of={all} />}
          </Show>
        </Section>
      ) : (
        <p class="note">The settings of nodes are for those who administer all hubs.</p>
      )}
    </>
  );
}
