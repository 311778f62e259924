#!lua
-- Takes or renews a lease, if it is free or the caller's own; or gives it back.
--
-- KEYS[1] string  the lease: its holder
-- ARGV[1] worker
-- ARGV[2] length in ms; 0 gives it back
-- Returns 1 if the caller holds it now, else 0.

local worker, length_ms = ARGV[1], tonumber(ARGV[2])
local holder = redis.call('GET', KEYS[1])

if holder and holder ~= worker then return 0 end
if length_ms == 0 then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], worker, 'PX', length_ms)
return 1
