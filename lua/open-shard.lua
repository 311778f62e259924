#!lua
-- include lib/stream-id.lua
-- Makes sure that a shard and its group exist, and says where to read on. Run when a worker takes a shard and after every trouble.
--
-- KEYS[1] stream  the shard
-- ARGV[1] group
-- ARGV[2] stream id last committed, as the caller remembers it; '0-0' for nothing
-- Returns { what, committed, lag }. what: `found`; `created` (there was no group); `recreated` (there was none, or one that never
-- committed, and the log ends below the remembered position: another log under the old name, to be read from its beginning); `raised`
-- (the group has committed, but the log ends below the remembered position, as after a failover that lost its tail: new entries were
-- made to get higher ids, because an id used twice would be taken for a duplicate). committed: stream id; lag in entries, -1 if unknown.

local group_name, remembered = ARGV[1], ARGV[2]

if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('XGROUP', 'CREATE', KEYS[1], group_name, '0', 'MKSTREAM')
  return { remembered == '0-0' and 'created' or 'recreated', '0-0', 0 }
end

local about, group = describe(KEYS[1], group_name)
local ends_below = id_before(about['last-generated-id'], remembered)
if group then
  -- Not raised: somebody died between creating the group and telling that the log is another one.
  if ends_below and group['last-delivered-id'] == '0-0' then return { 'recreated', '0-0', group['lag'] or -1 } end
  if ends_below then redis.call('XSETID', KEYS[1], remembered) end
  return { ends_below and 'raised' or 'found', group['last-delivered-id'], group['lag'] or -1 }
end
local start = ends_below and '0-0' or remembered
redis.call('XGROUP', 'CREATE', KEYS[1], group_name, start)
return { ends_below and 'recreated' or 'created', start, -1 }
