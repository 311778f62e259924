-- The call log: every call of the span by its own end, exact to the millisecond; for channels with little traffic. Two calls of the same
-- millisecond are two members.
--
-- KEYS  7 slots hash: `@log` how many members were ever written since the log began; `@successes`, `@failures`, `@slow` those in it now;
--         `@newest` the newest end recorded, ms
--       8 calls sorted set: `<number, 12 digits>:<result>:<position>` by end in ms

local callLog = { forgetful = false, reason = 'success-rate' }
callLog.__index = callLog

local CHUNK = 100   -- old members read at first
local AT_ONCE = 1000 -- members read or written at one go: unpack() has a limit

local function loadCallLog(span, most, minCalls)
  local w = setmetatable({
    span = span, most = most, minCalls = minCalls, newest = 0, number = 0, successes = 0, failures = 0, slow = 0, stored = 0, crowded = 0,
    chunk = {}, reads = CHUNK, nextOld = 1, gone = 0, left = 0, added = {}, firstAdded = 1, changed = false, cleared = channel.clearWindow,
  }, callLog)
  local values = {}
  local stored = redis.call('HGETALL', KEYS[7])
  for i = 1, #stored, 2 do values[stored[i]] = stored[i + 1] end
  local members = redis.call('ZCARD', KEYS[8])
  w.stored = (#stored > 0 and 1 or 0) + (members > 0 and 1 or 0)
  local function number(name) return tonumber(values[name] or '') or 0 end
  -- Counts that do not fit the members are another kind's, or the work of a foreign hand.
  if w.stored > 0 and (not values['@log'] or number('@successes') + number('@failures') + number('@slow') ~= members) then w.cleared = true end
  if w.cleared then return w end
  w.newest, w.number, w.left = number('@newest'), number('@log'), members
  w.successes, w.failures, w.slow = number('@successes'), number('@failures'), number('@slow')
  w:forget()
  while w:recorded() > w.most do w:dropOldest() end
  return w
end

function callLog:tally(result, by)
  if result == '1' then
    self.successes = self.successes + by
  elseif result == '0' then
    self.failures = self.failures + by
  else
    self.slow = self.slow + by
  end
end

-- The oldest stored call that is still in the log: few are read at first, because mostly there is nothing to drop.
function callLog:oldestStored()
  if self.left == 0 then return nil end
  if self.nextOld > #self.chunk then
    self.chunk, self.nextOld = redis.call('ZRANGE', KEYS[8], self.gone, self.gone + self.reads - 1, 'WITHSCORES'), 1
    self.reads = AT_ONCE
  end
  return tonumber(self.chunk[self.nextOld + 1])
end

-- The end of the oldest call, and whether it is a stored one. Of the same millisecond the stored one is older.
function callLog:oldest()
  local old, new = self:oldestStored(), self.added[self.firstAdded]
  if old and (not new or old <= new.ends) then return old, true end
  return new and new.ends, false
end

function callLog:dropOldest()
  local _, isStored = self:oldest()
  if isStored then
    self:tally(string.match(self.chunk[self.nextOld], '^%d+:(%d)'), -1)
    self.nextOld, self.gone, self.left = self.nextOld + 2, self.gone + 1, self.left - 1
  else
    self:tally(self.added[self.firstAdded].result, -1)
    self.firstAdded = self.firstAdded + 1
  end
  self.changed = true
end

-- A call is old when it ended a span before the newest end recorded: not before now, or a backlog would be judged by an empty log.
function callLog:isPast(ends) return ends <= self.newest - self.span end
function callLog:forget()
  local ends = self:oldest()
  while ends and self:isPast(ends) do
    self:dropOldest()
    ends = self:oldest()
  end
end

function callLog:recorded() return self.successes + self.failures + self.slow end
function callLog:total() return self:recorded() end
function callLog:isOpen() return self.failures + self.slow > 0 end
function callLog:isJudged() return self:recorded() >= self.minCalls end
function callLog:isFailing(bad, threshold)
  return (self:recorded() - bad) * 10000 < threshold * self:recorded()
end

function callLog:clear()
  self.added, self.firstAdded, self.left, self.newest, self.number, self.changed = {}, 1, 0, 0, 0, false
  self.successes, self.failures, self.slow = 0, 0, 0
  self.cleared = self.cleared or self.stored > 0
end

function callLog:moveTo(ends)
  if ends <= self.newest then return end
  self.newest = ends
  self:forget()
end

function callLog:push(result, ends, position)
  self:moveTo(ends)
  self.number, self.changed = self.number + 1, true
  local at = #self.added + 1
  while at > self.firstAdded and self.added[at - 1].ends > ends do at = at - 1 end
  table.insert(self.added, at, { ends = ends, result = result, member = string.format('%012.0f:%s:%s', self.number, result, position) })
  self:tally(result, 1)
  if self:recorded() > self.most then
    self:dropOldest()
    self.crowded = self.crowded + 1
  end
end

function callLog:save()
  if self.cleared then
    dropWindow()
  elseif self.gone > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[8], 0, self.gone - 1)
  end
  if not self.changed then return end
  local written = {}
  local function flush()
    if #written > 0 then redis.call('ZADD', KEYS[8], unpack(written)) end
    written = {}
  end
  for i = self.firstAdded, #self.added do
    written[#written + 1], written[#written + 2] = int(self.added[i].ends), self.added[i].member
    if #written >= 2 * AT_ONCE then flush() end
  end
  flush()
  redis.call('HSET', KEYS[7], '@log', int(self.number), '@newest', int(self.newest),
    '@successes', int(self.successes), '@failures', int(self.failures), '@slow', int(self.slow))
  redis.call('PEXPIREAT', KEYS[7], int(now + policy.windowTtl))
  redis.call('PEXPIREAT', KEYS[8], int(now + policy.windowTtl))
end

function callLog:dropOtherKind() redis.call('DEL', KEYS[1]) end
