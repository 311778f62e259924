#!lua
-- Removes announced transitions from the outbox, by epoch and never by count: another may have been pushed meanwhile.
--
-- KEYS  1 outbox list · 2 state hash
-- ARGV  1… epochs, as text
-- Reply { transitions left, next due in ms (0 plainly closed, -1 unknown), Redis time in ms }

-- Both are read before anything is removed: a wrong type must show first.
local lanes = redis.call('HMGET', KEYS[2], 'state', 'until', 'hold', 'shadow.state', 'shadow.until', 'shadow.hold', 'level', 'forcing', 'forced')
local texts = redis.call('LRANGE', KEYS[1], 0, -1)

local announced = {}
for _, epoch in ipairs(ARGV) do announced[epoch] = true end

local left = 0
for _, text in ipairs(texts) do
  local ok, t = pcall(cjson.decode, text)
  if ok and type(t) == 'table' and announced[t.epoch] then
    redis.call('LREM', KEYS[1], 1, text)
  else
    left = left + 1
  end
end

local at = lanes[7] and lanes[7] ~= '' and -1 or 0
local function sooner(mine)
  if mine ~= 0 and (at == 0 or at == -1 or (mine ~= -1 and mine < at)) then at = mine end
end
for i = 1, 4, 3 do
  if lanes[i] and lanes[i] ~= 'closed' then sooner(tonumber(lanes[i + 1]) or -1) else sooner(tonumber(lanes[i + 2] or 0) or 0) end
end
if lanes[8] == '1' then sooner(tonumber(lanes[9]) or 0) end

local time = redis.call('TIME')
return { left, at, tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) }
