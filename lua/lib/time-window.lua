-- The time window: successes and failures per slot of time, by the outcomes' own ends, so that a backlog read at one go falls into the
-- seconds in which it happened. Same functions as the count window; it remembers successes too, so it has no fast path.
--
-- KEYS  7 slots hash: `<slot>` = `<successes>|<failures>`, slot = end in ms / length of a slot; `@newest` the newest end recorded, ms;
--         `@length` the length of a slot, ms: under another one the slots mean nothing

local timeWindow = { forgetful = false }
timeWindow.__index = timeWindow

local function loadTimeWindow(span, slots, minCalls)
  local w = setmetatable({
    length = math.ceil(span / slots), slots = slots, minCalls = minCalls, counts = {}, changed = {}, dropped = {},
    newest = 0, successes = 0, failures = 0, cleared = channel.clearWindow,
  }, timeWindow)
  local stored = redis.call('HGETALL', KEYS[7])
  w.stored = #stored > 0
  local values = {}
  for i = 1, #stored, 2 do values[stored[i]] = stored[i + 1] end
  if w.stored and values['@length'] ~= int(w.length) then w.cleared = true end
  if w.cleared then return w end
  w.newest = tonumber(values['@newest'] or '') or 0
  for name, value in pairs(values) do
    local successes, failures = string.match(value, '^(%d+)|(%d+)$')
    if successes then
      w.counts[tonumber(name)] = { tonumber(successes), tonumber(failures) }
      w.successes, w.failures = w.successes + tonumber(successes), w.failures + tonumber(failures)
    end
  end
  w:forget()
  return w
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
      self.successes, self.failures = self.successes - count[1], self.failures - count[2]
      self.counts[slot], self.changed[slot] = nil, nil
      self.dropped[#self.dropped + 1] = int(slot)
    end
  end
end

function timeWindow:recorded() return self.successes + self.failures end
function timeWindow:succeeded() return self.successes end
function timeWindow:total() return self:recorded() end
function timeWindow:isOpen() return self.failures > 0 end

function timeWindow:clear()
  self.counts, self.changed, self.dropped = {}, {}, {}
  self.newest, self.successes, self.failures = 0, 0, 0
  self.cleared = self.cleared or self.stored
end

function timeWindow:push(success, ends)
  if ends > self.newest then
    local turns = math.floor(ends / self.length) > math.floor(self.newest / self.length)
    self.newest = ends
    if turns then self:forget() end
  end
  local slot = math.floor(ends / self.length)
  local count = self.counts[slot] or { 0, 0 }
  self.counts[slot], self.changed[slot] = count, true
  if success then
    count[1], self.successes = count[1] + 1, self.successes + 1
  else
    count[2], self.failures = count[2] + 1, self.failures + 1
  end
end

function timeWindow:isBelow(threshold)
  return self:recorded() >= self.minCalls and self.successes * 10000 < threshold * self:recorded()
end

function timeWindow:save()
  if self.cleared then
    redis.call('DEL', KEYS[1], KEYS[7])
  elseif #self.dropped > 0 then
    redis.call('HDEL', KEYS[7], unpack(self.dropped))
  end
  local written = {}
  for slot in pairs(self.changed) do
    local count = self.counts[slot]
    written[#written + 1] = int(slot)
    written[#written + 1] = int(count[1]) .. '|' .. int(count[2])
  end
  if #written == 0 then return end
  redis.call('HSET', KEYS[7], '@newest', int(self.newest), '@length', int(self.length), unpack(written))
  redis.call('PEXPIREAT', KEYS[7], int(now + policy.windowTtl))
end

function timeWindow:dropOtherKind() redis.call('DEL', KEYS[1]) end
