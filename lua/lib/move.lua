-- The only door through which a channel changes state. Each move stamps, clears the window and pushes its transition; nothing is
-- written before save().

-- Names a transition for ever: above every earlier one of the channel, and above all that a lost state may have had.
local function nextEpoch()
  channel.epoch = math.max(channel.epoch + 1, now)
  channel.dirty = true
  return channel.epoch
end

-- What is not signed with the name of whoever moved the channel last: by kind or by reason. Another program that moves the end of
-- somebody's block does not do so in that person's name.
local UNSIGNED = { suspected = true, level = true, forced = true, ['force-ended'] = true, external = true, ['awaits-release'] = true }

local function push(kind, lane, from, at, blockedAt, extra)
  local t = {
    v = '1', kind = kind, epoch = int(channel.epoch), at = int(at), from = from, to = lane.state, ['until'] = int(lane.ends),
    reason = lane.reason, incident = lane.incident, trips = int(lane.trips), block = int(lane.block), blockedAt = int(blockedAt),
  }
  -- With half-open to come the block key outlives the block.
  if lane == real and lane.state == 'open' and channel.keyUntil ~= lane.ends then t.keyUntil = int(channel.keyUntil) end
  for name, value in pairs(extra or {}) do t[name] = value end
  if not UNSIGNED[kind] and not UNSIGNED[t.reason] then
    if lane.actor ~= '' then t.actor = lane.actor end
    if lane.note ~= '' then t.note = lane.note end
  end
  channel.transitions[#channel.transitions + 1] = cjson.encode(t)
  channel.pushed = channel.pushed + 1
end

local function stamp(lane, reason, hand)
  lane.reason = reason
  lane.actor = hand and hand.actor or ''
  lane.note = hand and hand.note or ''
  -- A shadow that ends after the mode went back to `on` has no say in the window that is judged now.
  if lane == real or policy.mode == 'observe' then channel.clearWindow = true end
  if lane == real then channel.level = '' end
  return nextEpoch()
end

local function remember(ends)
  channel.moved = true
  channel.last = math.max(channel.last, ends == -1 and now or ends)
end

-- How long outages are known to have lasted: from a first block to the last that failures gave rise to, one for each incident, the longest.
-- Neither the last block nor time in use is part of it, or each would make the next one longer, however the channel does.
local PAST_KEPT, PAST_LEAST = 10, 3

-- What was learned in mode `observe` holds until the channel has an incident of its own.
local function pastOf(lane)
  return lane == real and lane.past == '' and shadow.past or lane.past
end

-- The outage is over, or out of our sight.
local function endOutage(lane)
  if lane.badFrom > 0 then lane.bad = math.max(lane.bad, lane.badTo - lane.badFrom) end
  lane.badFrom = 0
end

-- The incident is over.
local function learn(lane)
  endOutage(lane)
  if lane.bad < 0 then return end
  local kept = {}
  for each in string.gmatch(pastOf(lane), '%d+') do kept[#kept + 1] = each end
  kept[#kept + 1] = int(lane.bad)
  lane.past = table.concat(kept, ' ', math.max(1, #kept - PAST_KEPT + 1))
  lane.bad = -1
end

-- A block begins. It goes on with the outage if the channel failed as soon as it was used, or tried, again.
local function measure(lane, at, relapse, judged)
  local soon = at - lane.since <= math.max(math.floor(policy.blockFor / 10), 10000)
  if not (relapse and judged and lane.badFrom > 0 and soon) then
    endOutage(lane)
    if not relapse then lane.bad = -1 end
    lane.badFrom = policy.also.timesMean and judged and at or 0
  end
  lane.badTo = at
end

-- Length of a block before growth. Learned is that of the first one of an incident: while the channel is known to be down, nobody is burnt
-- more often than by what is written.
local function baseLength(lane)
  local sum, n = 0, 0
  for each in string.gmatch(pastOf(lane), '%d+') do sum, n = sum + tonumber(each), n + 1 end
  if not policy.also.timesMean or n < PAST_LEAST then return policy.blockFor end
  local learned = math.max(policy.also.blockMin, policy.also.timesMean * sum / n)
  return lane.trips > 1 and math.max(learned, policy.blockFor) or learned
end

-- Jitter is drawn from the epoch, so that reading a batch again gives the same block.
local function blockLength(lane)
  local most = math.max(policy.blockMax, policy.blockFor)
  local length, trips = math.min(baseLength(lane), most), 1
  -- Step by step, because powers of a fraction differ in their last digit from one language to the other.
  while policy.growth > 1 and trips < lane.trips and length < most do
    length, trips = math.min(length * policy.growth, most), trips + 1
  end
  if policy.also.jitter then
    local drawn = ((channel.epoch % 1000003) * 7919 + 104729) % 10007 / 10007
    length = math.max(math.min(length * (1 + policy.also.jitter * (2 * drawn - 1)), most), policy.also.blockMin or 0)
  end
  return math.floor(length)
end

-- When the block key goes: with half-open, or a release by hand, to come, programs that know only EXISTS stay out meanwhile.
local function keyEnd(ends)
  return ends == -1 and -1 or ends + (policy.also.wait or 0)
end

-- closed → open. `ends`: nil by policy, -1 without end. `extra`: fields of the transition beside the usual ones; `hand`: who and why.
-- A key that somebody else wrote (`adopted`) stays as it is.
local function open(lane, at, reason, ends, extra, hand, adopted)
  local from, relapse = lane.state, lane.hold > 0 or lane.state == 'half-open'
  local epoch = stamp(lane, reason, hand)
  lane.trips = relapse and lane.trips + 1 or 1
  if not relapse then lane.incident = int(epoch) end
  -- Only a verdict comes with facts: people and other programs prove nothing. A trial that had too few outcomes says neither.
  if extra or hand or adopted or not relapse then measure(lane, at, relapse, extra ~= nil) end
  lane.block, lane.blockedAt, lane.state, lane.since, lane.hold = epoch, at, 'open', at, 0
  lane.ends = ends or at + blockLength(lane)
  remember(lane.ends)
  if lane == shadow then
    -- One alert per shadow incident, and nothing is hidden.
    if not relapse then push('observed', lane, 'closed', at, at, extra) end
    return
  end
  if not adopted then keyEnds, channel.key = keyEnd(lane.ends), 'set' end
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

-- What half-open lets through at a step: a share of users, or so many calls at once.
local function trial(step)
  local plan = policy.also.halfOpen
  local share = plan and plan.steps[step + 1] or 0
  if share > 0 then return { step = int(step), share = int(share) } end
  return { step = int(step), permits = int(plan and plan.permits or 1) }
end

-- open → half-open: the block key stays, with that value.
local function tryAgain(at)
  local blockedAt = real.blockedAt
  remember(at + policy.also.wait)
  stamp(real, 'expired')
  real.state, real.since, real.ends, real.step, real.good = 'half-open', at, at + policy.also.wait, 0, 0
  keyEnds, channel.key, channel.keyUntil = real.ends, 'set', real.ends
  push('half-open', real, 'open', at, blockedAt, trial(0))
end

-- open or half-open → closed, watched for the hold.
local function close(lane, at, reason, hand)
  local from, blockedAt, paused = lane.state, lane.blockedAt, lane.reason == PAUSED
  remember(lane.ends)
  stamp(lane, paused and reason == 'expired' and 'rate-limit-over' or reason, hand)
  lane.state, lane.since, lane.ends = 'closed', at, 0
  if not paused then
    lane.hold = policy.hold > 0 and at + policy.hold or 0
    if lane.hold == 0 then learn(lane) end
  end
  if lane == shadow then return end
  keyEnds, channel.key, channel.keyUntil = -2, 'delete', 0
  push(paused and 'resumed' or 'recovered', lane, from, at, blockedAt, paused and NO_INCIDENT or nil)
end

-- One good outcome in half-open: enough of them lead to the next step, and after the last to closed.
local function gain(at)
  local plan = policy.also.halfOpen or { close = 1, steps = {} }
  real.good, channel.dirty = real.good + 1, true
  if real.good < plan.close then return end
  if real.step + 1 >= #plan.steps then return close(real, at, 'half-open-success') end
  real.step, real.good = real.step + 1, 0
  nextEpoch()
  local extra = trial(real.step)
  extra.reason = 'ramp'
  push('half-open', real, 'half-open', at, real.blockedAt, extra)
end

-- News of a channel in use: no change of state, so `since` and the window stay. `alone`: where no incident is on, it is one of its own.
local function tell(kind, at, extra, hand, alone)
  nextEpoch()
  if real.hold == 0 then extra.incident = alone and int(channel.epoch) or '' end
  -- Of no block, or an end that nobody was told of would be told with it.
  extra.block, extra.trips = '0', '0'
  if hand and hand.actor ~= '' then extra.actor = hand.actor end
  if hand and hand.note ~= '' then extra.note = hand.note end
  push(kind, real, 'closed', at, 0, extra)
end

-- The channel in use is degraded, more or less than before.
local function changeLevel(level, extra)
  extra = extra or {}
  extra.reason, extra.level, extra.before = 'level', level, channel.level
  channel.level = level
  tell('level', now, extra)
end

-- A person holds the channel open, whatever is recorded; and the end of that, by itself or by hand.
local function force(ends, hand)
  channel.forced, channel.forcing, channel.forcedBy, channel.forcedNote = ends, true, hand.actor, hand.note
  tell('forced', now, { ['until'] = int(ends), reason = 'manual' }, hand)
end

local function endForce(at, reason, hand)
  channel.forced, channel.forcing, channel.forcedBy, channel.forcedNote, channel.dirty = at, false, '', '', true
  -- Another program has blocked it meanwhile: that was told.
  if real.state == 'closed' then tell('force-ended', at, { reason = reason }, hand) end
end

-- The channel survived its hold: the incident is over. No change of state, so `since` and the window stay.
local function held(lane)
  local at = lane.hold
  lane.hold, lane.reason, lane.actor, lane.note = 0, 'held', '', ''
  learn(lane)
  nextEpoch()
  if lane == real then push('held', lane, 'closed', at, 0) end
end

-- The end of a block was moved, by hand or by another program, or because it awaits a release by hand: then also out of a trial.
local function moveEnd(ends, reason, hand)
  local before, from = real.ends, real.state
  endOutage(real)
  real.ends = ends
  if reason == 'awaits-release' and from == 'half-open' then real.state, real.since = 'open', now end
  if hand then real.reason, real.actor, real.note = reason, hand.actor, hand.note end
  remember(ends)
  nextEpoch()
  local later = from ~= real.state or ends == -1 or (before ~= -1 and ends > before)
  push(later and 'extended' or 'shortened', real, from, now, real.blockedAt, { reason = reason })
end
