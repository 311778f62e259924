#!lua
-- Judges one batch of one channel's outcomes, in order, exactly as if they had come one at a time. Atomic; writes last, after every
-- key that it writes to has been read (Redis has no rollback, so a wrong type must show before the first write).
--
-- KEYS  1 health list · 2 blocked string · 3 state hash · 4 fence hash · 5 outbox list · 6 evidence list · 7 slots hash
-- ARGV  1-9 policy (lib/channel.lua)
--       10 results   one character an outcome: 1 success, 0 failure, 2 success that may have been sent before (direct mode)
--       11 partition text
--       12 entries   JSON [[position, arrival in ms or 0 for now, outcomes in it, most ms by which a call of it began before arrival], …];
--                    entries of one outcome that arrived together may come as one: the last position, then as fifth all of them, "4 7 9"
--       13 times     JSON [agoMs, durationMs, agoMs, durationMs, …], or empty when all are 0
--       14 evidence  JSON [text per failure], in the order of the failures
-- Reply 0 on the fast path; otherwise
--       { transitions pushed by this call, blocked now, window: recorded, succeeded, outcomes: counted, duplicate, late, stale,
--         blocked, overridden, clipped to Redis time, outbox … }
local results = ARGV[10]

-- Fast path, before anything else is even defined: nothing bad in the batch, nothing going on in the channel. Two reads, no write. A time
-- window has to count successes too.
local present = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5], KEYS[7])
local stored = redis.call('HGETALL', KEYS[3])
if present == 0 and not string.find(results, '0', 1, true) and not string.find(ARGV[2], 'time', 1, true) then
  local quiet = true
  for i = 1, #stored, 2 do
    local name = stored[i]
    if (name == 'state' or name == 'shadow.state') and stored[i + 1] ~= 'closed' then quiet = false end
  end
  if quiet then return 0 end
end

-- include lib/channel.lua
-- include lib/move.lua
-- include lib/due.lua
-- include lib/window.lua
-- include lib/fence.lua
-- include lib/evidence.lua
-- include lib/save.lua

local partition = ARGV[11]

due()

local lane = policy.mode == 'observe' and shadow or real
local count = { counted = 0, duplicate = 0, late = 0, stale = 0, blocked = 0, overridden = 0, clipped = 0 }
local verdict = nil

-- A channel that is blocked, or held open by hand, drops the whole batch and writes nothing: read again later, it is late.
if real.state == 'open' or lane.state == 'open' then
  count.blocked = #results
elseif channel.forced > now then
  count.overridden = #results
else
  local window = loadWindow()
  local fence = loadFence(partition)
  local evidence = newEvidence(ARGV[14])
  local since = math.max(lane.since, real.since, channel.forced)
  local at = 0

  local times
  local function timesOf(i)
    times = times or (ARGV[13] ~= '' and cjson.decode(ARGV[13]) or {})
    return times[2 * i - 1] or 0, times[2 * i] or 0
  end

  local function judge(success, again, arrival, ago, duration, failure)
    local ends = arrival - ago
    if now - ends > policy.fresh then
      count.stale = count.stale + 1
    elseif lane.state == 'open' then
      count.blocked = count.blocked + 1
    elseif since > 0 and ends - duration <= since then
      count.late = count.late + 1
    elseif window:isPast(ends) then
      count.late = count.late + 1
    elseif window.forgetful and success and window:isOpen() and fence.by ~= '' and fence.by ~= partition and (again or arrival <= fence.at) then
      -- Another partition opened this window: its replayed successes, once dropped on the fast path, must not dilute it.
      count.late = count.late + 1
    else
      count.counted = count.counted + 1
      if not success then
        if not window:isOpen() then
          fence:opens(partition)
          evidence:restart()
        end
        evidence:add(failure)
      end
      window:push(success, ends)
      if not success and window:isBelow(policy.threshold) then
        verdict = { recorded = window:recorded(), succeeded = window:succeeded() }
        open(lane, now, 'success-rate', nil, {
          size = int(window:total()), recorded = int(verdict.recorded), succeeded = int(verdict.succeeded),
          threshold = int(policy.threshold), evidence = evidence:latest(),
        })
        window:clear()
      end
    end
  end

  local failure = 0
  for _, entry in ipairs(cjson.decode(ARGV[12])) do
    local position, arrival, outcomes = entry[1], tonumber(entry[2]), entry[3]
    if arrival == 0 then arrival = now end
    if arrival > now then
      arrival = now
      count.clipped = count.clipped + outcomes
    end
    -- Positions ascend: what lies at or below the fence comes first.
    local known = fence:covers(position) and outcomes or 0
    if known == 0 and entry[5] and fence.before then
      for each in string.gmatch(entry[5], '%S+') do
        if not fence:covers(each) then break end
        known = known + 1
      end
    end
    count.duplicate = count.duplicate + known
    -- Usually no call of the entry is so old that it could be stale or late: then nobody looks at its times, and while there is no
    -- window a run of successes is counted at one go (most of what a worker reads; it halves what an outcome costs Redis).
    local earliest = arrival - (entry[4] or math.huge)
    local timely = window.forgetful and earliest >= now - policy.fresh and earliest > since
    local i, covered, last = at + 1, at + known, at + outcomes
    while i <= last do
      local run = 0
      if timely and i > covered and lane.state ~= 'open' and not window:isOpen() then
        run = math.min(string.find(results, '0', i, true) or last + 1, last + 1) - i
      end
      if run > 0 then
        count.counted = count.counted + run
        i = i + run
      else
        local result = string.byte(results, i)
        if result == 48 then failure = failure + 1 end
        if i > covered then
          local ago, duration = 0, 0
          if not timely then ago, duration = timesOf(i) end
          judge(result ~= 48, result == 50, arrival, ago, duration, failure)
        end
        i = i + 1
      end
    end
    at = last
    fence:reach(position)
  end

  if count.duplicate < #results then
    channel.window, channel.fence, channel.evidence = window, fence, evidence
    verdict = verdict or { recorded = window:recorded(), succeeded = window:succeeded() }
  end
end

local outbox = save(present)
local reply = {
  channel.pushed, real.state == 'open' and 1 or 0, verdict and verdict.recorded or 0, verdict and verdict.succeeded or 0,
  count.counted, count.duplicate, count.late, count.stale, count.blocked, count.overridden, count.clipped,
}
for _, text in ipairs(outbox) do reply[#reply + 1] = text end
return reply
