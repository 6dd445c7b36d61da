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

/** Calls the newest `onMessage` with every message of a channel; `publish` sends to it. */
export function useChannel<T extends Data = Json>(
  name: string,
  onMessage?: (message: Message<T>) => void,
  options?: SubscribeOptions,
) {
  const client = useClient();
  const newest = useRef(onMessage);
  newest.current = onMessage;
  const given = useRef(options);
  const listens = onMessage !== undefined;
  useEffect(() => {
    if (!listens) return;
    const subscription = client
      .channel<T>(name)
      .subscribe((message) => newest.current?.(message), given.current);
    return () => void subscription.unsubscribe();
  }, [client, name, listens]);
  return useMemo(() => client.channel<T>(name), [client, name]);
}

const NOBODY: Member[] = [];

export function usePresence(name: string): { members: Member[]; occupancy: number | undefined } {
  const client = useClient();
  const [there, setThere] = useState<{ members: Member[]; occupancy: number | undefined }>({
    members: NOBODY,
    occupancy: undefined,
  });
  useEffect(() => {
    const subscription: Subscription<Json> = client.channel(name).subscribe(() => {});
    const show = () =>
      setThere({ members: [...subscription.members.values()], occupancy: subscription.occupancy });
    subscription.on("presence", show);
    subscription.on("occupancy", show);
    show();
    return () => void subscription.unsubscribe();
  }, [client, name]);
  return there;
}

export function useLiveDocument<T = Json>(
  name: string,
): { value: T | undefined; change: LiveDocument<T>["change"]; pending: number } {
  const client = useClient();
  const document = useRef<LiveDocument<T> | undefined>(undefined);
  const [value, setValue] = useState<T | undefined>(undefined);
  useEffect(() => {
    const opened = liveDocument<T>(client, name);
    document.current = opened;
    opened.on("change", (now) => setValue(() => now));
    return () => {
      document.current = undefined;
      setValue(undefined);
      void opened.close();
    };
  }, [client, name]);
  const change: LiveDocument<T>["change"] = useCallback(
    (edit, options) =>
      document.current?.change(edit, options) ??
      Promise.reject(new HubbubError("client_closed", "the component is not mounted")),
    [],
  );
  return { value, change, pending: document.current?.pending ?? 0 };
}

export function useNotifications(name: string): { unread: number; notifications: Notifications | undefined } {
  const client = useClient();
  const [opened, setOpened] = useState<Notifications | undefined>(undefined);
  const [unread, setUnread] = useState(0);
  useEffect(() => {
    const inbox = notifications(client, name);
    setOpened(inbox);
    inbox.on("unread", () => setUnread(inbox.unread));
    return () => void inbox.close();
  }, [client, name]);
  return { unread, notifications: opened };
}
