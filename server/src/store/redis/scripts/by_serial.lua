#!lua flags=no-writes
-- The object of a serial, as it is or as it was when it was deleted.
--
-- KEYS  head, serials, objects, overlay, statuses, buried
-- ARGV  kind, serial
--
-- Replies {"there", key, value, status} as get.lua does, {"buried", key, value}, {"fold"} where
-- a staged change may bring it and has to be folded in first, or {"unknown"}.
local head, serials, objects, overlay, statuses, buried = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local number = ARGV[1] .. ' ' .. ARGV[2]
local key = redis.call('HGET', serials, number)
if key then
  -- What the overlay deletes is still among the objects.
  for _, place in ipairs({overlay, objects}) do
    local value = redis.call('HGET', place, key)
    if value and string.match(value, '^(%d+) ') == ARGV[2] then
      local status = ''
      if ARGV[1] == '4' then status = redis.call('HGET', statuses, string.sub(key, 3)) or '' end
      return {'there', key, value, status}
    end
  end
end
local kept = redis.call('HGET', buried, number)
if kept then
  local name, value = string.match(kept, '^([^\n]*)\n(.*)$')
  if name then return {'buried', name, value} end
end
if redis.call('HEXISTS', head, 'overlay') == 1 then return {'fold'} end
return {'unknown'}
