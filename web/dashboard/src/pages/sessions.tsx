/** Open sessions of a hub: who, from where, how much waits for them; disconnect and revoke. */

import { get, type Page, path, post, remove } from "../core/api";
import { bytes, count, duration, visible } from "../core/format";
import { useLoad } from "../core/load";
import { go, link, route, setQuery } from "../core/router";
import { hub, ofHub } from "../core/session";
import { Act, Empty, Facts, Head, Section, Show, Since, Tag, Time } from "../ui/parts";
import { type Column, PAGE_ROWS, Table, useRows } from "../ui/table";

interface SessionRow {
  sessionID: string;
  level: string;
  authenticated: boolean;
  openedAt: number;
  channels: string[];
  channelCount?: number;
  userID?: string | null;
  tokenID?: string | null;
  expiresAt?: number | null;
  node?: string;
  transport?: string;
  address?: string;
  queuedBytes?: number;
  quietMs?: number;
}

export default function Sessions() {
  const id = route.value.parts[0];
  return id === undefined ? <All /> : <One key={id} id={id} />;
}

function All() {
  const { query } = route.value;
  const q = query.get("q") ?? "";
  const channel = query.get("channel") ?? "";
  const sort = query.get("sort") ?? "id";
  const rows = useRows<SessionRow>(
    (cursor, signal) =>
      get<Page<SessionRow>>(ofHub("/sessions"), { limit: PAGE_ROWS, cursor, q, channel, sort }, signal),
    [hub.value, q, channel, sort],
  );
  const columns: Column<SessionRow>[] = [
    {
      head: "session",
      sort: "id",
      cell: (row) => (
        <a class="mono" href={link("sessions", [row.sessionID], { channel: "" })}>
          {row.sessionID}
        </a>
      ),
    },
    {
      head: "user",
      cell: (row) => (row.userID && visible(row.userID)) ?? <span class="quiet">anonymous</span>,
    },
    { head: "transport", rank: 2, width: "96px", cell: (row) => row.transport ?? "–" },
    { head: "address", rank: 3, cell: (row) => row.address || <span class="quiet">–</span> },
    {
      head: "channels",
      rank: 2,
      number: true,
      width: "80px",
      cell: (row) => count(row.channelCount ?? row.channels.length),
    },
    { head: "waiting", rank: 2, number: true, width: "80px", cell: (row) => bytes(row.queuedBytes ?? 0) },
    { head: "node", rank: 3, width: "minmax(0, 0.6fr)", cell: (row) => row.node || "–" },
    { head: "opened", sort: "-opened", rank: 2, width: "112px", cell: (row) => <Since at={row.openedAt} /> },
  ];
  return (
    <>
      <Head
        title={channel ? `Sessions on ${channel}` : "Sessions"}
        {...(channel && {
          back: ["All sessions", link("sessions", [], { channel: "" })] as [string, string],
        })}
      >
        <input
          type="search"
          data-search
          placeholder="User, or start of an id"
          aria-label="Search sessions"
          value={q}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
      </Head>
      <Table
        label="Sessions"
        of={rows}
        columns={columns}
        id={(row) => row.sessionID}
        sort={sort}
        onSort={(next) => setQuery({ sort: next })}
        empty={
          <Empty command={`hubbub subscribe news --hub ${hub.value}`}>
            {q ? `No session of “${q}”.` : "Nobody is connected."}
          </Empty>
        }
      />
    </>
  );
}

function One({ id }: { id: string }) {
  const at = ofHub(path`/sessions/${id}`);
  const found = useLoad((signal) => get<SessionRow>(at, {}, signal), [at], 5000);
  return (
    <>
      <Head title={`Session ${id}`} back={["Sessions", link("sessions")]}>
        <a href={link("trace", [], { session: id })}>Trace its channels</a>
      </Head>
      <Show of={found} missing={<p class="note">This session has ended.</p>}>
        {(session) => (
          <>
            <div class="tools">
              <Act
                kind="bad"
                ask={`End the session of ${session.userID ?? "an anonymous user"}? It does not come back by itself.`}
                done="Disconnected"
                act={() => remove(at).then(() => go(link("sessions")))}
              >
                Disconnect
              </Act>
              {session.tokenID && (
                <Act
                  kind="bad"
                  ask="Revoke the token of this session? All sessions that it opened end."
                  done="Revoked"
                  act={() => post(ofHub("/revocations"), { kind: "token", subject: session.tokenID })}
                >
                  Revoke its token
                </Act>
              )}
              {session.userID && (
                <Act
                  kind="bad"
                  ask={`Revoke all tokens of ${session.userID}? All sessions of this user end.`}
                  done="Revoked"
                  act={() => post(ofHub("/revocations"), { kind: "user", subject: session.userID })}
                >
                  Revoke the user's tokens
                </Act>
              )}
            </div>
            <Section title="Who and where">
              <Facts
                of={[
                  ["user", session.userID ? visible(session.userID) : "anonymous"],
                  ["level", <Tag>{session.level}</Tag>],
                  ["transport", session.transport],
                  ["address", session.address || undefined],
                  ["node", session.node || undefined],
                  ["opened", <Time at={session.openedAt} />],
                  [
                    "quiet for",
                    session.quietMs === undefined ? undefined : duration(Math.round(session.quietMs / 1000)),
                  ],
                  ["waiting", session.queuedBytes === undefined ? undefined : bytes(session.queuedBytes)],
                  ["token", session.tokenID ? <span class="mono">{session.tokenID}</span> : undefined],
                  ["expires", session.expiresAt ? <Time at={session.expiresAt * 1000} /> : "never"],
                ]}
              />
            </Section>
            <Section title={`Channels (${count(session.channelCount ?? session.channels.length)})`}>
              {session.channels.length === 0 ? (
                <p class="note">Subscribed to nothing.</p>
              ) : (
                <ul class="plain-list names">
                  {session.channels.slice(0, 500).map((channel) => (
                    <li key={channel}>
                      <a href={link("channels", [channel])}>{visible(channel)}</a>
                    </li>
                  ))}
                  {session.channels.length > 500 && (
                    <li class="quiet">+ {count(session.channels.length - 500)}</li>
                  )}
                </ul>
              )}
            </Section>
          </>
        )}
      </Show>
    </>
  );
}
