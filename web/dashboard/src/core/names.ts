/** Names of channels that follow from others. */

/** The channel of a channel's dead letters. Those of user channels are told by the namespace. */
export function deadLettersOf(channel: string): string {
  const users = /^u(\.dead)*(?=:)/.exec(channel)?.[0];
  return users === undefined ? `${channel}.dead` : `${users}.dead${channel.slice(users.length)}`;
}
