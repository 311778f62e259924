-- The channel in memory: what every script that can change its state begins with. Expects `stored`, the state hash as HGETALL gave it.
-- ARGV  1 mode on|observe · 2 window (lib/window.lua) · 3 threshold in hundredths of a percent · 4 block length ms · 5 growth per relapse
--       6 longest block ms · 7 hold ms · 8 window's life ms · 9 freshFor ms · 10 rules beside the rate: JSON (lib/verdict.lua), or empty
local policy = {
  mode = ARGV[1], threshold = tonumber(ARGV[3]),
  blockFor = tonumber(ARGV[4]), growth = tonumber(ARGV[5]), blockMax = tonumber(ARGV[6]),
  hold = tonumber(ARGV[7]), windowTtl = tonumber(ARGV[8]), fresh = tonumber(ARGV[9]),
  also = ARGV[10] ~= '' and cjson.decode(ARGV[10]) or {},
}
local DAY = 86400000

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
-- When the block key ends: -2 there is none, -1 it has no end.
local keyEnds = redis.call('PEXPIRETIME', KEYS[2])
-- Later than a date can be in most languages (8.64e15 ms): somebody's nanoseconds.
if keyEnds > 8.64e15 then keyEnds = -1 end

-- The window, of whichever kind.
local function dropWindow()
  redis.call('DEL', KEYS[1], KEYS[7], KEYS[8])
end

-- tostring() of a large number gives 1e+15.
local function int(n)
  return string.format('%.0f', n)
end

local fields = {}
for i = 1, #stored, 2 do fields[stored[i]] = stored[i + 1] end
local function number(name)
  return tonumber(fields[name]) or 0
end

local channel = {
  existed = #stored > 0, hadKey = keyEnds ~= -2, dirty = false, pushed = 0, transitions = {},
  epoch = number('epoch'),       -- of the last transition
  keyUntil = number('keyUntil'), -- the end that we gave the block key; another one means foreign hands
  last = number('last'),         -- latest planned end of any block: the state outlives the jobs that wait for it
  forced = number('forced'),     -- until then, held open by hand: not judged
  -- Whether people were told so and not yet of its end; by whom, and why.
  forcing = fields.forcing == '1', forcedBy = fields.forcedBy or '', forcedNote = fields.forcedNote or '',
  level = fields.level or '',    -- how far the channel is degraded while it is in use; '' not at all
}

-- A lane is one run of the state machine. The real one hides the channel; the shadow of mode `observe` only tells.
-- All of its fields are written together.
local function readLane(prefix)
  if not fields[prefix .. 'state'] then
    return {
      prefix = prefix, state = 'closed', since = 0, ends = 0, hold = 0, incident = '', trips = 0, block = 0, blockedAt = 0, reason = '', actor = '',
      note = '', step = 0, good = 0, badFrom = 0, badTo = 0, bad = -1, past = '',
    }
  end
  return {
    prefix = prefix,
    state = fields[prefix .. 'state'],
    since = number(prefix .. 'since'),
    ends = number(prefix .. 'until'), -- of the block, or of half-open; -1 without end, 0 when closed
    hold = number(prefix .. 'hold'),  -- watched until; 0 when not watched
    incident = fields[prefix .. 'incident'] or '',
    trips = number(prefix .. 'trips'),
    block = number(prefix .. 'block'), -- epoch of the last block
    blockedAt = number(prefix .. 'blockedAt'), -- when it began
    reason = fields[prefix .. 'reason'] or '',
    actor = fields[prefix .. 'actor'] or '',
    note = fields[prefix .. 'note'] or '',
    step = number(prefix .. 'step'), -- of half-open: 0 is the first
    good = number(prefix .. 'good'), -- outcomes of this step that were good
    -- Only where a policy learns the length of blocks: from when to when the outage is known to have lasted (0: none is measured), how long
    -- the longest one of this incident before it did (-1: there was none), and those of the last incidents.
    badFrom = number(prefix .. 'badFrom'),
    badTo = number(prefix .. 'badTo'),
    bad = tonumber(fields[prefix .. 'bad']) or -1,
    past = fields[prefix .. 'past'] or '',
  }
end
local real, shadow = readLane(''), readLane('shadow.')
