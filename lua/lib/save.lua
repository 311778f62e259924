-- Writes what the call decided: first the reads that could still fail, then the writes. Returns the outbox as it stands afterwards.
-- `present`: how many of health, blocked, outbox, slots and calls existed, or nil when nobody looked.

local OUTBOX_KEPT = 1000

local function saveLane(into, lane)
  local values = {
    state = lane.state, since = int(lane.since), ['until'] = int(lane.ends), hold = int(lane.hold), incident = lane.incident,
    trips = int(lane.trips), block = int(lane.block), blockedAt = int(lane.blockedAt), reason = lane.reason, actor = lane.actor, note = lane.note,
  }
  -- Only where half-open is known: elsewhere a state stays as small as it was.
  if lane.state == 'half-open' or fields[lane.prefix .. 'step'] then values.step, values.good = int(lane.step), int(lane.good) end
  if policy.also.timesMean or fields[lane.prefix .. 'past'] then
    values.badFrom, values.badTo, values.bad, values.past = int(lane.badFrom), int(lane.badTo), int(lane.bad), lane.past
  end
  for name, value in pairs(values) do
    into[#into + 1] = lane.prefix .. name
    into[#into + 1] = value
  end
end

local function saveState()
  local written = {
    'v', '1', 'epoch', int(channel.epoch), 'keyUntil', int(channel.keyUntil), 'last', int(channel.last), 'forced', int(channel.forced),
  }
  if channel.forcing or fields.forcing then
    for name, value in pairs({ forcing = channel.forcing and '1' or '0', forcedBy = channel.forcedBy, forcedNote = channel.forcedNote }) do
      written[#written + 1], written[#written + 2] = name, value
    end
  end
  if channel.level ~= '' or fields.level then written[#written + 1], written[#written + 2] = 'level', channel.level end
  saveLane(written, real)
  if shadow.block > 0 then saveLane(written, shadow) end
  redis.call('HSET', KEYS[3], unpack(written))
  -- A level lasts as long as its window, which every failure keeps alive without writing here; whoever ends it sets the deadline.
  if real.state ~= 'closed' or shadow.state ~= 'closed' or channel.level ~= '' then
    if channel.existed then redis.call('PERSIST', KEYS[3]) end
    return
  end
  -- Late jobs of the last block must still find the state; otherwise they would tell its end a second time.
  local watched = math.max(real.hold, shadow.hold)
  local expiry = math.max(now + 2 * policy.fresh, channel.last + DAY, channel.forced + 2 * policy.fresh)
  if watched > 0 then expiry = math.max(expiry, watched + DAY) end
  if real.past ~= '' or shadow.past ~= '' then expiry = math.max(expiry, channel.last + 90 * DAY) end
  redis.call('PEXPIREAT', KEYS[3], int(expiry))
end

local function saveKey()
  if channel.key == 'delete' then
    redis.call('DEL', KEYS[2])
  elseif channel.key == 'set' and keyEnds == -1 then
    redis.call('SET', KEYS[2], real.state)
  elseif channel.key == 'set' then
    redis.call('SET', KEYS[2], real.state, 'PXAT', int(keyEnds))
  end
end

-- Why it is blocked can be asked as long as it is, whoever moved the end; a block without end keeps its evidence without one.
local function keepEvidence()
  if real.state ~= 'closed' and real.ends == -1 then
    redis.call('PERSIST', KEYS[6])
  else
    redis.call('PEXPIREAT', KEYS[6], int(math.max(now + policy.windowTtl, real.ends + 1800000)))
  end
end

local function save(present)
  local window, fence = channel.window, channel.fence
  local others = present and present - (channel.hadKey and 1 or 0) - (window and window.stored or 0) or 1
  local outbox = (others > 0 or channel.pushed > 0) and redis.call('LRANGE', KEYS[5], 0, -1) or {}
  local told = #outbox

  if window then
    window:save()
    -- What else was there is the window of the kind that judged before.
    if present and others - (told > 0 and 1 or 0) > 0 and not window.cleared then window:dropOtherKind() end
  elseif channel.clearWindow then
    dropWindow()
  end
  -- Every window begins in a call that prunes, so the fence stays small although the dearest calls leave it to others.
  if fence then fence:save(window.stored == 0 or #channel.evidence.added == 0) end
  if channel.evidence then
    channel.evidence:save()
  elseif channel.moved then
    keepEvidence()
  end
  if channel.key then saveKey() end
  if channel.dirty then saveState() end
  if channel.pushed > 0 then
    local length = redis.call('RPUSH', KEYS[5], unpack(channel.transitions))
    if length > OUTBOX_KEPT then redis.call('LTRIM', KEYS[5], -OUTBOX_KEPT, -1) end
    for _, text in ipairs(channel.transitions) do outbox[#outbox + 1] = text end
  end
  return outbox
end
