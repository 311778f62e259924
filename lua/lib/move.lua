-- The only door through which a channel changes state. Each move stamps, clears the window and pushes its transition; nothing is
-- written before save().

-- Names a transition for ever: above every earlier one of the channel, and above all that a lost state may have had.
local function nextEpoch()
  channel.epoch = math.max(channel.epoch + 1, now)
  channel.dirty = true
  return channel.epoch
end

local function push(kind, lane, from, at, blockedAt, extra)
  local t = {
    v = '1', kind = kind, epoch = int(channel.epoch), at = int(at), from = from, to = lane.state, ['until'] = int(lane.ends),
    reason = lane.reason, incident = lane.incident, trips = int(lane.trips), block = int(lane.block), blockedAt = int(blockedAt),
  }
  if lane.actor ~= '' and kind ~= 'suspected' then t.actor = lane.actor end
  if lane.note ~= '' and kind ~= 'suspected' then t.note = lane.note end
  for name, value in pairs(extra or {}) do t[name] = value end
  -- Another program that moves the end of somebody's block does not do so in that person's name.
  if t.reason == 'external' then t.actor, t.note = nil, nil end
  channel.transitions[#channel.transitions + 1] = cjson.encode(t)
  channel.pushed = channel.pushed + 1
end

local function stamp(lane, reason, hand)
  lane.reason = reason
  lane.actor = hand and hand.actor or ''
  lane.note = hand and hand.note or ''
  -- A shadow that ends after the mode went back to `on` has no say in the window that is judged now.
  if lane == real or policy.mode == 'observe' then channel.clearWindow = true end
  return nextEpoch()
end

local function remember(ends)
  channel.moved = true
  channel.last = math.max(channel.last, ends == -1 and now or ends)
end

local function blockLength(trips)
  return math.floor(math.min(policy.blockFor * policy.growth ^ (trips - 1), math.max(policy.blockMax, policy.blockFor)))
end

-- closed → open. `ends`: nil by policy, -1 without end. `extra`: fields of the transition beside the usual ones; `hand`: who and why.
-- A key that somebody else wrote (`adopted`) stays as it is.
local function open(lane, at, reason, ends, extra, hand, adopted)
  local from, relapse = lane.state, lane.hold > 0
  local epoch = stamp(lane, reason, hand)
  lane.trips = relapse and lane.trips + 1 or 1
  if not relapse then lane.incident = int(epoch) end
  lane.block, lane.blockedAt, lane.state, lane.since, lane.hold = epoch, at, 'open', at, 0
  lane.ends = ends or at + blockLength(lane.trips)
  remember(lane.ends)
  if lane == shadow then
    -- One alert per shadow incident, and nothing is hidden.
    if not relapse then push('observed', lane, 'closed', at, at, extra) end
    return
  end
  if not adopted then keyEnds, channel.key = lane.ends, 'set' end
  channel.keyUntil = keyEnds
  push(relapse and 'relapsed' or 'blocked', lane, from, at, at, extra)
end

-- closed → open for as long as the third party asked for: no incident, no relapse, and a watch that runs goes on.
local PAUSED = 'rate-limited'
local NO_INCIDENT = { incident = '', trips = '0' }

local function pause(at, ends, evidence)
  local epoch = stamp(real, PAUSED)
  real.block, real.blockedAt, real.state, real.since, real.ends = epoch, at, 'open', at, ends
  remember(ends)
  keyEnds, channel.key, channel.keyUntil = ends, 'set', ends
  push('paused', real, 'closed', at, at, { incident = '', trips = '0', evidence = evidence })
end

-- open → closed, watched for the hold.
local function close(lane, at, reason, hand)
  local from, blockedAt, paused = lane.state, lane.since, lane.reason == PAUSED
  remember(lane.ends)
  stamp(lane, paused and reason == 'expired' and 'rate-limit-over' or reason, hand)
  lane.state, lane.since, lane.ends = 'closed', at, 0
  if not paused then lane.hold = policy.hold > 0 and at + policy.hold or 0 end
  if lane == shadow then return end
  keyEnds, channel.key, channel.keyUntil = -2, 'delete', 0
  push(paused and 'resumed' or 'recovered', lane, from, at, blockedAt, paused and NO_INCIDENT or nil)
end

-- The channel survived its hold: the incident is over. No change of state, so `since` and the window stay.
local function held(lane)
  local at = lane.hold
  lane.hold, lane.reason, lane.actor, lane.note = 0, 'held', '', ''
  nextEpoch()
  if lane == real then push('held', lane, 'closed', at, 0) end
end

-- The end of a block was moved, by hand or by another program.
local function moveEnd(ends, reason, hand)
  local before = real.ends
  real.ends = ends
  if hand then real.reason, real.actor, real.note = reason, hand.actor, hand.note end
  remember(ends)
  nextEpoch()
  local later = ends == -1 or (before ~= -1 and ends > before)
  push(later and 'extended' or 'shortened', real, 'open', now, real.since, { reason = reason })
end
