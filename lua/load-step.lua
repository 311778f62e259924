#!lua
-- Takes one step of the factors by which judging is more patient under load: of several watchers that want to, one does, and none before
-- its time.
--
-- KEYS  1 load hash
-- ARGV  1 time of the last step as the caller read it, text; empty if there was none · 2 the same of the time at which a person set the load
--       3 least ms between two steps · 4 window factor · 5 rate factor · 6 load, 0 to 1 · 7 whose load it is: workers | hand
-- Reply 1 taken, 0 too early, or something changed since it was read

-- include lib/load.lua

local seenAt, seenHand, every = ARGV[1], ARGV[2], tonumber(ARGV[3])
local windowFactor, rateFactor, load, source = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

if field('at') ~= seenAt or field('handAt') ~= seenHand then return 0 end
-- Far ahead: of a server whose clock was another.
if math.abs(now - (tonumber(seenAt) or 0)) < every then return 0 end
local ends = handEnds()
local isOver = ends > 0 and ends <= now
-- What the caller went by ended while it was on its way.
if isOver and source == 'hand' then return 0 end
if isOver then forgetHand() end
redis.call('HSET', KEYS[1], 'v', '1', 'at', int(now), 'windowFactor', windowFactor, 'rateFactor', rateFactor, 'load', load, 'source', source)
keep()
return 1
