/** The lifecycle of an application on React Native: what pages say by events comes from `AppState` and `NetInfo` there. */

import type { Lifecycle, Options, Unlisten } from "./index.ts";

/** `AppState` of `react-native`. */
export interface AppState {
  addEventListener(type: "change", f: (state: string) => void): { remove(): void };
}

/** The default export of `@react-native-community/netinfo`. */
export interface NetInfo {
  addEventListener(f: (state: { isConnected: boolean | null }) => void): Unlisten;
}

/** For `connect`: `connect(url, { hub, ...reactNative(AppState, NetInfo) })`. A client in the background keeps its connection as
 * long as the system lets it, and looks at it when the application is back. */
export function reactNative(app: AppState, network?: NetInfo): Pick<Options, "lifecycle"> {
  return {
    lifecycle(life: Lifecycle): Unlisten {
      const changes = app.addEventListener("change", (state) => state === "active" && life.wake());
      let known: boolean | null | undefined; // the first one is told at once, and is no change
      const unlisten = network?.addEventListener(({ isConnected }) => {
        if (known !== undefined && isConnected !== known) isConnected ? life.wake() : life.doubt();
        known = isConnected;
      });
      return () => {
        changes.remove();
        unlisten?.();
      };
    },
  };
}
