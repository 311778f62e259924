-- What the scripts share that change the hash of the load (KEYS[1]).
local LIVES = 600000 -- ms after the last step, or after the end of what a person set: factors that nobody looks after must not stay

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function int(n)
  return string.format('%.0f', n)
end

local function field(name)
  return redis.call('HGET', KEYS[1], name) or ''
end

-- The end of what a person set: 0 nothing is set, -1 it has no end.
local function handEnds()
  return tonumber(field('handUntil')) or 0
end

local function forgetHand()
  redis.call('HDEL', KEYS[1], 'hand', 'handAt', 'handUntil', 'actor')
end

local function keep()
  local ends = handEnds()
  if ends == -1 then
    redis.call('PERSIST', KEYS[1])
  else
    redis.call('PEXPIREAT', KEYS[1], int(math.max(now, ends) + LIVES))
  end
end
