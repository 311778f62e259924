#!lua
-- include lib/stream-id.lua
-- Moves a shard's committed position forward (never back), only for the holder of its lease. The number of entries read goes along, so that XINFO GROUPS and every exporter show the lag.
--
-- KEYS[1] stream  the shard
-- KEYS[2] string  its lease
-- ARGV[1] worker that believes it holds the lease
-- ARGV[2] group
-- ARGV[3] stream id after which the caller read on (the position it committed before)
-- ARGV[4] stream id of the first entry it read after that
-- ARGV[5] stream id of the last entry it is done with
-- ARGV[6] how many entries lie from the first to the last, both included
-- Returns { result, lag, lost }: result `committed`, `behind` (already further: nothing done), `not-holder` or `gone` (no stream or no
-- group); lag in entries, -1 if it cannot be known; lost = entries that were removed before anybody read them.

local worker, group_name = ARGV[1], ARGV[2]
local from, first_read, to = ARGV[3], ARGV[4], ARGV[5]
local count = tonumber(ARGV[6])

if redis.call('GET', KEYS[2]) ~= worker then return { 'not-holder', -1, 0 } end
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'gone', -1, 0 } end
local about, group = describe(KEYS[1], group_name)
if not group then return { 'gone', -1, 0 } end
local committed = group['last-delivered-id']
if not id_before(committed, to) then return { 'behind', group['lag'] or -1, 0 } end

local added, length, first = about['entries-added'], about['length'], about['recorded-first-entry-id']
local known = group['entries-read']
if not known and committed == '0-0' then known = 0 end

-- What the counter says if nothing was removed unread; unknown where somebody else moved the group meanwhile.
local expected = known and committed == from and known + count
local read = expected
if to == about['last-generated-id'] then
  read = added
elseif first == first_read and id_before(about['max-deleted-entry-id'], first) then
  -- The log begins with what we read first: all that was ever added before it is gone, whoever read it.
  read = added - length + count
end
if read and read > added then read = added end

local lost = 0
if expected and read > expected then lost = read - expected end
if read then
  redis.call('XGROUP', 'SETID', KEYS[1], group_name, to, 'ENTRIESREAD', string.format('%d', read))
else
  redis.call('XGROUP', 'SETID', KEYS[1], group_name, to)
end
return { 'committed', read and added - read or -1, lost }
