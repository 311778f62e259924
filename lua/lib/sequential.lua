-- Page's sequential test: a score that failures raise and successes lower, never below 0; at its limit the channel is blocked. At 0 a
-- success writes nothing, so a healthy channel is absent from Redis.
--
-- KEYS  7 slots hash: `@test` = `<up>:<down>:<limit>` (under another one the score means nothing), `@score`, and since it left 0: `@calls`,
--         `@failures`, `@slow`

local sequential = { forgetful = true, reason = 'sequential-test' }
sequential.__index = sequential

local function loadSequential(up, down, limit)
  local w = setmetatable({
    up = up, down = down, limit = limit, score = 0, calls = 0, failures = 0, slow = 0, stored = 0, cleared = channel.clearWindow,
  }, sequential)
  w.name = int(up) .. ':' .. int(down) .. ':' .. int(limit)
  local values = {}
  local stored = redis.call('HGETALL', KEYS[7])
  for i = 1, #stored, 2 do values[stored[i]] = stored[i + 1] end
  if #stored > 0 then w.stored = 1 end
  if w.stored > 0 and values['@test'] ~= w.name then w.cleared = true end
  if w.cleared then return w end
  local function number(name) return tonumber(values[name] or '') or 0 end
  w.score, w.calls, w.failures, w.slow = number('@score'), number('@calls'), number('@failures'), number('@slow')
  return w
end

function sequential:recorded() return self.calls end
function sequential:total() return self.calls end
function sequential:isOpen() return self.score > 0 end
function sequential:isPast() return false end
function sequential:isJudged() return true end
function sequential:isFailing() return self.score >= self.limit end

function sequential:clear()
  self.score, self.calls, self.failures, self.slow, self.changed = 0, 0, 0, 0, false
  self.cleared = self.cleared or self.stored > 0
end

function sequential:push(result)
  if result == '1' and self.score == 0 then return end
  self.calls, self.changed = self.calls + 1, true
  if result == '0' then self.failures = self.failures + 1 end
  if result == '3' then self.slow = self.slow + 1 end
  self.score = result == '1' and self.score - self.down or self.score + self.up
  if self.score <= 0 then self:clear() end
end

function sequential:save()
  if self.cleared then dropWindow() end
  if not self.changed then return end
  redis.call('HSET', KEYS[7], '@test', self.name, '@score', int(self.score), '@calls', int(self.calls), '@failures', int(self.failures), '@slow', int(self.slow))
  redis.call('PEXPIREAT', KEYS[7], int(now + policy.windowTtl))
end

function sequential:dropOtherKind() redis.call('DEL', KEYS[1], KEYS[8]) end
