-- The last failures and slow calls, as texts of the worker's: for alerts, and for "why is it blocked". Restarted by a window's first failure,
-- kept through the block.

local KEPT = 20
local evidence = {}
evidence.__index = evidence

local function newEvidence(json)
  return setmetatable({ json = json, added = {} }, evidence)
end

function evidence:restart()
  self.restarted, self.added, self.earlier = true, {}, {}
end

function evidence:text(failure)
  self.texts = self.texts or (self.json ~= '' and cjson.decode(self.json) or {})
  return self.texts[failure]
end

function evidence:add(failure)
  -- Read before anything is written, so that a wrong type shows in time.
  self.earlier = self.earlier or redis.call('LRANGE', KEYS[6], -KEPT, -1)
  self.added[#self.added + 1] = self:text(failure)
end

local function lastOf(list)
  return { unpack(list, math.max(1, #list - KEPT + 1), #list) }
end

function evidence:latest()
  local all = {}
  for _, list in ipairs({ self.earlier, self.added }) do
    for i = math.max(1, #list - KEPT + 1), #list do all[#all + 1] = list[i] end
  end
  all = lastOf(all)
  return #all > 0 and all or nil -- an empty table would become an object
end

function evidence:save()
  if self.restarted then redis.call('DEL', KEYS[6]) end
  if #self.added == 0 then return end
  local length = redis.call('RPUSH', KEYS[6], unpack(lastOf(self.added)))
  if length > KEPT then redis.call('LTRIM', KEYS[6], -KEPT, -1) end
  local lane = policy.mode == 'observe' and shadow or real
  local through = lane.state == 'open' and lane.ends > 0 and lane.ends - now or 0
  redis.call('PEXPIREAT', KEYS[6], int(now + math.max(policy.windowTtl, through + 1800000)))
end
