#!lua flags=no-writes
-- Objects in order of their ids.
--
-- KEYS  index (ids or owned), objects, overlay, statuses
-- ARGV  from, to (bounds of ZRANGEBYLEX), how many at most; by owner: kind and owner, which with
--       a zero byte and the id are a member of the index; else both empty
--
-- Replies {key, value, status, ...} as get.lua does.
local index, objects, overlay, statuses = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local from, to, limit, kind, owner = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local found, count, at = {}, 0, 0
while count < limit do
  local members = redis.call('ZRANGEBYLEX', index, from, to, 'LIMIT', at, limit)
  if #members == 0 then break end
  at = at + #members
  for _, member in ipairs(members) do
    local key = member
    if kind ~= '' then key = kind .. '\0' .. string.match(member, '%z(.*)$') end
    local value = redis.call('HGET', overlay, key) or redis.call('HGET', objects, key)
    local is_theirs = kind == '' or (value and string.match(value, '^%d+ %d+ %d+ %d+ ([^\n]*)\n') == owner)
    if value and value ~= '-' and is_theirs and count < limit then
      local status = ''
      if string.sub(key, 1, 1) == '4' then status = redis.call('HGET', statuses, string.sub(key, 3)) or '' end
      table.insert(found, key)
      table.insert(found, value)
      table.insert(found, status)
      count = count + 1
    end
  end
end
return found
