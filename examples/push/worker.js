// The service worker of index.html: shows what arrives, also when no page is open.
"use strict";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  // What the hub pushed: hub, channel, event, msgID, serial; title, body, icon, url and data where they were given.
  const said = event.data ? event.data.json() : {};
  event.waitUntil(show(said));
});

async function show(said) {
  for (const client of await self.clients.matchAll({ includeUncontrolled: true })) client.postMessage(said);
  // Browsers ask for something to be shown for each push.
  await self.registration.showNotification(said.title || said.channel || "Hubbub", {
    body: said.body,
    icon: said.icon,
    tag: said.msgID,
    data: said,
  });
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { url } = event.notification.data || {};
  if (url) event.waitUntil(self.clients.openWindow(url));
});
