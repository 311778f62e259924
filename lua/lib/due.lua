-- Takes every change whose time has come, each as of its own time, and follows foreign hands on the block key.

local function followKey()
  if real.state ~= 'closed' then
    if keyEnds ~= -2 and keyEnds ~= channel.keyUntil then
      local ends = keyEnds
      if keyEnds ~= -1 and channel.keyUntil ~= -1 and real.ends ~= -1 then
        -- The key outlives the block where half-open is to come: cut by more than is left, the block ends now, and not in the past.
        ends = math.max(real.ends + keyEnds - channel.keyUntil, math.min(real.ends, now))
      end
      channel.keyUntil = keyEnds
      moveEnd(ends, 'external')
    end
  elseif keyEnds ~= -2 then
    open(real, now, 'external', keyEnds, nil, nil, true)
  end
end

-- Mode `observe` keeps nothing hidden.
local byHand = policy.also.manual and policy.mode == 'on'

-- Nobody has released it yet: it goes on, and people are reminded.
local function awaitRelease()
  local ends = now + blockLength(real)
  keyEnds, channel.keyUntil, channel.key = keyEnd(ends), keyEnd(ends), 'set'
  moveEnd(ends, 'awaits-release')
end

-- The end of a block. What begins as of now, not of its own time, cannot be due again at once.
local function endBlock()
  if byHand and real.reason ~= PAUSED then
    awaitRelease()
  elseif policy.also.halfOpen and real.reason ~= PAUSED then
    tryAgain(real.ends)
  else
    close(real, real.ends, 'expired')
  end
end

local function endTrial()
  if policy.also.halfOpen and policy.also.halfOpen.reopen then
    open(real, now, 'half-open-timeout')
  else
    close(real, real.ends, 'half-open-timeout')
  end
end

local function due()
  -- Each lane goes round at the most once: open → half-open → closed → held.
  if real.state == 'closed' and real.hold > 0 and real.hold <= now then held(real) end
  if channel.forcing and channel.forced <= now then endForce(channel.forced, 'expired') end
  followKey()
  if real.state ~= 'closed' then
    local deleted = keyEnds == -2
    -- What should still be there, because half-open or a reminder is to come, did not run out.
    if real.state == 'open' and real.ends ~= -1 and real.ends <= now and not (deleted and channel.keyUntil > now) then
      endBlock()
    elseif deleted and not (real.state == 'half-open' and real.ends ~= -1 and real.ends <= now) then
      close(real, now, 'deleted')
    end
    if real.state == 'half-open' and byHand then
      -- New rules: from now on a person decides.
      awaitRelease()
    elseif real.state == 'half-open' and real.ends ~= -1 and real.ends <= now then
      endTrial()
    end
    if real.state == 'closed' and real.hold > 0 and real.hold <= now then held(real) end
  end
  if shadow.state == 'open' and shadow.ends <= now then close(shadow, shadow.ends, 'expired') end
  if shadow.state == 'closed' and shadow.hold > 0 and shadow.hold <= now then held(shadow) end
end

-- When somebody must look at the channel next: 0 never (plainly closed but for its outbox), -1 at a time that nobody knows.
local function nextDue()
  local at = channel.level ~= '' and -1 or 0
  local forced = { state = 'closed', hold = channel.forcing and channel.forced or 0 }
  for _, lane in ipairs({ real, shadow, forced }) do
    local mine = lane.state ~= 'closed' and lane.ends or lane.hold
    if mine ~= 0 and (at == 0 or at == -1 or (mine ~= -1 and mine < at)) then at = mine end
  end
  return at
end
