-- Included by the scripts of a shard. Stream ids are compared as text: their halves are 64 bits wide, Lua's numbers only 53.

local function shorter_or_less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function id_before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  if a_ms ~= b_ms then return shorter_or_less(a_ms, b_ms) end
  return shorter_or_less(a_seq, b_seq)
end

local function as_map(flat)
  local map = {}
  for i = 1, #flat, 2 do map[flat[i]] = flat[i + 1] end
  return map
end

-- COUNT 1, not the short form: that one carries the whole of the first and of the last entry, this one only the first.
local function describe(stream, group_name)
  local about = as_map(redis.call('XINFO', 'STREAM', stream, 'FULL', 'COUNT', 1))
  for _, flat in ipairs(about['groups']) do
    local group = as_map(flat)
    if group['name'] == group_name then return about, group end
  end
  return about, nil
end
