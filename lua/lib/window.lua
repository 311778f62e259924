-- Which window judges: ARGV 2 is N for a count window, `time:<span ms>:<slots>:<least calls>`, `log:<span ms>:<most calls>:<least calls>`, or
-- `sequential:<what a failure adds>:<what a success takes>:<limit>`. A kind is a file; what all of them have:
--
-- forgetful         a success without a window leaves nothing behind, not even in the fence: it may be read again from another partition
-- reason            why it blocks
-- failures, slow    failed and slow calls in it · recorded() calls in it · total() what a share is of · stored keys that hold it
-- isOpen()          it holds a failure or a slow call · isPast(ends) such an outcome came too late for it
-- push(result, ends, position)   takes an outcome: '1' success, '0' failure, '3' slow
-- moveTo(ends)      of those that are not forgetful: calls that are a span older fall out
-- isJudged()        there are enough calls · isFailing(bad, threshold) the calls that count as failures are too many of them
-- clear(), save()   forget all; write it · dropOtherKind() delete what a window of another kind left
-- A kind is defined where it is loaded: a call pays for every function that it defines, and a plain channel must not pay for what it does not use.

local function loadWindow()
  local kind, a, b, c = string.match(ARGV[2], '^(%l+):(%d+):(%d+):(%d+)$')
  a, b, c = tonumber(a), tonumber(b), tonumber(c)
  if kind == 'time' then
-- include lib/time-window.lua
    return loadTimeWindow(a, b, c)
  elseif kind == 'log' then
-- include lib/call-log.lua
    return loadCallLog(a, b, c)
  elseif kind == 'sequential' then
-- include lib/sequential.lua
    return loadSequential(a, b, c)
  end
-- include lib/count-window.lua
  return loadCountWindow(tonumber(ARGV[2]))
end
