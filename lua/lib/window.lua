-- Which window judges: ARGV 2 is N for a count window, `time:<span ms>:<slots>:<least calls>` for a time window.
-- include lib/count-window.lua
-- include lib/time-window.lua

local function loadWindow()
  local span, slots, minCalls = string.match(ARGV[2], '^time:(%d+):(%d+):(%d+)$')
  if span then return loadTimeWindow(tonumber(span), tonumber(slots), tonumber(minCalls)) end
  return loadCountWindow(tonumber(ARGV[2]))
end
