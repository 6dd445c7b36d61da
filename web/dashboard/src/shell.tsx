/** Everything around a page: navigation, the choice of the hub, keys, messages; and the login. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, type Page } from "./core/api";
import { helpShown, listenToKeys } from "./core/keys";
import { live } from "./core/live";
import { useLoad } from "./core/load";
import { go, link, route, setQuery } from "./core/router";
import { doors, everywhere, hub, logIn, logOut, me } from "./core/session";
import { nextTheme, theme } from "./core/theme";
import { PAGES, type PageEntry, pageAt } from "./pages";
import { Dialog, Empty, Field, Question, Ripples, said, Told, Trouble, tell } from "./ui/parts";

export function Shell() {
  return (
    <>
      {me.value === undefined ? (
        <p class="login loading">Hubbub</p>
      ) : me.value === null ? (
        <Login />
      ) : (
        <Frame />
      )}
      <Question />
      <Told />
    </>
  );
}

// -- login ------------------------------------------------------------------------------------------

function Login() {
  const known = useLoad(doors, []);
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    document.title = "Log in · Hubbub";
  }, []);
  const enter = async (proof: Parameters<typeof logIn>[0]): Promise<void> => {
    try {
      await logIn(proof);
      setWrong("");
    } catch (error) {
      setWrong(said(error));
    }
  };
  const byPassword = known.value?.password === true;
  return (
    <main class="login">
      <div>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void enter(token === "" ? { credentials: { user, password } } : { token: token.trim() });
          }}
        >
          <h1 class="brand">
            <Ripples size={32} /> Hubbub
          </h1>
          {wrong && <Trouble error={wrong} />}
          {byPassword && (
            <>
              <Field label="User">
                <input
                  autocomplete="username"
                  value={user}
                  onInput={(event) => setUser(event.currentTarget.value)}
                />
              </Field>
              <Field label="Password">
                <input
                  type="password"
                  autocomplete="current-password"
                  value={password}
                  onInput={(event) => setPassword(event.currentTarget.value)}
                />
              </Field>
            </>
          )}
          <Field
            label={byPassword ? "Or a token" : "Token"}
            hint={
              <>
                Make one with <code>hubbub token --level admin</code>, or open the link that{" "}
                <code>make run</code> prints.
              </>
            }
          >
            <input
              type="password"
              autocomplete="off"
              value={token}
              onInput={(event) => setToken(event.currentTarget.value)}
            />
          </Field>
          <button type="submit" class="main" disabled={token === "" && (user === "" || password === "")}>
            Log in
          </button>
        </form>
      </div>
    </main>
  );
}

// -- the frame --------------------------------------------------------------------------------------

function Frame() {
  const [menu, setMenu] = useState(false);
  const page = pageAt(route.value.page);
  useEffect(() => {
    if (!page) go(link("overview"), true);
  }, [page]);
  useEffect(() => listenToKeys(new Map(PAGES.map((each) => [each.key, () => go(link(each.path))]))), []);
  useEffect(() => setMenu(false), [route.value.page]);
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => document.getElementById("content")?.focus()}>
        To the content
      </button>
      <aside class={menu ? "side open" : "side"} aria-label="Pages">
        <a class="brand" href={link("overview")}>
          <Ripples /> Hubbub
        </a>
        <nav aria-label="Pages">
          {(["Look", "Act", "Operate"] as const).map((group) => (
            <div key={group}>
              <h2>{group}</h2>
              <ul>
                {PAGES.filter((each) => each.group === group).map((each) => (
                  <li key={each.path}>
                    <a
                      href={link(each.path)}
                      title={`g ${each.key}`}
                      {...(each === page && { "aria-current": "page" as const })}
                    >
                      {each.title}
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          ))}
        </nav>
        <Foot />
      </aside>
      <div>
        <div class="bar-top">
          <button type="button" class="menu" aria-expanded={menu} onClick={() => setMenu(!menu)}>
            Menu
          </button>
          <HubChoice page={page} />
          <span class={`link-state ${live.state.value} push`} title="The connection of this page to the hub">
            <span>
              {
                {
                  idle: "not connected",
                  connecting: "connecting",
                  live: "live",
                  waiting: "connection lost, trying again",
                }[live.state.value]
              }
            </span>
          </span>
          <button
            type="button"
            class="plain"
            aria-label={theme.value === "dark" ? "Light theme" : "Dark theme"}
            onClick={nextTheme}
          >
            {theme.value === "dark" ? "☀" : "☾"}
          </button>
          <button type="button" class="plain" aria-label="Keys" onClick={() => (helpShown.value = true)}>
            ?
          </button>
        </div>
        <main id="content" tabIndex={-1}>
          {page && <Body key={`${page.path} ${hub.value}`} page={page} />}
        </main>
      </div>
      {helpShown.value && <Help />}
    </div>
  );
}

function Foot() {
  const who = me.value;
  const leave = (): void => {
    logOut().catch((error) => tell(said(error), "bad"));
  };
  return (
    <div class="foot">
      <div>
        {who?.userID ?? "no name"} · {who?.level} {who?.hub === "*" ? "of all hubs" : `of ${who?.hub}`}
      </div>
      <div>Hubbub {who?.version}, times are UTC</div>
      <button type="button" onClick={leave}>
        Log out
      </button>
    </div>
  );
}

interface HubEntry {
  hub: string;
  sessions: number;
}

function HubChoice({ page }: { page: PageEntry | undefined }) {
  const [typed, setTyped] = useState(hub.value);
  const found = useLoad(
    (signal) =>
      everywhere.value
        ? get<Page<HubEntry>>("/hubs", { limit: 50, q: typed === hub.value ? "" : typed }, signal)
        : Promise.resolve({ items: [] }),
    [typed],
  );
  useEffect(() => setTyped(hub.value), [hub.value]);
  const hubs = found.value?.items ?? [];
  // A page of one hub needs one: the first.
  const first = hubs[0]?.hub;
  useEffect(() => {
    if (page?.ofHub && hub.value === "" && first) setQuery({ hub: first });
  }, [page, first, hub.value]);
  if (!everywhere.value) {
    return (
      <div class="hub-choice">
        <span class="quiet">Hub</span> <b>{hub.value}</b>
      </div>
    );
  }
  const chosen = (name: string): void => {
    setTyped(name);
    if (name === "" && page?.ofHub) return;
    if (name === "" || hubs.some((each) => each.hub === name)) go(link(route.value.page, [], { hub: name }));
  };
  return (
    <div class="hub-choice">
      <label class="quiet" for="hub">
        Hub
      </label>
      <input
        id="hub"
        list="hubs"
        autocomplete="off"
        placeholder="all hubs"
        value={typed}
        onInput={(event) => chosen(event.currentTarget.value)}
        onFocus={(event) => event.currentTarget.select()}
        onBlur={() => setTyped(hub.value)}
      />
      <datalist id="hubs">
        {hubs.map((each) => (
          <option key={each.hub} value={each.hub}>
            {each.sessions} sessions
          </option>
        ))}
      </datalist>
    </div>
  );
}

function Help() {
  const keys: [string, string][] = [
    ["/", "search"],
    ["j  k", "next and previous row"],
    ["Enter", "open the row"],
    ["?", "this help"],
    ...PAGES.map((page): [string, string] => [`g ${page.key}`, page.title]),
  ];
  return (
    <Dialog title="Keys" onClose={() => (helpShown.value = false)}>
      <dl class="facts">
        {keys.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              {key
                .split(" ")
                .filter(Boolean)
                .map((each) => (
                  <kbd key={each}>{each}</kbd>
                ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** Loads the code of a page when it is first shown. */
function Body({ page }: { page: PageEntry }) {
  const [shown, setShown] = useState<{ view?: ComponentType; error?: unknown }>({});
  useEffect(() => {
    let gone = false;
    page.load().then(
      (module) => !gone && setShown({ view: module.default }),
      (error) => !gone && setShown({ error }),
    );
    return () => {
      gone = true;
    };
  }, [page]);
  if (shown.error)
    return (
      <Trouble
        error="This page could not be loaded. Was the hub upgraded? Load it again."
        retry={() => location.reload()}
      />
    );
  if (!shown.view) return <p class="note loading">Loading …</p>;
  if (page.ofHub && hub.value === "")
    return (
      <Empty command="hubbub publish news Hello">
        There is no hub yet. One comes into being when it is used.
      </Empty>
    );
  const View = shown.view;
  return <View />;
}
