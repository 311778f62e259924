-- The fence: per partition the last position recorded, so that a batch read again changes nothing. `@by` and `@at` say which partition
-- opened the window, and when. Two more fields, where a policy asks for them: `@run` = `<failures in a row>|<since>`, counted since the last
-- change of state; `@suspected`: when people were told that a single source fails.

local fence = {}
fence.__index = fence

-- Positions are <a> or <a>-<b>, decimal, up to 64 bits: more than a Lua number holds, so they are compared as digits.
local function above(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end
local function after(x, y)
  local xa, xb = string.match(x, '^(%d+)%-?(%d*)$')
  local ya, yb = string.match(y, '^(%d+)%-?(%d*)$')
  if xa ~= ya then return above(xa, ya) end
  return above(xb, yb)
end

local function loadFence(partition)
  local f = setmetatable({ partition = partition, by = '', at = 0, run = 0, runSince = 0, ran = 0, suspected = 0, size = 0, old = {} }, fence)
  local all = redis.call('HGETALL', KEYS[4])
  for i = 1, #all, 2 do
    local name, value = all[i], all[i + 1]
    if name == '@by' then
      f.by = value
    elseif name == '@at' then
      f.at = tonumber(value) or 0
    elseif name == '@run' then
      local run, since = string.match(value, '^(%d+)|(%d+)$')
      f.run, f.runSince = tonumber(run) or 0, tonumber(since) or 0
      f.ran = f.run
    elseif name == '@suspected' then
      f.suspected = tonumber(value) or 0
    else
      f.size = f.size + 1
      local position, written = string.match(value, '^([%d%-]+)|(%d+)$')
      if not written or tonumber(written) + 2 * policy.fresh < now then
        f.old[#f.old + 1] = name
      elseif name == partition then
        f.before = position
      end
    end
  end
  f.last = f.before
  return f
end

-- As the fence stood before the call: all outcomes of one entry share its position.
function fence:covers(position)
  return self.before ~= nil and not after(position, self.before)
end

function fence:reach(position)
  if self.last == nil or after(position, self.last) then self.last = position end
end

function fence:opens(partition)
  self.by, self.at, self.opened = partition, now, true
end

-- Counts failures in a row. They begin anew with every change of state, and where a window that forgets successes is not open.
function fence:startRun(since, begun)
  if self.runSince ~= since or not begun then self.run = 0 end
  self.runSince = since
end
function fence:count(failed)
  self.run = failed and self.run + 1 or 0
  self.counts = true
end

-- The rules do not ask for them now: if they do so again, what was counted before is no run any more.
function fence:forgetRun()
  if self.ran > 0 then self.run, self.counts = 0, true end
end

function fence:suspects()
  self.suspected, self.told = now, true
end

-- `prune`: whether the call has a command to spare for old partitions.
function fence:save(prune)
  local written = { self.partition, self.last .. '|' .. int(now) }
  if self.opened then
    for _, value in ipairs({ '@by', self.by, '@at', int(self.at) }) do written[#written + 1] = value end
  end
  if self.counts then
    written[#written + 1], written[#written + 2] = '@run', int(self.run) .. '|' .. int(self.runSince)
  end
  if self.told then
    written[#written + 1], written[#written + 2] = '@suspected', int(self.suspected)
  end
  if prune and self.size > 32 and #self.old > 0 then redis.call('HDEL', KEYS[4], unpack(self.old, 1, math.min(#self.old, 1000))) end
  redis.call('HSET', KEYS[4], unpack(written))
  redis.call('PEXPIREAT', KEYS[4], int(now + math.max(2 * policy.fresh, policy.windowTtl)))
end
