-- Which window judges: ARGV 2 is N for a count window, `time:<span ms>:<slots>:<least calls>`, `log:<span ms>:<most calls>:<least calls>`, or
-- `sequential:<what a failure adds>:<what a success takes>:<limit>`. A kind is a file; what all of them have:
--
-- forgetful         a success without a window leaves nothing behind, not even in the fence: it may be read again from another partition
-- reason            why it blocks
-- failures, slow    failed and slow calls in it · recorded() calls in it · total() what a share is of · stored keys that hold it
-- isOpen()          it holds a failure or a slow call · isPast(ends) such an outcome came too late for it
-- push(result, ends, position)   takes an outcome: '1' success, '0' failure, '3' slow
-- isJudged()        there are enough calls · isFailing(bad, threshold) the calls that count as failures are too many of them
-- clear(), save()   forget all; write it · dropOtherKind() delete what a window of another kind left
-- include lib/count-window.lua
-- include lib/time-window.lua
-- include lib/call-log.lua
-- include lib/sequential.lua

local function loadWindow()
  local kind, a, b, c = string.match(ARGV[2], '^(%l+):(%d+):(%d+):(%d+)$')
  a, b, c = tonumber(a), tonumber(b), tonumber(c)
  if kind == 'time' then return loadTimeWindow(a, b, c) end
  if kind == 'log' then return loadCallLog(a, b, c) end
  if kind == 'sequential' then return loadSequential(a, b, c) end
  return loadCountWindow(tonumber(ARGV[2]))
end
