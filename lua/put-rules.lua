#!lua
-- Puts a rules document in place of exactly the one that the caller has read. Versions alone would not do: a configuration centre
-- may have written a document without one in between.
--
-- KEYS[1]  fuseline:config (string)
-- ARGV[1]  SHA-1 (hex) of the text that the caller read; empty if there was none
-- ARGV[2]  the text to put there
-- Returns 1 when it is there now (also when a call whose answer was lost had put it there before), 0 when another was quicker.

local config = KEYS[1]
local seen = ARGV[1]
local text = ARGV[2]

local current = redis.call('GET', config)
if current == text then return 1 end
local now = ''
if current then now = redis.sha1hex(current) end
if now ~= seen then return 0 end
redis.call('SET', config, text)
return 1
