-- Why the calls of a window block their channel. What a policy asks beside the rate is in ARGV 10, JSON, each field only if asked for:
--   slow         'failure': a slow call is one; or a number: the share of slow calls beyond which they block, hundredths of a percent
--   minFailures  below so many the rate blocks nothing · maxFailures, maxRun: more of them, in the window or in a row, block whatever the rate
--   minSources   the failures kept as evidence must come from so many sources
--   levels       [[name, line], …], the lowest line first: degraded so far below it, hundredths of a percent
--   retryMin, retryMax ms, within which a third party's own wish to wait is followed
local also = policy.also

local function badIn(window)
  return window.failures + (also.slow == 'failure' and window.slow or 0)
end

-- The reason; nil or false: none. Every comparison is strict: equality never blocks. `run`: failures in a row.
local function whyBlocked(window, run)
  if plain then return window:isJudged() and window:isFailing(window.failures, policy.threshold) and window.reason end
  local bad, why = badIn(window), nil
  if also.maxRun and run > also.maxRun then
    why = 'consecutive-failures'
  elseif also.maxFailures and bad > also.maxFailures then
    why = 'too-many-failures'
  elseif window:isJudged() then
    if bad >= (also.minFailures or 0) and window:isFailing(bad, policy.threshold) then
      why = window.reason
    elseif type(also.slow) == 'number' and window.slow * 10000 > also.slow * window:total() then
      return 'slow-calls'
    end
  end
  -- People want to know what to look for: what tripped it is what there was more of.
  if why and also.slow == 'failure' and window.slow > window.failures then return 'slow-calls' end
  return why
end

local CLEARANCE = 500 -- hundredths of a percent above its line at which a level is left

-- The level that the window asks for, coming from `current`; '' none. A level that the channel is at, and those less bad, are left only
-- with clearance; where calls are too few to judge, when none of them is bad.
local function levelOf(window, current)
  if not window:isJudged() then return badIn(window) > 0 and current or '' end
  local total = window:total()
  local good = (total - badIn(window)) * 10000
  local within = false
  for _, level in ipairs(also.levels) do
    within = within or level[1] == current
    if good < (level[2] + (within and CLEARANCE or 0)) * total then return level[1] end
  end
  return ''
end

-- How many sources the texts of evidence name; what names none is one source more.
local function sourcesOf(texts)
  local seen, count = {}, 0
  for _, text in ipairs(texts) do
    local ok, proof = pcall(cjson.decode, text)
    local source = ok and type(proof) == 'table' and type(proof.source) == 'string' and proof.source or ''
    if not seen[source] then seen[source], count = true, count + 1 end
  end
  return count
end
