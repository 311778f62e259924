#!lua
-- Judges one batch of one channel's outcomes, in order, exactly as if they had come one at a time. Atomic; writes last, after every
-- key that it writes to has been read (Redis has no rollback, so a wrong type must show before the first write).
--
-- KEYS  1 health list · 2 blocked string · 3 state hash · 4 fence hash · 5 outbox list · 6 evidence list · 7 slots hash · 8 calls sorted set
-- ARGV  1-10 policy (lib/channel.lua)
--       11 results   one character an outcome: 1 success, 0 failure, 2 success that may have been sent before (direct mode), 3 slow success,
--                    4 the third party asked to wait; 3 and 4 only under a policy whose ARGV 10 asks for them
--       12 partition text
--       13 entries   JSON [[position, arrival in ms or 0 for now, outcomes in it, most ms by which a call of it began before arrival], …];
--                    entries of one outcome that arrived together may come as one: the last position, then as fifth all of them, "4 7 9"
--       14 times     JSON [agoMs, durationMs, agoMs, durationMs, …], or empty when all are 0
--       15 evidence  JSON [text per 0, 3 or 4], in their order
-- Reply 0 on the fast path; otherwise
--       { transitions pushed by this call, blocked now, window: recorded, succeeded, outcomes: counted, duplicate, late, stale,
--         blocked, overridden, clipped to Redis time, calls pushed out of a full call log, outbox … }
local results = ARGV[11]
-- What is no plain success: a plain text for a plain policy, because that is found several times faster.
local plain = ARGV[10] == ''
local BAD = plain and '0' or '[034]'

-- Fast path, before anything else is even defined: nothing bad in the batch, nothing going on in the channel. Two reads, no write. The
-- kinds `time` and `log` have to count successes too.
local present = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5], KEYS[7], KEYS[8])
local stored = redis.call('HGETALL', KEYS[3])
if present == 0 and not string.find(results, BAD, 1, plain) and not string.find(ARGV[2], '^[tl]') then
  local quiet = true
  for i = 1, #stored, 2 do
    local name = stored[i]
    if (name == 'state' or name == 'shadow.state') and stored[i + 1] ~= 'closed' or name == 'level' and stored[i + 1] ~= '' then quiet = false end
  end
  if quiet then return 0 end
end

-- include lib/channel.lua
-- include lib/move.lua
-- include lib/due.lua
-- include lib/window.lua
-- include lib/fence.lua
-- include lib/evidence.lua
-- include lib/verdict.lua
-- include lib/save.lua

local partition = ARGV[12]

due()

local lane = policy.mode == 'observe' and shadow or real
local count = { counted = 0, duplicate = 0, late = 0, stale = 0, blocked = 0, overridden = 0, clipped = 0 }
local verdict, crowded = nil, 0

-- A channel that is blocked, or held open by hand, drops the whole batch and writes nothing: read again later, it is late.
if real.state == 'open' or lane.state == 'open' then
  count.blocked = #results
elseif channel.forced > now then
  count.overridden = #results
else
  local window = loadWindow()
  local fence = loadFence(partition)
  local evidence = newEvidence(ARGV[15])
  local since = math.max(lane.since, real.since, channel.forced)
  local at = 0
  fence:startRun(since, window:isOpen() or not window.forgetful)
  -- A window that expired took the reason for the level with it.
  if channel.level ~= '' and (policy.mode ~= 'on' or not also.levels or (window.forgetful and not window:isOpen())) then changeLevel('') end

  local times
  local function timesOf(i)
    times = times or (ARGV[14] ~= '' and cjson.decode(ARGV[14]) or {})
    return times[2 * i - 1] or 0, times[2 * i] or 0
  end

  -- An automatic block, unless too few sources fail: then people are told which, once while the fence remembers it.
  local function trip(reason)
    local proof, recorded = evidence:latest(), window:recorded()
    local succeeded = recorded - badIn(window)
    local extra = {
      size = int(window:total()), recorded = int(recorded), succeeded = int(succeeded),
      threshold = reason == 'success-rate' and int(policy.threshold) or nil, slow = also.slow and int(window.slow) or nil, evidence = proof,
    }
    if also.minSources and sourcesOf(proof or {}) < also.minSources then
      if lane == shadow or now - fence.suspected < policy.windowTtl then return end
      fence:suspects()
      extra.reason = reason
      return tell('suspected', now, extra, nil, true)
    end
    verdict = { recorded = recorded, succeeded = succeeded }
    open(lane, now, reason, nil, extra)
    window:clear()
  end

  -- The next two are defined only where they are needed: a call pays for every function that it defines.
  -- Each level has a line; it is left only some way above it, so that a rate which wavers makes one change.
  local followLevel = also.levels and function(failed)
    if lane == shadow or lane.state ~= 'closed' then return end
    local level = levelOf(window, channel.level)
    if level == channel.level then return end
    local recorded, line = window:recorded(), nil
    for _, each in ipairs(also.levels) do
      if each[1] == level then line = int(each[2]) end
    end
    changeLevel(level, {
      size = int(window:total()), recorded = int(recorded), succeeded = int(recorded - badIn(window)), threshold = line,
      evidence = failed and evidence:latest() or nil,
    })
  end

  -- Half-open: good outcomes close the channel, a bad one blocks it again, longer.
  local try = lane.state == 'half-open' and function(result, failure)
    if result == '0' or (result == '3' and also.slow == 'failure') then
      fence:opens(partition)
      evidence:restart()
      evidence:add(failure)
      open(lane, now, 'half-open-failure', nil, { evidence = evidence:latest() })
    elseif result ~= '4' then
      gain(now)
      -- What is left of the batch began before the channel was closed.
      if lane.state == 'closed' then since = now end
    end
  end

  local function judge(result, position, arrival, ends, duration, failure)
    local success, waits = result == '1' or result == '2', result == '4'
    if now - ends > policy.fresh then
      count.stale = count.stale + 1
    elseif lane.state == 'open' then
      count.blocked = count.blocked + 1
    elseif since > 0 and ends - duration <= since then
      count.late = count.late + 1
    elseif not waits and window:isPast(ends) then
      count.late = count.late + 1
    elseif window.forgetful and success and window:isOpen() and fence.by ~= '' and fence.by ~= partition and (result == '2' or arrival <= fence.at) then
      -- Another partition opened this window: its replayed successes, once dropped on the fast path, must not dilute it.
      count.late = count.late + 1
    elseif lane.state == 'half-open' then
      count.counted = count.counted + 1
      try(result, failure)
    elseif waits then
      count.counted = count.counted + 1
      local text = evidence:text(failure)
      local asked = text and tonumber(cjson.decode(text).retryAfterMs) or 0
      local over = ends + math.max(also.retryMin or 0, math.min(math.ceil(asked), also.retryMax or 0))
      -- Mode observe hides nothing, and nobody needs to be told of seconds.
      if lane == real and over > now then
        pause(now, over, { text })
        window:clear()
      end
    else
      count.counted = count.counted + 1
      if not success then
        -- After a silence longer than the span this is the first failure again.
        if not window.forgetful then window:moveTo(ends) end
        if not window:isOpen() then
          fence:opens(partition)
          evidence:restart()
        end
        evidence:add(failure)
      end
      window:push(success and '1' or result, ends, position)
      if also.maxRun then fence:count(result == '0' or (result == '3' and also.slow == 'failure')) end
      local reason = not success and whyBlocked(window, fence.run)
      if reason then trip(reason) end
      if also.levels then followLevel(not success) end
    end
  end

  local failure = 0
  for _, entry in ipairs(cjson.decode(ARGV[13])) do
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
    local i, covered, last, arrived = at + 1, at + known, at + outcomes, math.floor(arrival)
    while i <= last do
      local run = 0
      timely = timely and earliest > since -- which moves where half-open ends
      if timely and i > covered and lane.state == 'closed' and not window:isOpen() then
        run = math.min(string.find(results, BAD, i, plain) or last + 1, last + 1) - i
      end
      if run > 0 then
        count.counted = count.counted + run
        i = i + run
      else
        local result = string.sub(results, i, i)
        if result ~= '1' and result ~= '2' then failure = failure + 1 end
        if i > covered then
          local ends, duration = arrived, 0
          if not timely or result == '4' then
            local ago
            ago, duration = timesOf(i)
            ends = math.floor(arrival - ago)
          end
          judge(result, position, arrival, ends, duration, failure)
        end
        i = i + 1
      end
    end
    at = last
    fence:reach(position)
  end

  if count.duplicate < #results then
    if not also.maxRun then fence:forgetRun() end
    channel.window, channel.fence, channel.evidence = window, fence, evidence
    verdict = verdict or { recorded = window:recorded(), succeeded = window:recorded() - badIn(window) }
    crowded = window.crowded or 0
  end
end

local outbox = save(present)
local reply = {
  channel.pushed, real.state ~= 'closed' and 1 or 0, verdict and verdict.recorded or 0, verdict and verdict.succeeded or 0,
  count.counted, count.duplicate, count.late, count.stale, count.blocked, count.overridden, count.clipped, crowded,
}
for _, text in ipairs(outbox) do reply[#reply + 1] = text end
return reply
