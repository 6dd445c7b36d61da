/** Who may come in: tokens, revocations, auth providers; and what is kept about a user, to be erased. */

import { useState } from "preact/hooks";
import { call, get, type Page, path, post } from "../core/api";
import { count, visible, words } from "../core/format";
import { useLoad } from "../core/load";
import { route, setQuery } from "../core/router";
import { everywhere, hub, isAdmin, mayWrite, ofHub } from "../core/session";
import { JsonField } from "../ui/form";
import { Act, Copy, Dialog, Empty, Facts, Field, Head, Section, Show, Tabs, Tag, Time } from "../ui/parts";
import { type Column, List, PAGE_ROWS, Table, useRows } from "../ui/table";
import { SettingsTable } from "./settings-table";

interface Token {
  token: string;
  tokenID: string;
  expiresAt: number;
  userID?: string | null;
}

interface Revocation {
  hub: string;
  kind: string;
  subject: string;
  issuedUntil: number;
  expiresAt: number;
}

interface Grant {
  channel: string;
  publish: boolean;
  subscribe: boolean;
}

const TABS = [
  ["tokens", "Tokens"],
  ["revocations", "Revocations"],
  ["providers", "Auth providers"],
  ["erasure", "Erasure"],
] as const;

export default function Access() {
  const show = (route.value.query.get("show") ?? "tokens") as (typeof TABS)[number][0];
  return (
    <>
      <Head title="Access">
        <Tabs label="Part" of={TABS} value={show} onChange={(next) => setQuery({ show: next })} />
      </Head>
      {show === "tokens" && <Issue />}
      {show === "revocations" && <Revocations />}
      {show === "erasure" && <Erasure />}
      {show === "providers" && (
        <SettingsTable
          kind="auth-providers"
          schema="AuthProvider"
          one="auth provider"
          fresh={{ url: "https://", headers: {}, timeoutSeconds: 5, addresses: null }}
          page="access"
          query={{ show: "providers" }}
          column={["url", (value) => String(value.url)]}
          none="An auth provider decides who may connect with which credentials."
        />
      )}
    </>
  );
}

const HOUR = 3600;

function Issue() {
  const [userID, setUserID] = useState("");
  const [level, setLevel] = useState("client");
  const [hours, setHours] = useState(1);
  const [grants, setGrants] = useState<Grant[]>([{ channel: "*", publish: true, subscribe: true }]);
  const [extra, setExtra] = useState<unknown>({});
  const [made, setMade] = useState<Token | null>(null);
  const change = (at: number, next: Partial<Grant>): void =>
    setGrants(grants.map((grant, place) => (place === at ? { ...grant, ...next } : grant)));
  const issue = async (): Promise<void> => {
    const body = {
      ...(userID && { userID }),
      level,
      channels: grants,
      extra,
      ttlSeconds: Math.round(hours * HOUR),
    };
    setMade(await post<Token>(ofHub("/tokens"), body));
  };
  return (
    <Section
      title={`Issue a token for ${hub.value}`}
      note="The token is shown once. The hub keeps only its id, in the audit log."
    >
      <div class="form">
        <Field label="User" hint="Empty: nobody in particular.">
          <input data-search value={userID} onInput={(event) => setUserID(event.currentTarget.value)} />
        </Field>
        <Field label="Level" hint="A service may do everything in its hub.">
          <select value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
            <option value="client">client</option>
            {isAdmin.value && <option value="service">service</option>}
            {isAdmin.value && <option value="viewer">viewer</option>}
          </select>
        </Field>
        <Field label="Hours it holds">
          <input
            type="number"
            min={0.1}
            max={8760}
            step="any"
            value={hours}
            onInput={(event) => setHours(event.currentTarget.valueAsNumber || 1)}
          />
        </Field>
        <fieldset class="whole group">
          <legend>Channels</legend>
          {grants.map((grant, at) => (
            <div class="tools grant" key={at}>
              <input
                aria-label="Channel or pattern"
                value={grant.channel}
                onInput={(event) => change(at, { channel: event.currentTarget.value })}
              />
              <label class="check">
                <input
                  type="checkbox"
                  checked={grant.subscribe}
                  onChange={(event) => change(at, { subscribe: event.currentTarget.checked })}
                />{" "}
                subscribe
              </label>
              <label class="check">
                <input
                  type="checkbox"
                  checked={grant.publish}
                  onChange={(event) => change(at, { publish: event.currentTarget.checked })}
                />{" "}
                publish
              </label>
              <button
                type="button"
                class="plain"
                aria-label={`Take ${grant.channel} away`}
                onClick={() => setGrants(grants.filter((_, place) => place !== at))}
              >
                ✕
              </button>
            </div>
          ))}
          <button
            type="button"
            onClick={() => setGrants([...grants, { channel: "", publish: false, subscribe: true }])}
          >
            Add a pattern
          </button>
        </fieldset>
        <div class="whole">
          <JsonField label="Extra, which others see in presence" rows={3} value={extra} onChange={setExtra} />
        </div>
      </div>
      <div class="tools end">
        <Act kind="main" act={issue}>
          Issue
        </Act>
      </div>
      {made && (
        <Dialog title="The token" onClose={() => setMade(null)}>
          <pre class="code text">{made.token}</pre>
          <p class="note">
            Id <code>{made.tokenID}</code>, holds until <Time at={made.expiresAt * 1000} />.
          </p>
          <div class="tools end">
            <Copy text={made.token} />
          </div>
        </Dialog>
      )}
    </Section>
  );
}

function Revocations() {
  const [kind, setKind] = useState<"user" | "token" | "hub">("user");
  const [subject, setSubject] = useState("");
  const rows = useRows<Revocation>(
    (cursor, signal) => get<Page<Revocation>>(ofHub("/revocations"), { limit: PAGE_ROWS, cursor }, signal),
    [hub.value],
  );
  const ofAllHubs = useLoad(
    (signal) =>
      everywhere.value && isAdmin.value
        ? get<Page<Revocation>>("/revocations", { limit: 100 }, signal).catch(() => ({ items: [] }))
        : Promise.resolve({ items: [] as Revocation[] }),
    [],
  );
  const columns: Column<Revocation>[] = [
    { head: "what", width: "96px", cell: (row) => <Tag kind="bad">{row.kind}</Tag> },
    { head: "whose", cell: (row) => row.subject || <span class="quiet">all</span> },
    { head: "issued until", width: "160px", cell: (row) => <Time at={row.issuedUntil} /> },
    { head: "kept until", rank: 2, width: "160px", cell: (row) => <Time at={row.expiresAt} /> },
  ];
  return (
    <>
      {mayWrite.value && (
        <Section
          title="Revoke"
          note="What was revoked stays so; sessions that such tokens opened end at once."
        >
          <div class="tools">
            <Tabs
              label="What"
              of={[
                ["user", "A user's tokens"],
                ["token", "One token"],
                ["hub", "All of the hub"],
              ]}
              value={kind}
              onChange={setKind}
            />
            {kind !== "hub" && (
              <input
                aria-label={kind === "user" ? "User" : "Id of the token"}
                placeholder={kind === "user" ? "user" : "id of the token"}
                value={subject}
                onInput={(event) => setSubject(event.currentTarget.value)}
              />
            )}
            <Act
              kind="bad"
              disabled={kind !== "hub" && subject === ""}
              ask={kind === "hub" ? `Revoke every token of ${hub.value}?` : `Revoke ${subject}?`}
              done="Revoked"
              act={() =>
                post(ofHub("/revocations"), kind === "hub" ? { kind } : { kind, subject }).then(rows.reload)
              }
            >
              Revoke
            </Act>
          </div>
        </Section>
      )}
      <Section title={`In ${hub.value}`}>
        <Table
          label="Revocations"
          of={rows}
          columns={columns}
          id={(row) => `${row.kind}/${row.subject}`}
          empty={<Empty>Nothing is revoked.</Empty>}
          height={12}
        />
      </Section>
      <Show of={ofAllHubs}>
        {(page) =>
          page.items.length > 0 && (
            <Section title="In all hubs">
              <List
                label="Revocations in all hubs"
                rows={page.items}
                columns={columns}
                id={(row) => `${row.kind}/${row.subject}`}
                empty={null}
              />
            </Section>
          )
        }
      </Show>
    </>
  );
}

function Erasure() {
  const [user, setUser] = useState("");
  const [revoke, setRevoke] = useState(true);
  const [done, setDone] = useState<{ user: string; counts: [string, number][] } | null>(null);
  const erase = async (): Promise<void> => {
    setDone(null);
    const erased = await call<Record<string, number>>("DELETE", ofHub(path`/users/${user}`), {
      query: { revoke: String(revoke) },
    });
    setDone({ user, counts: Object.entries(erased).filter(([name, n]) => n > 0 || name === "left") });
    setUser("");
  };
  return (
    <Section
      title={`Erase a user of ${hub.value}`}
      note={
        <>
          Deletes notifications, devices, subscriptions, webhooks and the peer of the same name, and the
          content of stored messages that the user published, sent or got. The journal has a command of its
          own: <code>hubbub journal erase</code>.
        </>
      }
    >
      <div class="tools">
        <input
          aria-label="User to erase"
          placeholder="user"
          value={user}
          onInput={(event) => setUser(event.currentTarget.value)}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={revoke}
            onChange={(event) => setRevoke(event.currentTarget.checked)}
          />
          revoke the tokens first
        </label>
        <Act
          kind="bad"
          disabled={user === "" || !isAdmin.value}
          ask={`Erase what ${hub.value} keeps about the user “${visible(user)}”? It cannot be had back.`}
          act={erase}
        >
          Erase
        </Act>
      </div>
      {!isAdmin.value && <p class="note gap">Only an administrator may erase.</p>}
      {done && (
        <div role="status" class="gap">
          <p class="note">Erased of {visible(done.user)}; “left” is what a search afterwards still found:</p>
          <Facts of={done.counts.map(([name, n]): [string, string] => [words(name), count(n)])} />
        </div>
      )}
    </Section>
  );
}
