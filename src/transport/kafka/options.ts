/** How brokers are reached: what every part of this transport is given. */
export type KafkaConnection = {
  /** `host:port` each; any of them is enough to find the others. */
  readonly brokers: readonly string[];
  /** TLS: `true` trusts what Node trusts; texts are PEM. */
  readonly ssl?: boolean | { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly sasl?: {
    readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
    readonly username: string;
    readonly password: string;
  };
  /** Told to the brokers, for their logs and quotas. */
  readonly clientId?: string;
};

/** The topic of outcomes, if nobody says otherwise. */
export const DEFAULT_TOPIC = 'fuseline.outcomes';

/** Where a topic's dead letters go. */
export const deadTopic = (topic: string): string => `${topic}.dead`;

/** Most outcomes that one record may carry. */
export const OUTCOMES_MAX = 1_000;
/** Most bytes that one record's value may have: 1 MiB. */
export const VALUE_MAX_BYTES = 1_048_576;
