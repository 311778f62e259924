#!lua
-- The operator's hand: block or unblock, through the same door as automatic decisions.
--
-- KEYS  1 health list · 2 blocked string · 3 state hash · 4 fence hash · 5 outbox list · 6 evidence list · 7 slots hash · 8 calls sorted set
-- ARGV  1-10 policy (lib/channel.lua)
--       11 action  block | unblock
--       12 for     ms. block: its length, 0 by policy, -1 without end. unblock: held open by hand for so long, 0 judged at once
--       13 actor   text · 14 note text
-- Reply { transitions pushed by this call, next due in ms (0 never, -1 unknown), Redis time in ms, blocked now, until in ms, outbox … }
local stored = redis.call('HGETALL', KEYS[3])

-- include lib/channel.lua
-- include lib/move.lua
-- include lib/due.lua
-- include lib/save.lua

local action, length, hand = ARGV[11], tonumber(ARGV[12]), { actor = ARGV[13], note = ARGV[14] }

due()

if action == 'block' then
  local ends = nil
  if length == -1 then ends = -1 elseif length > 0 then ends = now + length end
  channel.forced, channel.forcing, channel.forcedBy, channel.forcedNote, channel.dirty = 0, false, '', '', true
  if real.state == 'open' and real.reason == PAUSED then
    -- What a person blocks is an incident of its own; the pause ends here.
    close(real, now, 'manual', hand)
    due()
  end
  if real.state == 'open' then
    ends = ends or now + blockLength(real)
    keyEnds, channel.keyUntil, channel.key = keyEnd(ends), keyEnd(ends), 'set'
    moveEnd(ends, 'manual', hand)
  else
    open(real, now, 'manual', ends, nil, hand)
  end
elseif action == 'unblock' then
  if real.state ~= 'closed' then close(real, now, 'manual', hand) end
  if length > 0 then
    -- What was counted before must not tip the scales when judging resumes.
    channel.clearWindow = true
    force(now + length, hand)
  elseif channel.forcing then
    endForce(now, 'manual', hand)
  end
end

local outbox = save()
local reply = { channel.pushed, nextDue(), now, real.state ~= 'closed' and 1 or 0, int(real.ends) }
for _, text in ipairs(outbox) do reply[#reply + 1] = text end
return reply
