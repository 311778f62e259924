#!lua
-- Gives a channel its next time on the agenda, or takes it off: only if nobody has touched it since its score was read.
--
-- KEYS  1 agenda sorted set
-- ARGV  1 channel · 2 score as read, text · 3 next time in ms; 0 takes it off
-- Reply 1 done, 0 somebody marked it meanwhile
local name, seen, at = ARGV[1], ARGV[2], tonumber(ARGV[3])
local current = redis.call('ZSCORE', KEYS[1], name)
if not current or string.format('%.0f', tonumber(current)) ~= seen then return 0 end
if at == 0 then
  redis.call('ZREM', KEYS[1], name)
else
  redis.call('ZADD', KEYS[1], string.format('%.0f', at), name)
end
return 1
