/** This browser as a device that gets pushes. Over HTTP: a hub knows devices by their users. */

import { http } from "./calls.ts";
import { type Client, CORE } from "./client.ts";
import type { Wire } from "./types.ts";

export interface PushRegistration {
  /** Ask the user, subscribe with the browser's push service, and tell the hub. Again when the page is opened another day. A
   * subscription that the worker has with another key, such as the hub's key before its rotation, is replaced. */
  register(worker: ServiceWorkerRegistration): Promise<void>;
  unregister(worker: ServiceWorkerRegistration): Promise<void>;
  /** Have the pushes of a channel reach this user, also without a subscription. */
  follow(channel: string): Promise<void>;
  unfollow(channel: string): Promise<void>;
}

export function pushRegistration(client: Client): PushRegistration {
  const core = client[CORE];
  const ask = async (method: string, path: string[], body?: Wire) =>
    http(core.base, core.options.hub, await core.token(), [method, path, {}, body]);
  const follows = (method: string) => async (channel: string) =>
    void (await ask(method, ["push-subscriptions", channel]));
  return {
    async register({ pushManager }) {
      const { key, id } = await (await ask("GET", ["push", "key"])).json();
      const subscribe = () => pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
      const subscription = await subscribe().catch(async (error) => {
        const before = await pushManager.getSubscription();
        if (error.name !== "InvalidStateError" || !before) throw error;
        await before.unsubscribe(); // the push service tells the hub that it is gone
        return subscribe();
      });
      await ask("PUT", ["push-tokens"], {
        platform: "webpush",
        token: subscription.toJSON(),
        vapidKey: id,
      });
    },
    async unregister(worker) {
      const subscription = await worker.pushManager.getSubscription();
      if (!subscription) return;
      await ask("DELETE", ["push-tokens", "webpush", subscription.endpoint]);
      await subscription.unsubscribe();
    },
    follow: follows("PUT"),
    unfollow: follows("DELETE"),
  };
}
