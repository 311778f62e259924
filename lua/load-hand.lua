#!lua
-- A person says what the load is, or leaves it to the workers again. Changes no factor: the next step goes by it.
--
-- KEYS  1 load hash
-- ARGV  1 action  set | clear
--       2 load    0 to 1 · 3 for ms, -1 without end · 4 actor text: of set
-- Reply { end in ms (-1 without, 0 nothing is set), Redis time in ms, the load that was set before; empty if none was }

-- include lib/load.lua

local action, load, length, actor = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local ends = handEnds()
local before = (ends == -1 or ends > now) and field('hand') or ''
if action == 'set' then
  ends = length == -1 and -1 or now + length
  redis.call('HSET', KEYS[1], 'v', '1', 'hand', load, 'handAt', int(now), 'handUntil', int(ends), 'actor', actor)
  keep()
elseif redis.call('EXISTS', KEYS[1]) == 1 then
  ends = 0
  forgetHand()
  keep()
else
  ends = 0
end
return { int(ends), int(now), before }
