#!lua
-- What one receiver of alerts has been told, per channel: decides whether a message may go out, so that old news is never told as
-- new, ends go only to those who heard of the beginning, and at most one message of a channel is on its way at a time.
--
-- KEYS  1 told      hash; field `c:<channel>` = nine values apart by `|`, see below; `@wait` ms; `@sent` times ms, apart by spaces
-- ARGV  1 action    offer | claim | told | dead | release
--       2 channel · 3 epoch · 4 kind · 5 block (epoch of the block concerned, 0 unknown)
--       6 run       names one delivery attempt ('' for offer)
--       7 keep      ms, the least time for which this is remembered
--       8 hold      claim: ms for which the channel is this run's · release: ms for which the whole receiver must wait
--       9 count · 10 per     claim: so many messages in so many ms for the whole receiver; 0 without limit
--      11 lost      1: the end of a block that Redis forgot after it was told; what is remembered here may be forgotten as well
-- Reply claim: { verdict, ms }. verdict: send | both (the beginning was never told: this message tells both) | wait (ms)
--       | duplicate | older | superseded | unprompted. Others: { 'ok', 0 }
local action, channel, epoch, kind, block = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local run, keep, hold, count, per = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local lost = ARGV[11] == '1'
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local field = 'c:' .. channel
local MOST = 10000
local BEGINS = { blocked = true, relapsed = true }
local OPEN = { blocked = true, relapsed = true, extended = true, shortened = true }
local ENDS = { recovered = true, held = true }
-- News of a channel in use: no part of what the receiver believes about blocks, so that it takes the place of no news of them. Newer news
-- takes its place only if it is about the same thing.
local ABOUT = { observed = 'observed', level = 'level', suspected = 'suspected', forced = 'force', ['force-ended'] = 'force' }
local ASIDE = ABOUT[kind]

-- told, kind: the newest news that went out · heard: newest block that the receiver knows of · open: it believes the channel blocked
-- aside: per thing the newest news that went out, and that was handed to the queue: `<thing>=<told>/<offered>`, apart by spaces
-- offered: newest news that was handed to its queue · coming: newest block whose beginning waits there · busy, run: whose turn until when
local function read()
  local parts = {}
  for part in string.gmatch((redis.call('HGET', KEYS[1], field) or '') .. '|', '([^|]*)|') do parts[#parts + 1] = part end
  local function int(i) return tonumber(parts[i] or '') or 0 end
  local aside = {}
  for thing, told, offered in string.gmatch(parts[9] or '', '(%l+)=(%d+)/(%d+)') do
    aside[thing] = { told = tonumber(told), offered = tonumber(offered) }
  end
  if ASIDE then aside[ASIDE] = aside[ASIDE] or { told = 0, offered = 0 } end
  return {
    told = int(1), kind = parts[2] or '', heard = int(3), open = parts[4] == '1', offered = int(5), coming = int(6),
    busy = int(7), run = parts[8] or '', aside = aside, mine = aside[ASIDE],
  }
end

-- At the cap a few are looked at, and the one that matters least makes room: closed before open, then the oldest.
local function makeRoom()
  if redis.call('HLEN', KEYS[1]) <= MOST or redis.call('HEXISTS', KEYS[1], field) == 1 then return end
  local worst, least
  local sample = redis.call('HRANDFIELD', KEYS[1], 20, 'WITHVALUES')
  for i = 1, #sample, 2 do
    if string.sub(sample[i], 1, 2) == 'c:' then
      local told, _, _, isOpen, offered = string.match(sample[i + 1], '^(%d*)|([^|]*)|(%d*)|(%d*)|(%d*)')
      local weight = math.max(tonumber(told) or 0, tonumber(offered) or 0) + (isOpen == '1' and 1e15 or 0)
      if not least or weight < least then worst, least = sample[i], weight end
    end
  end
  if worst then redis.call('HDEL', KEYS[1], worst) end
end

local function write(s)
  makeRoom()
  local aside = {}
  for thing, at in pairs(s.aside) do aside[#aside + 1] = string.format('%s=%d/%d', thing, at.told, at.offered) end
  redis.call('HSET', KEYS[1], field, string.format('%d|%s|%d|%s|%d|%d|%d|%s|%s', s.told, s.kind, s.heard, s.open and '1' or '0',
    s.offered, s.coming, s.busy, s.run, table.concat(aside, ' ')))
  if redis.call('PTTL', KEYS[1]) < keep then redis.call('PEXPIRE', KEYS[1], string.format('%d', keep)) end
end

-- The times of the messages sent within `per`, oldest first, and how long to wait for room.
local function budget()
  local sent = {}
  for each in string.gmatch(redis.call('HGET', KEYS[1], '@sent') or '', '%d+') do
    if tonumber(each) > now - per then sent[#sent + 1] = each end
  end
  if #sent < count then return sent, 0 end
  return sent, tonumber(sent[#sent - count + 1]) + per - now
end

local function expected(s)
  if not ENDS[kind] or lost then return true end
  if s.open or (s.coming > 0 and s.coming >= block) then return true end
  return kind == 'held' and s.kind == 'recovered' and s.heard == block
end

local function claim(s)
  if epoch == s.told or (ASIDE and epoch <= s.mine.told) then return 'duplicate', 0 end
  if kind == 'recovered' and ENDS[s.kind] and block > 0 and s.heard >= block then return 'duplicate', 0 end
  -- The end of a watch says nothing about them.
  if epoch < s.told and not (ASIDE and s.kind == 'held') then return 'older', 0 end
  if epoch < s.offered or (ASIDE and epoch < s.mine.offered) then return 'superseded', 0 end
  if not expected(s) then return 'unprompted', 0 end
  -- It may be through long before its time is up.
  if s.busy > now and s.run ~= run then return 'wait', math.min(s.busy - now, 200) end
  -- The end of a block and the end of its watch may be found together (everything was down): they are told in this order, both.
  if kind == 'held' and s.offered > s.told and s.offered < epoch then return 'wait', 200 end
  local wait = tonumber(redis.call('HGET', KEYS[1], '@wait') or '') or 0
  if wait > now then return 'wait', wait - now end
  if count > 0 then
    local sent, left = budget()
    if left > 0 then return 'wait', left end
    sent[#sent + 1] = string.format('%d', now)
    redis.call('HSET', KEYS[1], '@sent', table.concat(sent, ' '))
  end
  local untold = not ASIDE and not lost and not BEGINS[kind] and not s.open and s.heard < block
  s.busy, s.run = now + hold, run
  write(s)
  return untold and 'both' or 'send', 0
end

local s = read()
if action == 'claim' then
  local verdict, ms = claim(s)
  return { verdict, ms }
end
if action == 'offer' then
  -- `held` is no change of state: it overtakes nothing.
  if ASIDE then
    s.mine.offered = math.max(s.mine.offered, epoch)
  elseif kind ~= 'held' then
    s.offered = math.max(s.offered, epoch)
  end
  if BEGINS[kind] then s.coming = math.max(s.coming, block) end
elseif s.run == run then
  s.busy, s.run = 0, ''
end
if action == 'told' and ASIDE then
  s.mine.told = math.max(s.mine.told, epoch)
elseif action == 'told' and epoch > s.told then
  s.told, s.kind, s.heard, s.open = epoch, kind, math.max(s.heard, block), OPEN[kind] or false
elseif action == 'dead' then
  if BEGINS[kind] and s.coming == block then s.coming = 0 end
  if s.offered == epoch then s.offered = s.told end
  if ASIDE and s.mine.offered == epoch then s.mine.offered = s.mine.told end
elseif action == 'release' and hold > 0 then
  local wait = tonumber(redis.call('HGET', KEYS[1], '@wait') or '') or 0
  redis.call('HSET', KEYS[1], '@wait', string.format('%d', math.max(wait, now + hold)))
end
write(s)
return { 'ok', 0 }
