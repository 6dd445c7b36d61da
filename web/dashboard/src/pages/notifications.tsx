/** Notifications of a user or channel, and push to devices: what is unread, what was sent, what the services answered. */

import { useState } from "preact/hooks";
import { get, path, post, put, remove } from "../core/api";
import { count, duration } from "../core/format";
import { useLoad } from "../core/load";
import { route, setQuery } from "../core/router";
import { hub, mayWrite, ofHub } from "../core/session";
import { JsonField } from "../ui/form";
import { type Payload, PayloadView } from "../ui/json";
import { Act, Empty, Field, Head, Section, Show, Since, Tabs, Tag, Time, tell } from "../ui/parts";
import { type Column, List } from "../ui/table";

interface Notification {
  id: string;
  ts: number;
  payload: Payload;
  read: boolean;
  event?: string;
  author?: string;
}

interface NotificationPage {
  notifications: Notification[];
  unread: number;
  total: number;
}

const TABS = [
  ["notifications", "Notifications"],
  ["push", "Push"],
] as const;

export default function Notifications() {
  const show = (route.value.query.get("show") ?? "notifications") as (typeof TABS)[number][0];
  return (
    <>
      <Head title="Notifications and push">
        <Tabs label="Part" of={TABS} value={show} onChange={(next) => setQuery({ show: next })} />
      </Head>
      {show === "notifications" ? <OfChannel /> : <Push />}
    </>
  );
}

// -- notifications ----------------------------------------------------------------------------------

function OfChannel() {
  const channel = route.value.query.get("channel") ?? "";
  return (
    <>
      <div class="tools">
        <Field
          label="Channel"
          hint="Channels of notifications begin with notification:, such as notification:u:ann"
        >
          <input
            data-search
            value={channel}
            placeholder="notification:news"
            onChange={(event) => setQuery({ channel: event.currentTarget.value })}
          />
        </Field>
      </div>
      {channel === "" ? (
        <Empty command={`curl -X POST …/v1/admin/hubs/${hub.value}/channels/notification:news/notifications`}>
          Name a channel to see its notifications, or to create one.
        </Empty>
      ) : (
        <Channel key={channel} name={channel} />
      )}
    </>
  );
}

function Channel({ name }: { name: string }) {
  const at = ofHub(path`/channels/${name}/notifications`);
  const page = useLoad((signal) => get<NotificationPage>(at, { limit: 50 }, signal), [at], 5000);
  const [text, setText] = useState<unknown>({ title: "Hello" });
  const mark = (ids: string[], how: "read" | "unread" | "delete"): Promise<void> =>
    post(`${at}/${how}`, { ids }).then(page.reload);
  const columns: Column<Notification>[] = [
    { head: "created", rank: 2, cell: (each) => <Time at={each.ts} /> },
    { head: "state", cell: (each) => (each.read ? <Tag>read</Tag> : <Tag kind="good">unread</Tag>) },
    { head: "event", rank: 2, cell: (each) => each.event || <span class="quiet">–</span> },
    { head: "payload", cell: (each) => <PayloadView of={each.payload} open={2} /> },
    {
      head: "",
      cell: (each) => (
        <div class="tools">
          <Act act={() => mark([each.id], each.read ? "unread" : "read")}>
            {each.read ? "Mark unread" : "Mark read"}
          </Act>
          <Act kind="bad" ask="Delete this notification?" act={() => mark([each.id], "delete")}>
            Delete
          </Act>
        </div>
      ),
    },
  ];
  return (
    <>
      <Section title="Create">
        <JsonField label="Payload" rows={3} value={text} onChange={setText} />
        <div class="tools end">
          <Act
            kind="main"
            done="Created"
            act={async () => {
              const answer = await post<{ created?: { success: boolean; error?: { message: string } }[] }>(
                at,
                { notifications: [{ payload: { json: text } }] },
              );
              const failed = answer.created?.find((each) => each.success === false);
              if (failed) throw new Error(failed.error?.message ?? "not created");
              page.reload();
            }}
          >
            Create
          </Act>
        </div>
      </Section>
      <Section
        title={page.value ? `${count(page.value.unread)} unread of ${count(page.value.total)}` : "Newest"}
      >
        <Show of={page}>
          {(found) => (
            <List
              label="Notifications"
              rows={found.notifications}
              columns={columns}
              id={(each) => each.id}
              empty={<p class="note">None.</p>}
            />
          )}
        </Show>
      </Section>
    </>
  );
}

// -- push -------------------------------------------------------------------------------------------

interface PushStatus {
  waiting: number;
  overflowed: number;
  platforms: Record<string, Platform>;
}

interface Platform {
  outcomes: Record<string, number>;
  meanSeconds?: number | null;
  lastSuccessAt?: number | null;
  lastError?: { at: number; reason: string; status?: number | null } | null;
}

interface Credential {
  name: string;
  platform: string;
  createdAt: number;
  [field: string]: unknown;
}

interface Token {
  platform: string;
  token: string;
  id: string;
  registeredAt: number;
  failures: number;
  lastSuccessAt?: number | null;
}

function Push() {
  const status = useLoad((signal) => get<PushStatus>(ofHub("/push"), {}, signal), [hub.value], 5000);
  const keys = useLoad(
    (signal) => get<{ items: Credential[] }>(ofHub("/push/credentials"), {}, signal),
    [hub.value],
  );
  const user = route.value.query.get("user") ?? "";
  return (
    <>
      <Section title="How push is doing">
        <Show of={status}>{(found) => <Platforms of={found} />}</Show>
      </Section>
      <Section
        title="Keys and accounts"
        tools={
          <Act done="Made" act={() => post(ofHub("/push/keys")).then(keys.reload)}>
            New key for browsers
          </Act>
        }
      >
        <Show of={keys}>
          {(found) => (
            <List
              label="Keys and accounts"
              rows={found.items}
              id={(each) => `${each.platform}\n${each.name}`}
              empty={
                <p class="note">
                  None: no device can be reached. Browsers need a key, FCM and APNs an account.
                </p>
              }
              columns={[
                { head: "platform", cell: (each: Credential) => <Tag>{each.platform}</Tag> },
                { head: "name", cell: (each: Credential) => <span class="mono">{each.name}</span> },
                {
                  head: "account",
                  rank: 2,
                  cell: (each: Credential) => String(each.projectID ?? each.teamID ?? "–"),
                },
                { head: "since", rank: 2, cell: (each: Credential) => <Time at={each.createdAt} /> },
                {
                  head: "",
                  cell: (each: Credential) => (
                    <Act
                      kind="bad"
                      ask={`Delete ${each.name}? Devices that depend on it are not reached any more.`}
                      done="Deleted"
                      act={() =>
                        remove(
                          ofHub(
                            each.platform === "webpush"
                              ? path`/push/keys/${each.name}`
                              : path`/push/credentials/${each.platform}`,
                          ),
                        ).then(keys.reload)
                      }
                    >
                      Delete
                    </Act>
                  ),
                },
              ]}
            />
          )}
        </Show>
      </Section>
      {mayWrite.value && <Account changed={keys.reload} />}
      <Section title="Devices of a user">
        <Field label="User">
          <input value={user} onChange={(event) => setQuery({ user: event.currentTarget.value })} />
        </Field>
        {user && <Devices key={user} user={user} />}
      </Section>
    </>
  );
}

const NO_APNS = { keyID: "", teamID: "", topic: "", environment: "production", key: "" };

/** The secret goes to the hub, which never tells it again, and is not kept in the page. */
function Account({ changed }: { changed: () => void }) {
  const [platform, setPlatform] = useState<"fcm" | "apns">("fcm");
  const [file, setFile] = useState("");
  const [apns, setApns] = useState(NO_APNS);
  const field = (name: keyof typeof NO_APNS) => ({
    value: apns[name],
    onInput: (event: { currentTarget: { value: string } }) =>
      setApns({ ...apns, [name]: event.currentTarget.value }),
  });
  const save = async (): Promise<void> => {
    const { topic, ...key } = apns;
    await put(
      ofHub(path`/push/credentials/${platform}`),
      platform === "fcm" ? read(file) : { ...key, ...(topic && { topic }) },
    );
    setFile("");
    setApns(NO_APNS);
    changed();
  };
  const ready = platform === "fcm" ? file : apns.keyID && apns.teamID && apns.key;
  return (
    <Section
      title="Set an account"
      tools={
        <Tabs
          label="Platform"
          of={[
            ["fcm", "FCM"],
            ["apns", "APNs"],
          ]}
          value={platform}
          onChange={setPlatform}
        />
      }
    >
      <div class="form">
        {platform === "fcm" ? (
          <div class="whole">
            <Field label="Service account" hint="The JSON file, as Google gives it.">
              <textarea rows={4} value={file} onInput={(event) => setFile(event.currentTarget.value)} />
            </Field>
          </div>
        ) : (
          <>
            <Field label="Key id">
              <input {...field("keyID")} />
            </Field>
            <Field label="Team id">
              <input {...field("teamID")} />
            </Field>
            <Field label="Topic" hint="Of devices that do not say theirs.">
              <input {...field("topic")} />
            </Field>
            <Field label="Environment">
              <select {...field("environment")}>
                <option>production</option>
                <option>sandbox</option>
              </select>
            </Field>
            <div class="whole">
              <Field label="Key" hint="The .p8 file, as Apple gives it.">
                <textarea rows={4} {...field("key")} />
              </Field>
            </div>
          </>
        )}
      </div>
      <div class="tools end">
        <Act kind="main" disabled={!ready} done="Saved" act={save}>
          Save the account
        </Act>
      </div>
    </Section>
  );
}

function read(file: string): unknown {
  try {
    return JSON.parse(file);
  } catch {
    throw new Error("This is not the JSON file of a service account.");
  }
}

function Platforms({ of }: { of: PushStatus }) {
  return (
    <>
      <p class="note">
        {count(of.waiting)} wait, {count(of.overflowed)} were given up since too many waited.
      </p>
      <List
        label="Platforms"
        rows={Object.entries(of.platforms)}
        id={([name]) => name}
        empty={<p class="note">Nothing was pushed since this node began.</p>}
        columns={[
          { head: "platform", cell: ([name]: [string, Platform]) => name },
          {
            head: "outcomes",
            cell: ([, each]: [string, Platform]) =>
              Object.entries(each.outcomes)
                .map(([name, n]) => `${name} ${count(n)}`)
                .join(", ") || "–",
          },
          {
            head: "takes, mean",
            number: true,
            rank: 2,
            cell: ([, each]: [string, Platform]) =>
              each.meanSeconds == null ? "–" : duration(each.meanSeconds),
          },
          {
            head: "last success",
            rank: 2,
            cell: ([, each]: [string, Platform]) => <Since at={each.lastSuccessAt} />,
          },
          { head: "last error", cell: ([, each]: [string, Platform]) => each.lastError?.reason ?? "–" },
        ]}
      />
    </>
  );
}

function Devices({ user }: { user: string }) {
  const at = ofHub(path`/users/${user}/push-tokens`);
  const tokens = useLoad((signal) => get<{ items: Token[] }>(at, {}, signal), [at]);
  const test = async (): Promise<void> => {
    const answer = await post<{ items: { platform: string; outcome: string; reason?: string | null }[] }>(
      ofHub("/push/test"),
      { user, title: "Hubbub", body: "A test" },
    );
    tell(
      answer.items
        .map((each) => `${each.platform}: ${each.outcome}${each.reason ? ` (${each.reason})` : ""}`)
        .join(", "),
    );
  };
  return (
    <Show of={tokens}>
      {(found) => (
        <>
          <List
            label="Devices"
            rows={found.items}
            id={(each) => each.id}
            empty={<p class="note">{user} has no device.</p>}
            columns={[
              { head: "platform", cell: (each: Token) => <Tag>{each.platform}</Tag> },
              { head: "id", cell: (each: Token) => <span class="mono">{each.id}</span> },
              { head: "registered", cell: (each: Token) => <Time at={each.registeredAt} /> },
              { head: "last success", rank: 2, cell: (each: Token) => <Since at={each.lastSuccessAt} /> },
              { head: "failures", number: true, cell: (each: Token) => count(each.failures) },
              {
                head: "",
                cell: (each: Token) => (
                  <Act
                    kind="bad"
                    ask="Delete this device?"
                    done="Deleted"
                    act={() => remove(`${at}${path`/${each.platform}/${each.id}`}`).then(tokens.reload)}
                  >
                    Delete
                  </Act>
                ),
              },
            ]}
          />
          <div class="tools end">
            <Act act={test} disabled={found.items.length === 0}>
              Push a test to all of them
            </Act>
          </div>
        </>
      )}
    </Show>
  );
}
