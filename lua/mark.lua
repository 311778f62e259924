#!lua
-- Puts a channel on the agenda, due at once. Every mark changes the score, so that whoever read an earlier one can tell: below every
-- time there is, and at least one less than a mark that is already there.
--
-- KEYS  1 agenda sorted set
-- ARGV  1… channels
-- Reply { score of each, as text … }
local time = redis.call('TIME')
local mark = -(tonumber(time[1]) * 1000000 + tonumber(time[2]))
local scores = {}
for _, name in ipairs(ARGV) do
  local current = tonumber(redis.call('ZSCORE', KEYS[1], name) or nil)
  local score = mark
  if current and current < 0 then score = math.min(mark, current - 1) end
  scores[#scores + 1] = string.format('%.0f', score)
  redis.call('ZADD', KEYS[1], scores[#scores], name)
end
return scores
