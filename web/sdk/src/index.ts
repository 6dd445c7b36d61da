/** @hubbub/client: everything of the main entry. Nothing happens at import. */

export { Client, connect } from "./client.ts";
export { type LiveDocument, liveDocument, type Operation } from "./documents.ts";
export type { ClientCode, ErrorDetails } from "./errors.ts";
export { HubbubError } from "./errors.ts";
export { type Notification, type Notifications, notifications } from "./notifications.ts";
export { type PushRegistration, pushRegistration } from "./push.ts";
export { type Article, type Standing, type Topic, type TopicOptions, topic } from "./topics.ts";
export type * from "./types.ts";
export { type SocketClass, webSocket } from "./websocket.ts";
export { jsonCodec } from "./wire.ts";
