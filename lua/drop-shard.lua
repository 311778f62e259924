#!lua
-- include lib/stream-id.lua
-- Removes a shard that is no longer in use, if it was read to its end and nobody has written to it for a while.
--
-- KEYS[1] stream  the shard
-- KEYS[2] string  its lease
-- ARGV[1] group
-- ARGV[2] how long it must have been unwritten, ms
-- Returns 1 if it is gone now, else 0.

local group_name, idle_ms = ARGV[1], tonumber(ARGV[2])
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end

local about, group = describe(KEYS[1], group_name)
local last = about['last-generated-id']
local read_to = group and group['last-delivered-id'] or '0-0'
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

if id_before(read_to, last) and about['length'] > 0 then return 0 end
if now_ms - tonumber(string.match(last, '^%d+')) < idle_ms then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
