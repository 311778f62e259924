#!lua
-- Lends a permit for one call to a half-open channel: in the whole fleet never more at once than there are. One that is not given back is
-- free again at its deadline. Asked again for the same owner, it renews the deadline, so that an answer may be lost.
--
-- KEYS  1 blocked string · 2 permits sorted set: owner by deadline in ms
-- ARGV  1 owner    text, of one call
--       2 lease    ms
--       3 permits  how many there are
-- Reply 1 lent · 0 all of them are out · -1 the channel is not half-open
local owner, lease, permits = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('GET', KEYS[1]) ~= 'half-open' then return -1 end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
if not redis.call('ZSCORE', KEYS[2], owner) and redis.call('ZCARD', KEYS[2]) >= permits then return 0 end

redis.call('ZADD', KEYS[2], string.format('%.0f', now + lease), owner)
-- The key lives as long as the last of them.
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', tonumber(last[2])))
return 1
