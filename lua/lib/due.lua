-- Takes every change whose time has come, each as of its own time, and follows foreign hands on the block key.

local function followKey()
  if real.state == 'open' then
    if keyEnds ~= -2 and keyEnds ~= channel.keyUntil then
      local ends = keyEnds
      if keyEnds ~= -1 and channel.keyUntil ~= -1 and real.ends ~= -1 then ends = real.ends + keyEnds - channel.keyUntil end
      channel.keyUntil = keyEnds
      moveEnd(ends, 'external')
    end
  elseif keyEnds ~= -2 then
    open(real, now, 'external', keyEnds, nil, nil, true)
  end
end

local function due()
  -- Twice at the most does each lane move: open → closed → held.
  if real.state == 'closed' and real.hold > 0 and real.hold <= now then held(real) end
  followKey()
  if real.state == 'open' then
    if real.ends ~= -1 and real.ends <= now then
      close(real, real.ends, 'expired')
    elseif keyEnds == -2 then
      close(real, now, 'deleted')
    end
    if real.state == 'closed' and real.hold > 0 and real.hold <= now then held(real) end
  end
  if shadow.state == 'open' and shadow.ends <= now then close(shadow, shadow.ends, 'expired') end
  if shadow.state == 'closed' and shadow.hold > 0 and shadow.hold <= now then held(shadow) end
end

-- When somebody must look at the channel next: 0 never (plainly closed but for its outbox), -1 at a block without end.
local function nextDue()
  local at = 0
  for _, lane in ipairs({ real, shadow }) do
    local mine = lane.state == 'open' and lane.ends or lane.hold
    if mine ~= 0 and (at == 0 or at == -1 or (mine ~= -1 and mine < at)) then at = mine end
  end
  return at
end
