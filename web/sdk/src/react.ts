/** Hooks for React 18 and later. Subscriptions are shared and linger, so that StrictMode and remounts cost nothing. */

import {
  type Context,
  createContext,
  createElement,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type {
  Channel,
  Client,
  Data,
  Json,
  LiveDocument,
  Member,
  Message,
  Notifications,
  Session,
  State,
  SubscribeOptions,
  Subscription,
  Unlisten,
} from "./index.ts";
import { HubbubError, liveDocument, notifications } from "./index.ts";

const ClientContext: Context<Client | undefined> = /* @__PURE__ */ createContext<Client | undefined>(
  undefined,
);

export function HubbubProvider(props: { client: Client; children?: ReactNode }): ReactNode {
  return createElement(ClientContext.Provider, { value: props.client }, props.children);
}

export function useClient(): Client {
  const client = useContext(ClientContext);
  if (!client)
    throw new HubbubError("not_supported", "there is no <HubbubProvider client={…}> around this component");
  return client;
}

export function useConnection(): { state: State; session: Session | undefined } {
  const client = useClient();
  const listen = useCallback((f: () => void) => client.on("state", f), [client]);
  const state = useSyncExternalStore<State>(listen, () => client.state, () => "idle"); // biome-ignore format: one line
  return { state, session: client.session };
}

type Watch = (client: Client, opened: { readonly ready: Promise<unknown> }, name: string) => Unlisten;

/** Why the hub refuses a subscription, or ended it. */
function useRefusal(): [HubbubError | undefined, Watch] {
  const [error, setError] = useState<HubbubError | undefined>(undefined);
  const watch = useCallback<Watch>((client, { ready }, name) => {
    let over = false;
    const refuse = (error: HubbubError) => over || setError(error);
    setError(undefined);
    ready.catch(refuse);
    const unlisten = client.on("accessLost", ({ channel, error }) => channel === name && refuse(error));
    return () => {
      over = true;
      unlisten();
    };
  }, []);
  return [error, watch];
}

/** Calls the newest `onMessage` with every message of a channel; `publish` sends to it. `error`: the hub refuses the
 * subscription, or ended it. */
export function useChannel<T extends Data = Json>(
  name: string,
  onMessage?: (message: Message<T>) => void,
  options?: SubscribeOptions,
): Channel<T> & { readonly error: HubbubError | undefined } {
  const client = useClient();
  const newest = useRef(onMessage);
  newest.current = onMessage;
  const given = useRef(options);
  const listens = onMessage !== undefined;
  const [error, watch] = useRefusal();
  useEffect(() => {
    if (!listens) return;
    const subscription = client
      .channel<T>(name)
      .subscribe((message) => newest.current?.(message), given.current);
    const unwatch = watch(client, subscription, name);
    return () => {
      unwatch();
      void subscription.unsubscribe();
    };
  }, [client, name, listens, watch]);
  return useMemo(() => Object.assign(client.channel<T>(name), { error }), [client, name, error]);
}

const NOBODY: Member[] = [];

/** `error`: the hub refuses the subscription, or ended it. */
export function usePresence(name: string): {
  members: Member[];
  occupancy: number | undefined;
  error: HubbubError | undefined;
} {
  const client = useClient();
  const [there, setThere] = useState<{ members: Member[]; occupancy: number | undefined }>({
    members: NOBODY,
    occupancy: undefined,
  });
  const [error, watch] = useRefusal();
  useEffect(() => {
    const subscription: Subscription<Json> = client.channel(name).subscribe(() => {});
    const show = () =>
      setThere({ members: [...subscription.members.values()], occupancy: subscription.occupancy });
    subscription.on("presence", show);
    subscription.on("occupancy", show);
    show();
    const unwatch = watch(client, subscription, name);
    return () => {
      unwatch();
      void subscription.unsubscribe();
    };
  }, [client, name, watch]);
  return { ...there, error };
}

/** `error`: the hub refuses the document, or took away the access to it. */
export function useLiveDocument<T = Json>(
  name: string,
): {
  value: T | undefined;
  change: LiveDocument<T>["change"];
  pending: number;
  error: HubbubError | undefined;
} {
  const client = useClient();
  const document = useRef<LiveDocument<T> | undefined>(undefined);
  const [value, setValue] = useState<T | undefined>(undefined);
  const [error, watch] = useRefusal();
  useEffect(() => {
    const opened = liveDocument<T>(client, name);
    document.current = opened;
    opened.on("change", (now) => setValue(() => now));
    const unwatch = watch(client, opened, name);
    return () => {
      unwatch();
      document.current = undefined;
      setValue(undefined);
      void opened.close();
    };
  }, [client, name, watch]);
  const change: LiveDocument<T>["change"] = useCallback(
    (edit, options) =>
      document.current?.change(edit, options) ??
      Promise.reject(new HubbubError("client_closed", "the component is not mounted")),
    [],
  );
  return { value, change, pending: document.current?.pending ?? 0, error };
}

/** `error`: the hub refuses the notifications, or took away the access to them. */
export function useNotifications(name: string): {
  unread: number;
  notifications: Notifications | undefined;
  error: HubbubError | undefined;
} {
  const client = useClient();
  const [opened, setOpened] = useState<Notifications | undefined>(undefined);
  const [unread, setUnread] = useState(0);
  const [error, watch] = useRefusal();
  useEffect(() => {
    const inbox = notifications(client, name);
    setOpened(inbox);
    inbox.on("unread", () => setUnread(inbox.unread));
    const unwatch = watch(client, inbox, inbox.channel);
    return () => {
      unwatch();
      void inbox.close();
    };
  }, [client, name, watch]);
  return { unread, notifications: opened, error };
}
