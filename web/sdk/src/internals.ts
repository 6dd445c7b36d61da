/** What the other entries of this package share with the main one. No part of the public interface. */

export { CALLS } from "./calls.ts";
export { CORE } from "./client.ts";
export { readReceipt } from "./queue.ts";
export { Bytes, Delivered, fromBase64, fromPayload, newId, publishItem, toPayload } from "./wire.ts";
