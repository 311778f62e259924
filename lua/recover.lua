#!lua
-- Takes what is due in a channel and hands back its outbox. Of any number of watchers that call it, one moves the channel.
--
-- KEYS  1 health list · 2 blocked string · 3 state hash · 4 fence hash · 5 outbox list · 6 evidence list · 7 slots hash · 8 calls sorted set
-- ARGV  1-10 policy (lib/channel.lua)
--       11 block     epoch of the block whose end a job waits for; 0 for a sweep
--       12 ends      ms, the planned end of that block
--       13 incident  text · 14 trips · 15 blockedAt ms: the job's own data, for a state that was lost
-- Reply { transitions pushed by this call, next due in ms (0 never, -1 unknown), Redis time in ms, outbox … }
local stored = redis.call('HGETALL', KEYS[3])

-- include lib/channel.lua
-- include lib/move.lua
-- include lib/due.lua
-- include lib/save.lua

local job = { block = tonumber(ARGV[11]), ends = tonumber(ARGV[12]), incident = ARGV[13], trips = tonumber(ARGV[14]), since = tonumber(ARGV[15]) }

-- A failover or a flush took this block with it, and perhaps left an older state in its place: every later one has a higher epoch.
-- People were told of the block, so they are told of its end.
local forgotten = job.block > channel.epoch
due()
if forgotten and real.state == 'closed' and keyEnds == -2 then
  channel.epoch = math.max(channel.epoch, job.block)
  real.state, real.since, real.ends, real.block, real.blockedAt = 'open', job.since, job.ends, job.block, job.since
  if job.incident == '' then
    -- The third party had asked to wait: no incident, so nobody was told, and a watch that may still run goes on.
    real.reason = PAUSED
  else
    real.incident, real.trips, real.reason = job.incident, job.trips, ''
  end
  close(real, math.min(now, job.ends), 'state lost')
  due()
end

-- A level lasts as long as the window that gave rise to it, and the rules.
if channel.level ~= '' and (policy.mode ~= 'on' or not policy.also.levels or redis.call('EXISTS', KEYS[1], KEYS[7]) == 0) then changeLevel('') end

local outbox = save()
local reply = { channel.pushed, nextDue(), now }
for _, text in ipairs(outbox) do reply[#reply + 1] = text end
return reply
