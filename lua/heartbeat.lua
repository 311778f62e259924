#!lua
-- Says that a worker lives, forgets the long dead, and counts the living, all by this server's clock.
--
-- KEYS[1] sorted set  workers by the time of their last heartbeat (ms)
-- ARGV[1] worker
-- ARGV[2] how long a heartbeat counts, ms
-- ARGV[3] how long a dead worker stays listed, ms
-- Returns the number of live workers, the caller included.

local worker, live_ms, listed_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

redis.call('ZADD', KEYS[1], string.format('%d', now_ms), worker)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%d', now_ms - listed_ms))
redis.call('PEXPIRE', KEYS[1], listed_ms)
return redis.call('ZCOUNT', KEYS[1], string.format('(%d', now_ms - live_ms), '+inf')
