/** The start: takes a one-time link, asks who this is, and shows the page of the address. */

import "./core/theme";
import { effect } from "@preact/signals";
import { render } from "preact";
import { live } from "./core/live";
import { checkSession, logIn, me, whoAmI } from "./core/session";
import { Shell } from "./shell";
import { tell } from "./ui/parts";

async function start(): Promise<void> {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket) history.replaceState(null, "", "#/overview");
  try {
    if (ticket) await logIn({ ticket });
    else await whoAmI();
  } catch (error) {
    me.value = null;
    tell(
      ticket
        ? "This link was used already, or is too old. Restart the hub to get a new one."
        : (error as Error).message,
      "bad",
    );
  }
}

live.onLost = () => void checkSession();
effect(() => {
  if (me.value) live.start();
  else live.stop();
});

const root = document.getElementById("app");
if (root) render(<Shell />, root);
void start();
