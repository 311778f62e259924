-- The count window: the last N outcomes since the first failure. Slots never recorded count as successes, so only the failures matter:
-- rate = (N - failures) / N. A window of another kind is another file with the same functions.

-- `forgetful`: a success without a window leaves nothing behind, not even in the fence; so it may be read again from another partition.
local countWindow = { forgetful = true }
countWindow.__index = countWindow

-- Keeps the newest `size` of what is stored: so a smaller N takes hold at once. Anything but '0' counts as a success.
local function loadCountWindow(size)
  local w = setmetatable({ size = size, slots = {}, first = 1, last = 0, failures = 0, added = 0, cleared = channel.clearWindow }, countWindow)
  if not channel.clearWindow then
    for _, slot in ipairs(redis.call('LRANGE', KEYS[1], -size, -1)) do
      w.last = w.last + 1
      w.slots[w.last] = slot == '0' and '0' or '1'
      if slot == '0' then w.failures = w.failures + 1 end
    end
  end
  w.stored = w.last > 0
  return w
end

function countWindow:recorded() return self.last - self.first + 1 end
function countWindow:succeeded() return self:recorded() - self.failures end
function countWindow:total() return self.size end
function countWindow:isOpen() return self.last >= self.first end
function countWindow:isPast() return false end

function countWindow:clear()
  self.first, self.failures, self.added = self.last + 1, 0, 0
  self.cleared = self.cleared or self.stored
end

-- A success without a window is the healthy case: nothing to remember. A full window of successes is healthy again.
function countWindow:push(success)
  if success and not self:isOpen() then return end
  self.last = self.last + 1
  self.slots[self.last] = success and '1' or '0'
  self.added = math.min(self.added + 1, self.size)
  if not success then self.failures = self.failures + 1 end
  if self:recorded() > self.size then
    if self.slots[self.first] == '0' then self.failures = self.failures - 1 end
    self.slots[self.first] = nil
    self.first = self.first + 1
  end
  if self.failures == 0 and self:recorded() == self.size then self:clear() end
end

-- Strictly below, in integers: equality never blocks, 0 never blocks, 100 blocks at the first failure.
function countWindow:isBelow(threshold)
  return (self.size - self.failures) * 10000 < threshold * self.size
end

function countWindow:save()
  if self.cleared then redis.call('DEL', KEYS[1], KEYS[7]) end
  if self.added == 0 then return end
  local length = redis.call('RPUSH', KEYS[1], unpack(self.slots, self.last - self.added + 1, self.last))
  if length > self.size then redis.call('LTRIM', KEYS[1], -self.size, -1) end
  redis.call('PEXPIREAT', KEYS[1], int(now + policy.windowTtl))
end

function countWindow:dropOtherKind() redis.call('DEL', KEYS[7]) end
