-- The time window: calls per slot of time, by the outcomes' own ends, so that a backlog read at one go falls into the seconds in which it
-- happened. It remembers successes too, so it has no fast path.
--
-- KEYS  7 slots hash: `<slot>` = `<successes>|<failures>`, and `|<slow>` if any; slot = end in ms / length of a slot; `@newest` the newest
--         end recorded, ms; `@length` the length of a slot, ms: under another one the slots mean nothing

local timeWindow = { forgetful = false, reason = 'success-rate' }
timeWindow.__index = timeWindow

local function loadTimeWindow(span, slots, minCalls)
  local w = setmetatable({
    length = math.ceil(span / slots), slots = slots, minCalls = minCalls, counts = {}, changed = {}, dropped = {},
    newest = 0, successes = 0, failures = 0, slow = 0, stored = 0, cleared = channel.clearWindow,
  }, timeWindow)
  local values = {}
  local stored = redis.call('HGETALL', KEYS[7])
  for i = 1, #stored, 2 do values[stored[i]] = stored[i + 1] end
  if #stored > 0 then w.stored = 1 end
  if w.stored > 0 and values['@length'] ~= int(w.length) then w.cleared = true end
  if w.cleared then return w end
  w.newest = tonumber(values['@newest'] or '') or 0
  for name, value in pairs(values) do
    local successes, failures, slow = string.match(value, '^(%d+)|(%d+)|?(%d*)$')
    if successes then
      local count = { tonumber(successes), tonumber(failures), tonumber(slow) or 0 }
      w.counts[tonumber(name)] = count
      w:tally(count, 1)
    end
  end
  w:forget()
  return w
end

function timeWindow:tally(count, by)
  self.successes, self.failures, self.slow = self.successes + by * count[1], self.failures + by * count[2], self.slow + by * count[3]
end

-- A slot is old when it lies a span before the newest end recorded: not before now, or a backlog would be judged by an empty window.
function timeWindow:isOld(slot)
  return slot <= math.floor(self.newest / self.length) - self.slots
end
function timeWindow:isPast(ends)
  return self:isOld(math.floor(ends / self.length))
end

function timeWindow:forget()
  for slot, count in pairs(self.counts) do
    if self:isOld(slot) then
      self:tally(count, -1)
      self.counts[slot], self.changed[slot] = nil, nil
      self.dropped[#self.dropped + 1] = int(slot)
    end
  end
end

function timeWindow:recorded() return self.successes + self.failures + self.slow end
function timeWindow:total() return self:recorded() end
function timeWindow:isOpen() return self.failures + self.slow > 0 end
function timeWindow:isJudged() return self:recorded() >= self.minCalls end

function timeWindow:clear()
  self.counts, self.changed, self.dropped = {}, {}, {}
  self.newest, self.successes, self.failures, self.slow = 0, 0, 0, 0
  self.cleared = self.cleared or self.stored > 0
end

local WHERE = { ['1'] = { 1, 0, 0 }, ['0'] = { 0, 1, 0 }, ['3'] = { 0, 0, 1 } }

function timeWindow:moveTo(ends)
  if ends <= self.newest then return end
  local turns = math.floor(ends / self.length) > math.floor(self.newest / self.length)
  self.newest = ends
  if turns then self:forget() end
end

function timeWindow:push(result, ends)
  self:moveTo(ends)
  local slot = math.floor(ends / self.length)
  local count, one = self.counts[slot] or { 0, 0, 0 }, WHERE[result]
  for i = 1, 3 do count[i] = count[i] + one[i] end
  self.counts[slot], self.changed[slot] = count, true
  self:tally(one, 1)
end

function timeWindow:isFailing(bad, threshold)
  return (self:recorded() - bad) * 10000 < threshold * self:recorded()
end

function timeWindow:save()
  if self.cleared then
    dropWindow()
  elseif #self.dropped > 0 then
    redis.call('HDEL', KEYS[7], unpack(self.dropped))
  end
  local written = {}
  for slot in pairs(self.changed) do
    local count = self.counts[slot]
    written[#written + 1] = int(slot)
    written[#written + 1] = int(count[1]) .. '|' .. int(count[2]) .. (count[3] > 0 and '|' .. int(count[3]) or '')
  end
  if #written == 0 then return end
  redis.call('HSET', KEYS[7], '@newest', int(self.newest), '@length', int(self.length), unpack(written))
  redis.call('PEXPIREAT', KEYS[7], int(now + policy.windowTtl))
end

function timeWindow:dropOtherKind() redis.call('DEL', KEYS[1], KEYS[8]) end
