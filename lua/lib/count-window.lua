-- The count window: the last N outcomes since the first failure. Slots never recorded count as successes, so only the failures matter:
-- rate = (N - failures) / N.
--
-- KEYS  1 health list: `0` a failure, `3` a slow call, anything else a success

local countWindow = { forgetful = true, reason = 'success-rate' }
countWindow.__index = countWindow

-- Keeps the newest `size` of what is stored: so a smaller N takes hold at once.
local function loadCountWindow(size)
  local w = setmetatable({
    size = size, slots = {}, first = 1, last = 0, failures = 0, slow = 0, added = 0, stored = 0, cleared = channel.clearWindow,
  }, countWindow)
  if not channel.clearWindow then
    for _, slot in ipairs(redis.call('LRANGE', KEYS[1], -size, -1)) do w:append((slot == '0' or slot == '3') and slot or '1') end
  end
  if w.last > 0 then w.stored = 1 end
  return w
end

function countWindow:append(result)
  self.last = self.last + 1
  self.slots[self.last] = result
  self:tally(result, 1)
end

function countWindow:tally(result, by)
  if result == '0' then
    self.failures = self.failures + by
  elseif result == '3' then
    self.slow = self.slow + by
  end
end

function countWindow:recorded() return self.last - self.first + 1 end
function countWindow:total() return self.size end
function countWindow:isOpen() return self.last >= self.first end
function countWindow:isPast() return false end
function countWindow:isJudged() return true end

function countWindow:clear()
  self.first, self.failures, self.slow, self.added = self.last + 1, 0, 0, 0
  self.cleared = self.cleared or self.stored > 0
end

-- A success without a window is the healthy case: nothing to remember. A full window of successes is healthy again.
function countWindow:push(result)
  local first, last, size = self.first, self.last + 1, self.size
  if result == '1' then
    if last == first then return end
  else
    self:tally(result, 1)
  end
  self.last, self.slots[last] = last, result
  if self.added < size then self.added = self.added + 1 end
  if last - first == size then
    local oldest = self.slots[first]
    if oldest ~= '1' then self:tally(oldest, -1) end
    self.slots[first] = nil
    first = first + 1
    self.first = first
  end
  if self.failures + self.slow == 0 and last - first == size - 1 then self:clear() end
end

-- Strictly below, in integers: equality never blocks, 0 never blocks, 100 blocks at the first failure.
function countWindow:isFailing(bad, threshold)
  return (self.size - bad) * 10000 < threshold * self.size
end

function countWindow:save()
  if self.cleared then dropWindow() end
  if self.added == 0 then return end
  local length = redis.call('RPUSH', KEYS[1], unpack(self.slots, self.last - self.added + 1, self.last))
  if length > self.size then redis.call('LTRIM', KEYS[1], -self.size, -1) end
  redis.call('PEXPIREAT', KEYS[1], int(now + policy.windowTtl))
end

function countWindow:dropOtherKind() redis.call('DEL', KEYS[7], KEYS[8]) end
