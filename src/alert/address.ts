import ipaddr from 'ipaddr.js';

/** The destination is not one that alerts may go to. The message never holds the URL's path or query. */
export class DestinationError extends Error {
  override readonly name = 'DestinationError';
}

/**
 * Reads the URL of a receiver. Whoever may write rules must not make our servers call what only they can reach, so private
 * addresses in all their spellings (`127.1`, `0x7f000001`, `2130706433`, `[::ffff:127.0.0.1]`) are refused; names are looked up and
 * checked again when the connection is made.
 *
 * @throws {DestinationError} not http(s), user and password, white space or control characters, a private or local host
 */
export function checkUrl(text: string, { allowPrivate = false }: { allowPrivate?: boolean } = {}): URL {
  // The parser drops line ends in silence; elsewhere they may end up in a header.
  if (/[\s\p{Cc}]/u.test(text)) throw new DestinationError('the URL holds white space or control characters');
  if (!URL.canParse(text)) throw new DestinationError('the URL cannot be read');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new DestinationError(`the URL must begin with https:// or http://, got ${url.protocol}`);
  }
  if (url.username !== '' || url.password !== '')
    throw new DestinationError('the URL must not hold a user or a password');
  if (!allowPrivate) assertPublicHost(url.hostname);
  return url;
}

/** @throws {DestinationError} the host is an address that is not public, or a name that always means this machine */
export function assertPublicHost(hostname: string): void {
  const host = hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
  if (host === 'localhost' || host.endsWith('.localhost')) throw new DestinationError(`${host} is this machine`);
  if (ipaddr.isValid(host)) assertPublicAddress(host);
}

/** @throws {DestinationError} not an address of the public Internet */
export function assertPublicAddress(address: string): void {
  if (!isPublicAddress(address)) throw new DestinationError(`${address} is not a public address`);
}

function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  // Also turns ::ffff:127.0.0.1 into 127.0.0.1.
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.range() === 'unicast';
  const bytes = parsed.toByteArray();
  // Addresses that carry another one in their last four bytes: NAT64 (RFC 6052), and the old ::a.b.c.d.
  const isEmbedded = parsed.range() === 'rfc6052' || bytes.slice(0, 12).every((byte) => byte === 0);
  if (isEmbedded) return isPublicAddress(bytes.slice(12).join('.'));
  return parsed.range() === 'unicast';
}
