import { crc32 } from 'node:zlib';

/**
 * Which shard of the log carries a channel: CRC-32 (as zlib, ISO-HDLC) of the name's UTF-8 bytes after NFC, modulo `shards`. A public
 * rule: writers in other languages that follow it keep the order of a channel's outcomes.
 */
export function shardOf(channel: string, shards: number): number {
  return crc32(channel.normalize('NFC')) % shards;
}
