#!lua
-- Removes from a call log what nothing can depend on any more: an outcome that ended longer ago than freshFor is stale, so what lies
-- another span before that is past for every outcome to come. What is younger is left to record.lua, which goes by the newest end. The last
-- failure or slow call stays: with it the log counts as open, as it would had nobody tidied up.
--
-- KEYS  1 slots hash, with the counts of the log (lib/call-log.lua) · 2 calls sorted set
-- ARGV  1 span ms · 2 freshFor ms · 3 most calls to remove
-- Reply calls removed
local span, fresh, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local old = redis.call('ZRANGE', KEYS[2], '-inf', string.format('%.0f', now - fresh - span), 'BYSCORE', 'LIMIT', 0, most)
if #old == 0 then return 0 end

local stored = redis.call('HMGET', KEYS[1], '@log', '@successes', '@failures', '@slow')
local function number(i) return tonumber(stored[i] or '') or 0 end
-- Counts that do not fit: the next outcome begins the log anew.
if not stored[1] or number(2) + number(3) + number(4) ~= redis.call('ZCARD', KEYS[2]) then return 0 end

local bad, gone, count = number(3) + number(4), {}, { ['1'] = 0, ['0'] = 0, ['3'] = 0 }
for _, member in ipairs(old) do
  local result = string.match(member, '^%d+:([013]):')
  local isLast = result ~= '1' and bad == 1
  if result and not isLast then
    if result ~= '1' then bad = bad - 1 end
    count[result] = count[result] + 1
    gone[#gone + 1] = member
  end
end
if #gone == 0 then return 0 end

redis.call('ZREM', KEYS[2], unpack(gone))
redis.call('HSET', KEYS[1], '@successes', number(2) - count['1'], '@failures', number(3) - count['0'], '@slow', number(4) - count['3'])
return #gone
